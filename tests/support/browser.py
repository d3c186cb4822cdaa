"""A real browser for tests: Chromium, driven over its DevTools protocol with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.patience import PATIENCE_S

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((found for name in NAMES if (found := shutil.which(name))), None)
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--remote-debugging-port=0"),
)


OVERLAPS = """(() => {
  const shown = e => e.checkVisibility() && e.getClientRects().length && !e.closest('details:not([open])');
  const inkOf = e => {
    const range = document.createRange();
    range.selectNodeContents(e);
    const box = e.closest('.box, .heat'), edge = box ? box.getBoundingClientRect() : null;
    return [...range.getClientRects()].filter(r => r.width > 1 && r.height > 1 && (!edge || r.left < edge.right));
  };
  const labels = [...document.querySelectorAll(
    'h1, h2, h3, h4, nav a, thead th, tbody th, .heat td, .bars td.n, .column td, .legend li, .tabs > label, '
    + 'dt, dd, .big, figcaption p, svg text'
  )].filter(e => shown(e) && e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) > 0)
    .map(e => ({ text: e.textContent.trim().slice(0, 40), ink: inkOf(e), e }));
  const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const found = [];
  labels.forEach((a, i) => labels.slice(i + 1).forEach(b => {
    if (a.e.contains(b.e) || b.e.contains(a.e)) return;
    if (a.ink.some(x => b.ink.some(y => over(x, y)))) found.push(a.text + ' | ' + b.text);
  }));
  return found;
})()"""
"""pairs of headers and labels whose ink lies on each other"""
CUT_OFF = """[...document.querySelectorAll('.box, .heat, pre')].filter(e =>
  e.scrollWidth > e.clientWidth + 1 && !getComputedStyle(e).backgroundImage.includes('gradient')
).map(e => e.outerHTML.slice(0, 120))"""
"""boxes that scroll sideways and do not show it"""
OUTSIDE = """[...document.querySelectorAll('main *, header *')].filter(e => {
  const r = e.getBoundingClientRect();
  return r.width && r.right > document.documentElement.clientWidth + 1 && !e.closest('.box, .heat, pre, #tip');
}).map(e => e.outerHTML.slice(0, 120))"""
"""elements beyond the window's right edge"""
TWICE = "(() => { const ids = [...document.querySelectorAll('[id]')].map(e => e.id); return ids.length - new Set(ids).size; })()"  # noqa: E501
"""ids that more than one element has"""
WIDTHS = (400, 1400)
A4_PX = 794
SMALL_PX = 40
DRAWN = """[...document.querySelectorAll('figure')].map(f => {
  const r = f.getBoundingClientRect();
  const drawn = [...f.querySelectorAll('svg, table, code')].map(e => e.getBoundingClientRect())
  return [f.id, r.width, r.height, Math.max(...drawn.map(d => d.width)), Math.max(...drawn.map(d => d.height))] })"""
"""figures by id, their size and that of what is drawn in them"""


class Socket:
    """As much of a websocket client as DevTools needs: text both ways, masked from here."""

    def __init__(self, url: str) -> None:
        host, port, path = re.fullmatch(r"ws://([^:/]+):(\d+)(/.*)", url).groups()  # type: ignore[union-attr]
        self.connection = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        self.connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self.stream = self.connection.makefile("rb")
        assert b"101" in self.stream.readline()
        while self.stream.readline().strip():
            pass

    def send(self, text: str) -> None:
        data, mask = text.encode(), os.urandom(4)
        size = bytes([0x80 | len(data)]) if len(data) < 126 else (
            struct.pack(">BH", 0xFE, len(data)) if len(data) < 65536 else struct.pack(">BQ", 0xFF, len(data))
        )  # fmt: skip
        self.connection.sendall(b"\x81" + size + mask + bytes(b ^ mask[k % 4] for k, b in enumerate(data)))

    def receive(self) -> str:
        parts, last = [], False
        while not last:
            head, size = self._read(2)
            last, size = bool(head & 0x80), size & 0x7F
            if size > 125:
                size = int.from_bytes(self._read(2 if size == 126 else 8), "big")
            data = self._read(size)
            if head & 0x0F in (0, 1):
                parts.append(data)
        return b"".join(parts).decode()

    def _read(self, size: int) -> bytes:
        data = self.stream.read(size)
        assert len(data) == size, "the browser closed the connection"
        return data


class Page:
    """One tab, and what went on in it: messages on its console and requests to the network."""

    def __init__(self, socket: Socket) -> None:
        self.socket, self.count = socket, 0
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session: str | None = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("id") == self.count:
                assert "error" not in answer, answer["error"]
                return answer["result"]
            self.events.append(answer)

    def open(self, file: Path, width: int, height: int = 900, dark: bool = False, script: bool = True) -> None:
        """Shows a file in a window of this size, and waits until it is loaded."""
        self.events.clear()
        media = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=media)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        phone = width < 700
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Page.navigate", url=file.resolve().as_uri())
        until = time.monotonic() + PATIENCE_S
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            assert time.monotonic() < until, "the page did not load"
            self.events.append(json.loads(self.socket.receive()))

    def js(self, expression: str) -> Any:
        """The value of an expression; what it throws fails the test."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def screenshot(self, target: Path, height: int | None = None) -> None:
        """Of the whole page, or from its top down to a height."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        target.write_bytes(base64.b64decode(shot["data"]))

    def diagnostics(self) -> list[str]:
        """Errors and warnings of the console, exceptions included."""
        self.call("Runtime.evaluate", expression="1")
        bad = []
        for e in self.events:
            method, told = e.get("method"), e.get("params", {})
            if method == "Runtime.exceptionThrown":
                bad.append(str(told["exceptionDetails"]))
            elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                bad.append(told["entry"]["text"])
            elif method == "Runtime.consoleAPICalled":
                bad.append(str(told["args"]))
        return bad

    def requests(self) -> list[str]:
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]


@contextmanager
def browser() -> Iterator[Page]:
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={home}", "about:blank"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            yield Page(Socket(_address(process)))
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)
            assert process.stderr is not None
            process.stderr.close()


def _address(process: subprocess.Popen[bytes]) -> str:
    """Where it listens: it says so on stderr."""
    assert process.stderr is not None
    text, until = b"", time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        if select.select([process.stderr], [], [], 1.0)[0]:
            text += os.read(process.stderr.fileno(), 4096)
            found = re.search(rb"DevTools listening on (ws://\S+)\s", text)
            if found:
                return found[1].decode()
    raise AssertionError(f"chromium did not start: {text.decode(errors='replace')[-500:]}")


def is_whole_and_quiet(page: Page, file: Path, width: int, dark: bool) -> None:
    """Open a page: nothing complains, nothing is fetched, and nothing overlaps or is cut off without a sign."""
    page.open(file, width, dark=dark)
    assert page.diagnostics() == []
    assert page.requests() == [file.resolve().as_uri()]
    assert page.js("document.documentElement.scrollWidth") == width
    assert page.js(OUTSIDE) == []
    assert page.js(OVERLAPS) == []
    assert page.js(CUT_OFF) == []


def figures_drawn(page: Page) -> set[str]:
    """The ids of the figures of the open page, none of which is too small to be seen."""
    figures = page.js(DRAWN)
    for id_, *sizes in figures:
        assert min(sizes) > SMALL_PX, (id_, sizes)
    return {id_ for id_, *_ in figures}


def fits_on_paper(page: Page, file: Path) -> None:
    page.open(file, A4_PX)
    page.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert page.js("document.documentElement.scrollWidth") == A4_PX
    assert page.js("document.querySelector('nav').getBoundingClientRect().height") == 0
    page.call("Emulation.setEmulatedMedia", media="", features=[])


def links_lead_to_sections(page: Page, file: Path, count: int) -> None:
    page.open(file, 1280)
    lost = "[...document.querySelectorAll('nav a')].filter(a => !document.querySelector(a.getAttribute('href'))).length"
    assert page.js(lost) == 0
    assert page.js("document.querySelectorAll('nav a').length") == count


def names_are_text(page: Page, names: Iterable[str]) -> None:
    """Whatever users name things is shown, and does nothing: no markup, no handlers, one script."""
    assert page.js("document.scripts.length") == 1
    assert page.js("document.querySelectorAll('img, iframe, object, embed, link, form').length") == 0
    handlers = "[...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(a => /^on/.test(a))).length"
    assert page.js(handlers) == 0
    text = page.js("document.body.textContent")
    for name in names:
        assert name.replace("‮", "\\u202e") in text
