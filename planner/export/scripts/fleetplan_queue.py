"""A queue for work that may wait: done in the hours that the plan has replicas for it, and before its deadline.

Requests wait in Redis, ordered by their deadlines. `put` adds them, one JSON body of a chat completion to a line.
`work` does them through the gateway: at the plan's rate in the plan's hours, and at any hour what would be late
otherwise. It ends when its hour is over or nothing is left to do, so a CronJob can start it every few minutes. Answers
are kept for two days under fleetplan:WORKLOAD:answer:ID.

    fleetplan_queue.py put WORKLOAD < requests.jsonl
    fleetplan_queue.py work WORKLOAD
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

PLAN = Path(__file__).with_name("queue.json")
LOOK_S = 1.0
"""between looks at the queue"""
KEPT_S = 48 * 3600
TIMEOUT_S = 3600
LATER = (401, 403, 408, 409, 425, 429)
"""refusals that are not the request's fault"""


class Queue:
    """Requests by their deadline, in a sorted set of Redis."""

    def __init__(self, redis: Any, workload: str) -> None:
        self.redis, self.workload = redis, workload
        self.key = f"fleetplan:{workload}"

    def put(self, body: Mapping[str, Any], deadline: float) -> str:
        number = uuid.uuid4().hex
        self.redis.zadd(self.key, {json.dumps({"id": number, "deadline": deadline, "body": body}): deadline})
        return number

    def waiting(self) -> int:
        return int(self.redis.zcard(self.key))

    def due(self, before: float) -> int:
        """Requests whose deadline is not later than that."""
        return int(self.redis.zcount(self.key, "-inf", before))

    def take(self, most: int, now: float) -> list[dict[str, Any]]:
        """The most urgent ones, which nobody else gets unless this worker is lost; at no moment are they nowhere."""
        texts = self.redis.zrange(self.key, 0, most - 1) if most > 0 else []
        for text in texts:
            self.redis.zadd(f"{self.key}:taken", {text: now + TIMEOUT_S})
            self.redis.zrem(self.key, text)
        return [json.loads(text) for text in texts]

    def give_back(self, item: Mapping[str, Any]) -> None:
        self.redis.zrem(f"{self.key}:taken", json.dumps(item))
        self.redis.zadd(self.key, {json.dumps(item): item["deadline"]})

    def recover(self, now: float) -> None:
        """What lost workers had taken waits again."""
        for text in self.redis.zrangebyscore(f"{self.key}:taken", "-inf", now):
            self.give_back(json.loads(text))

    def keep(self, item: Mapping[str, Any], answer: str) -> None:
        self.redis.set(f"{self.key}:answer:{item['id']}", answer, ex=KEPT_S)
        self.redis.zrem(f"{self.key}:taken", json.dumps(item))

    def announce(self, due: int) -> None:
        """The length of a list says how many requests are due: a trigger of KEDA can wake replicas by it."""
        self.redis.delete(f"{self.key}:due")
        if due:
            self.redis.rpush(f"{self.key}:due", *["1"] * due)


class Pace:
    """How many requests may begin now."""

    def __init__(self, plan: Mapping[str, Any], now: Callable[[], float] = time.time) -> None:
        self.plan, self.now, self.zone = plan, now, ZoneInfo(plan["time_zone"])
        self.credit, self.last = 0.0, now()

    def planned_rps(self) -> float:
        at = datetime.fromtimestamp(self.now(), self.zone)
        hours = self.plan["requests_per_s"]["weekend" if at.weekday() >= 5 else "weekday"]
        return float(hours[at.hour])

    def wake_before(self, waiting: int) -> float:
        """Deadlines up to then are late unless work on them begins now: a start, and the whole queue before them."""
        return self.now() + float(self.plan["start_s"]) + waiting / float(self.plan["most_per_s"])

    def may_begin(self, queue: Queue) -> int:
        rps, now = self.planned_rps(), self.now()
        self.credit = min(self.credit + (now - self.last) * rps, LOOK_S * rps + 1)
        self.last = now
        due = queue.due(self.wake_before(queue.waiting()))
        queue.announce(due)
        return max(int(self.credit), due)

    def began(self, requests: int) -> None:
        self.credit = max(0.0, self.credit - requests)


def work(queue: Queue, pace: Pace, send: Callable[[Mapping[str, Any]], str], sleep: Callable[[float], None]) -> int:
    """Until the hour is over, or nothing is left to do in it; returns how many requests were answered."""
    hour, done, at_once = int(pace.now() // 3600), 0, int(pace.plan["at_once"])
    running: dict[Future[str | None], dict[str, Any]] = {}
    queue.recover(pace.now())
    with ThreadPoolExecutor(at_once) as workers:
        while True:
            over = int(pace.now() // 3600) != hour
            items = [] if over else queue.take(min(pace.may_begin(queue), at_once - len(running)), pace.now())
            pace.began(len(items))
            running |= {workers.submit(_answer, send, item): item for item in items}
            ended, _ = wait(running, timeout=0 if over else LOOK_S / 10)
            for future in ended:
                item, answer = running.pop(future), future.result()
                if answer is None:
                    queue.give_back(item)
                else:
                    queue.keep(item, answer)
                    done += 1
            rests = over or not (items or (queue.waiting() and (pace.planned_rps() or pace.may_begin(queue))))
            if rests and not running:
                return done
            sleep(LOOK_S)


def _answer(send: Callable[[Mapping[str, Any]], str], item: Mapping[str, Any]) -> str | None:
    """None where the gateway is too busy, or cannot answer now; what it will never take is answered by its refusal."""
    try:
        return send(item["body"])
    except urllib.error.HTTPError as error:
        if 400 <= error.code < 500 and error.code not in LATER:
            return json.dumps({"error": {"code": error.code, "message": error.read().decode(errors="replace")}})
        return None
    except (OSError, urllib.error.URLError):
        return None


def through_the_gateway(workload: str) -> Callable[[Mapping[str, Any]], str]:
    address, key = os.environ["FLEETPLAN_GATEWAY"].rstrip("/"), os.environ["FLEETPLAN_GATEWAY_KEY"]

    def send(body: Mapping[str, Any]) -> str:
        data = json.dumps({**body, "model": workload}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        request = urllib.request.Request(f"{address}/v1/chat/completions", data, headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return str(response.read().decode())

    return send


def put(queue: Queue, lines: Iterable[str], plan: Mapping[str, Any]) -> list[str]:
    """Numbers under which the answers will be found; nothing is put where a line is no JSON."""
    deadline = time.time() + 3600 * float(plan["deadline_h"])
    bodies = [json.loads(line) for line in lines if line.strip()]
    return [queue.put(body, deadline) for body in bodies]


def main(verb: str, workload: str) -> None:
    import redis

    plan = json.loads(PLAN.read_text(encoding="utf-8"))["workloads"][workload]
    queue = Queue(redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True), workload)
    if verb == "put":
        print("\n".join(put(queue, sys.stdin, plan)))
    elif verb == "work":
        done = work(queue, Pace(plan), through_the_gateway(workload), time.sleep)
        print(f"{workload}: {done} done, {queue.waiting()} waiting")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*(sys.argv[1:3] if len(sys.argv) > 2 else ("help", "")))
