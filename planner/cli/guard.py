"""The command in two processes: an inner one that works, and an outer one that nothing in the work can take along.

The outer process holds the clock and hears Ctrl-C and SIGTERM; the inner one is only asked to stop, and does so where
it can (solvers/backends/clock.py). On the way it hands over what there is: a checked result, and what to do with it.
If it then does not end in time, or is killed, or crashes, the outer process puts out the latest that it was given. It
is forked before anything is imported, which takes a few milliseconds; where there is no fork, there is one process.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap

    Finish = Callable[[str], None]
    """puts out what was handed over; it gets the reason why that is all, and may end with an exit code"""

LOOK_EVERY_S = 0.1
PATIENCE_S, FIRST_PATIENCE_S = 5.0, 15.0
"""in which work that is asked to stop must come to a place where it can; before it has handed over anything"""
LATE_S, LATEST_S = 2.0, 3.5
"""after its deadline that work may go on; where it is finishing, or has handed over nothing yet"""
INSIST_S = 0.5
"""after a signal, from when on another one means: at once"""
INTERRUPTED, OUT_OF_TIME, MEMORY, CRASHED = "interrupted", "time-limit", "memory", "crashed"
SAID = {
    INTERRUPTED: ("interrupted before there was a result", 130),
    OUT_OF_TIME: ("the time limit was reached before anything was known. Try a longer --time-limit, or none.", 4),
    MEMORY: ("this case needs more memory than there is. Use a larger machine, or a smaller menu.", 2),
    CRASHED: ("the work crashed. This is a defect of fleetplan or of a solver; please report it.", 1),
}
"""what the end of the work without a result is called, and its exit code"""
KILLED = 9
"""the signal of a machine that is out of memory"""
ASKED, STOPPABLE, FINISHING = range(3)
"""as in solvers/backends/clock.py"""


# -- the inner process ------------------------------------------------------------------------------------


class _Inner:
    """What this process knows of the outer one; nothing where there is none."""

    outer: int | None = None
    """its number"""
    began: float | None = None
    """when it did [monotonic clock]"""
    pipe = -1
    flags: mmap | None = None
    keeps = False
    """whether the outer process has something to put out"""


def join_the_outer_process() -> None:
    """End with it, and let it see what goes on."""
    if _Inner.outer is None or _Inner.flags is None:
        return
    from solvers.backends.clock import watched_through
    from solvers.backends.parent import die_with

    die_with(_Inner.outer)
    watched_through(_Inner.flags)


def began() -> float:
    """When the command did, as its user counts [monotonic clock]."""
    return time.monotonic() if _Inner.began is None else _Inner.began


def end_by(deadline: float) -> None:
    """The command is to be over by then [monotonic clock]."""
    _tell(b"D", repr(deadline).encode())


def keep(finish: Finish) -> None:
    """Hand over what there is to be put out, should nothing more come of this process."""
    if _Inner.outer is not None:
        import pickle

        _Inner.keeps = True
        _tell(b"K", pickle.dumps(finish, pickle.HIGHEST_PROTOCOL))


def put_out() -> None:
    """All is put out: nothing that was handed over is needed."""
    _Inner.keeps = False
    _tell(b"K", b"")


def hand_over(reason: str) -> bool:
    """Let the outer process say why work ends here, and put out what it has; False where there is none."""
    if _Inner.outer is None or (reason != MEMORY and not _Inner.keeps):
        return False
    _tell(b"H", reason.encode())
    return True


def _tell(kind: bytes, text: bytes) -> None:
    if _Inner.outer is None:
        return
    left = memoryview(kind + len(text).to_bytes(8, "big") + text)
    try:
        while left:
            left = left[os.write(_Inner.pipe, left) :]
    except OSError:  # it is gone, and this process soon is
        _Inner.outer = None


# -- the outer process ------------------------------------------------------------------------------------


def guarded(work: Callable[[], int], finish: Callable[[bytes, str], int]) -> int:
    """The exit code of the work, which is done in a process of its own where that can be had.

    `finish` puts out what was handed over, for a reason; nothing, where that is all there is.
    """
    if not hasattr(os, "fork"):
        return work()
    started = time.monotonic()
    import signal
    from mmap import mmap

    as_usual = (signal.default_int_handler, signal.SIG_DFL)
    heard = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) in as_usual]
    signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    try:
        flags, pipe = mmap(-1, 3), _pipe()
        outer, inner = os.getpid(), os.fork()
    except OSError:  # the machine has no more processes, files or memory: the work says so, or does without
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        return work()
    if inner == 0:
        os.close(pipe[0])
        for number in heard:
            # A terminal's Ctrl-C is for the outer process; who wants to end this one by its number means all of it.
            ignored = number == signal.SIGINT
            signal.signal(number, signal.SIG_IGN if ignored else lambda number, frame: flags.__setitem__(ASKED, 1))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
        _Inner.outer, _Inner.pipe, _Inner.flags, _Inner.began = outer, pipe[1], flags, started
        return _worked(work)
    os.close(pipe[1])
    came: list[float] = []
    for number in heard:
        signal.signal(number, lambda number, frame: came.append(time.monotonic()))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, heard)
    reason, kept, code = _Watch(inner, pipe[0], flags, came).ended()
    return finish(kept, reason) if reason else code


def _pipe() -> tuple[int, int]:
    """One whose ends are no standard streams, even where those are closed."""
    import fcntl

    ends = os.pipe()
    moved = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3) for end in ends]
    for end in ends:
        os.close(end)
    return moved[0], moved[1]


def _worked(work: Callable[[], int]) -> int:
    try:
        code: int | str | None = work()
    except SystemExit as stop:
        code = stop.code
    number = code if isinstance(code, int) else int(code is not None)
    _tell(b"E", str(number).encode())
    return number


class _Watch:
    """Over the inner process, until it ends or has to."""

    def __init__(self, inner: int, pipe: int, flags: mmap, came: list[float]) -> None:
        self.inner, self.pipe, self.flags, self.came = inner, pipe, flags, came
        """`came`: when signals did"""
        self.unread = b""
        self.deadline = float("inf")
        self.kept = b""
        self.exit_code: int | None = None
        self.reason = ""
        """why the work ended without a result of its own; empty as long as it has not"""
        self.finishing = self.asked = float("inf")
        """when work was last seen to finish, and when it was asked to stop"""

    def ended(self) -> tuple[str, bytes, int]:
        """Why the inner process ended without a result of its own, what it had handed over, and its exit code."""
        while self._hear() and not self.reason:
            self._pass_on()
            self.reason = self._has_to_end(time.monotonic())
            if self.reason:
                import signal

                os.kill(self.inner, signal.SIGKILL)
        status = os.waitpid(self.inner, 0)[1]
        if self.exit_code is None and os.WIFSIGNALED(status):
            self.reason = self.reason or (MEMORY if os.WTERMSIG(status) == KILLED else CRASHED)
            _clear_the_terminal()
        return self.reason, self.kept, os.WEXITSTATUS(status) if self.exit_code is None else self.exit_code

    def _hear(self) -> bool:
        """Take what the inner process tells; False once it has ended."""
        import select

        if not select.select([self.pipe], [], [], LOOK_EVERY_S)[0]:
            return True
        told = os.read(self.pipe, 1 << 20)
        self.unread += told
        while len(self.unread) >= 9 and len(self.unread) >= 9 + int.from_bytes(self.unread[1:9], "big"):
            end = 9 + int.from_bytes(self.unread[1:9], "big")
            self._take(self.unread[:1], self.unread[9:end])
            self.unread = self.unread[end:]
        return bool(told)

    def _take(self, kind: bytes, text: bytes) -> None:
        if kind == b"D":
            self.deadline = float(text)
        elif kind == b"K":
            self.kept = text
        elif kind == b"H":
            self.reason = text.decode()
        else:
            self.exit_code = int(text)

    def _pass_on(self) -> None:
        """Ask the inner process to stop where somebody wants that."""
        if self.came:
            self.flags[ASKED] = 1
        if self.flags[ASKED] and self.asked == float("inf"):
            self.asked = self.finishing = time.monotonic()
        if self.flags[FINISHING]:
            self.finishing = time.monotonic()

    def _has_to_end(self, now: float) -> str:
        """Why the inner process must not go on; empty where it may."""
        if self.exit_code is not None or self.reason:
            return ""
        finishing = bool(self.flags[FINISHING])
        insisted = bool(self.came) and self.came[-1] > self.came[0] + INSIST_S
        patience_s = PATIENCE_S if self.kept else FIRST_PATIENCE_S
        if insisted or not self.flags[STOPPABLE]:
            patience_s = 0.0
        if self.asked < float("inf") and not finishing and now >= self.finishing + patience_s:
            return INTERRUPTED
        late_s = LATE_S if self.kept and not finishing else LATEST_S
        return OUT_OF_TIME if now >= self.deadline + late_s and (self.kept or not finishing) else ""


def _clear_the_terminal() -> None:
    """End the line of progress, and show the cursor again that it hides."""
    try:
        if sys.stderr is not None and sys.stderr.isatty():
            os.write(2, b"\r\x1b[K\x1b[?25h")
    except (OSError, ValueError):
        return
