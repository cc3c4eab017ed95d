"""An endpoint that fails on a seeded schedule, and knows of every fault whether the run got over it.

Each request, known by its content, meets a few faults of different kinds and is then answered rightly. Faults are dealt
from one deck a role, in which each kind lies a fixed number of times.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal

from chatserver import Answer, Call

Role = Literal["controller", "reader", "judge", "embedder"]
# What a run makes of a fault: nothing to mend, asked again by the client, asked again for a usable reply, or a row or
# job that fails and is repeated by the next run.
Outcome = Literal["harmless", "retried", "asked again", "failed"]
CHAT: tuple[Role, ...] = ("controller", "reader", "judge")
ALL: tuple[Role, ...] = (*CHAT, "embedder")
PADDING_BYTES = 3_000_000
_LAST = {"failed": 1, "harmless": 2}
LONGEST_S = 60.0  # that a reply is held back, should the client never leave


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: for the table.
        make: the faulty answer, from the right one.
        logged: under what name a job's log counts it.
        slow: it takes as long as the client's patience, so it is dealt once a role.
    """

    name: str
    outcome: Outcome
    make: Callable[[Answer], Answer]
    logged: str = ""
    roles: tuple[Role, ...] = ALL
    slow: bool = False


def with_status(status: int, **headers: str) -> Callable[[Answer], Answer]:
    """An error object with a status, and headers, whose names have hyphens for underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Answer({"error": {"message": "not now"}}, status, named)


def with_body(change: Callable[[bytes], bytes], **headers: str) -> Callable[[Answer], Answer]:
    """The right answer with other bytes."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda right: Answer(change(json.dumps(right.body).encode()), headers=named)


def with_object(change: Callable[[dict[str, Any]], object]) -> Callable[[Answer], Answer]:
    """The right answer with its object changed in place."""

    def make(right: Answer) -> Answer:
        body = deepcopy(right.body)
        assert isinstance(body, dict)
        change(body)
        return Answer(body)

    return make


def with_text(change: Callable[[str], object], finish_reason: str = "stop") -> Callable[[Answer], Answer]:
    """The right answer with another content of its message."""

    def put(body: dict[str, Any]) -> None:
        (choice,) = body["choices"]
        choice["message"]["content"] = change(choice["message"]["content"])
        choice["finish_reason"] = finish_reason

    return with_object(put)


def sent_by(send: Callable[[BaseHTTPRequestHandler, bytes], None]) -> Callable[[Answer], Answer]:
    """The right answer, sent in an odd way."""
    return lambda right: replace(right, send=send)


def redirected(status: int, location: str) -> Callable[[Answer], Answer]:
    """A redirect."""
    return lambda _: Answer({}, status, {"location": location})


def _vectors(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Answer], Answer]:
    return with_object(lambda body: change(body["data"]))


def _begin(handler: BaseHTTPRequestHandler, length: int) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(length))
    handler.end_headers()
    handler.wfile.flush()


def _reset_inside(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    _begin(handler, len(content))
    handler.wfile.write(content[: len(content) // 2])
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def _end_inside(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    _begin(handler, len(content))
    handler.wfile.write(content[: len(content) // 2])
    handler.close_connection = True


def _stall(handler: BaseHTTPRequestHandler, _: bytes) -> None:
    handler.close_connection = True
    handler.connection.settimeout(LONGEST_S)
    with suppress(OSError):
        handler.connection.recv(1)  # nothing, as soon as the client has left


def _trickle(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    _begin(handler, len(content))
    size = len(content) // 5 + 1
    for start in range(0, len(content), size):
        time.sleep(0.02)
        handler.wfile.write(content[start : start + size])
        handler.wfile.flush()


def _trickle_for_ever(handler: BaseHTTPRequestHandler, content: bytes) -> None:
    handler.close_connection = True
    _begin(handler, 10_000_000)
    with suppress(OSError):
        for _ in range(round(LONGEST_S / 0.1)):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.1)


def _fenced(text: str) -> str:
    return f"```json\n{text}\n```"


def _in_prose(text: str) -> str:
    return f"Here is what you asked for: {text}\nI hope that it helps."


def _with_label(label: str) -> Callable[[Answer], Answer]:
    return with_text(lambda _: f'{{"label": {label}, "reason": "it says so"}}')


def _without_last(data: list[dict[str, Any]]) -> None:
    data.pop()


def _not_a_number(data: list[dict[str, Any]]) -> None:
    data[0]["embedding"][0] = float("nan")


def _other_dimension(data: list[dict[str, Any]]) -> None:
    for item in data:
        item["embedding"].append(1.0)


def _twice(data: list[dict[str, Any]]) -> None:
    data[-1]["index"] = 0 if len(data) > 1 else 7


def faults(elsewhere: str) -> list[Fault]:
    """All kinds.

    Args:
        elsewhere: address of another server, to which redirects lead.
    """
    moment = format_datetime(datetime.now(UTC), usegmt=True)
    made = "asked again"
    return [
        Fault("429, Retry-After in seconds", "retried", with_status(429, retry_after="0.05"), "429"),
        Fault("429, Retry-After as a date", "retried", with_status(429, retry_after=moment), "429"),
        Fault("500", "retried", with_status(500), "500"),
        Fault("503", "retried", with_status(503), "503"),
        Fault("connection reset", "retried", lambda _: Answer({}, reset=True), "connection lost"),
        Fault("reset within the body", "retried", sent_by(_reset_inside), "connection lost"),
        Fault("body cut short", "retried", sent_by(_end_inside), "connection lost"),
        Fault("stall", "retried", sent_by(_stall), "time-out", slow=True),
        Fault("slow trickle without end", "retried", sent_by(_trickle_for_ever), "time-out", slow=True),
        Fault("slow trickle in time", "harmless", sent_by(_trickle)),
        Fault("malformed JSON", "retried", with_body(lambda body: body.replace(b":", b"=", 1)), "no JSON"),
        Fault("truncated JSON", "retried", with_body(lambda body: body[: len(body) // 2]), "no JSON"),
        Fault(
            "HTML page with status 200",
            "retried",
            with_body(lambda _: b"<html><body>Sign in</body></html>", content_type="text/html"),
            "no JSON",
        ),
        Fault("list instead of object", "retried", with_body(lambda body: b"[" + body + b"]"), "no JSON"),
        Fault("JSON nested beyond measure", "retried", with_body(lambda _: b"[" * 200_000), "no JSON"),
        Fault("error with status 200", "retried", lambda _: Answer({"error": {"message": "no"}}), "error in reply"),
        Fault("wrong content type", "harmless", with_body(lambda body: body, content_type="text/plain")),
        Fault("huge reply", "harmless", with_body(lambda body: body + b" " * PADDING_BYTES)),
        Fault("redirect to another host", "failed", redirected(302, elsewhere), "302"),
        Fault("usage missing", "harmless", with_object(lambda body: body.pop("usage", None))),
        Fault("no choices", "retried", with_object(lambda body: body["choices"].clear()), "no choices", CHAT),
        Fault(
            "null message",
            "retried",
            with_object(lambda body: body["choices"][0].update(message=None)),
            "no message",
            CHAT,
        ),
        Fault("null content", "retried", with_text(lambda _: None), "no content", CHAT),
        Fault("cut reply (length)", "failed", with_text(lambda text: text[:5], "length"), "length", ("reader",)),
        Fault("empty text", "failed", with_text(lambda _: ""), "malformed_reply", ("reader",)),
        Fault("JSON in a fence", "harmless", with_text(_fenced), "", ("controller", "judge")),
        Fault("JSON in prose", "harmless", with_text(_in_prose), "", ("controller", "judge")),
        Fault("label 2", made, _with_label("2"), "no label", ("judge",)),
        Fault('label "1"', made, _with_label('"1"'), "no label", ("judge",)),
        Fault("label true", made, _with_label("true"), "no label", ("judge",)),
        Fault("two objects", made, with_text(lambda text: f"{text}\n{text}"), "no label", ("judge",)),
        Fault("cut verdict (length)", made, with_text(lambda text: text[:9], "length"), "no label", ("judge",)),
        Fault("empty verdict", made, with_text(lambda _: ""), "no label", ("judge",)),
        Fault("vector missing", "retried", _vectors(_without_last), "bad embeddings", ("embedder",)),
        Fault("vector twice", "retried", _vectors(_twice), "bad embeddings", ("embedder",)),
        Fault("vector with NaN", "retried", _vectors(_not_a_number), "bad embeddings", ("embedder",)),
        Fault("vectors in another order", "harmless", _vectors(list.reverse), "", ("embedder",)),
        Fault("wrong dimension", "failed", _vectors(_other_dimension), "wrong dimension", ("embedder",)),
    ]


def role_of(call: Call) -> Role:
    """Whose request it is."""
    roles: Mapping[str, Role] = {"embedding": "embedder", "reader": "reader", "judge": "judge"}
    return roles.get(call.task, "controller")


@dataclass
class FaultSchedule:
    """Replies of a :class:`~chatserver.ChatServer`: faulty ones on schedule, else the right ones.

    Args:
        right: the right answer to a request.
        kinds: kinds of fault.
        seed: of the order in which they are dealt.
        most: how many faults one request meets.
        times: how often each kind lies in the deck of each role, but for slow ones and such as fail.
        enabled: False while everything is answered rightly.

    Attributes:
        injected, survived: by role and name of the kind; a fault is survived when its request was rightly answered
            later, or at once where it is harmless.
    """

    right: Callable[[Call], Answer]
    kinds: Iterable[Fault]
    seed: int
    most: int = 3
    times: int = 1
    enabled: bool = True
    injected: Counter[tuple[Role, str]] = field(default_factory=Counter)
    survived: Counter[tuple[Role, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._guard, self._random = threading.Lock(), random.Random(self.seed)
        self._hands: dict[str, list[Fault]] = {}
        self._open: defaultdict[str, list[tuple[Role, str]]] = defaultdict(list)
        self.by_name = {kind.name: kind for kind in self.kinds}
        self._decks = {role: self._shuffled(role) for role in ALL}

    def __call__(self, call: Call) -> Answer:
        """The answer to one request."""
        right = self.right(call)
        if not self.enabled:
            return right
        role = role_of(call)
        # A judge that is asked again gets another seed; it is the same request all the same.
        key = call.path + json.dumps(
            {name: value for name, value in call.body.items() if name != "seed"}, sort_keys=True
        )
        with self._guard:
            if key not in self._hands:
                self._hands[key] = self._deal(role)
            fault = self._hands[key].pop(0) if self._hands[key] else None
            if fault is not None:
                self.injected[role, fault.name] += 1
                self._open[key].append((role, fault.name))
            if fault is None or fault.outcome == "harmless":
                self.survived.update(self._open.pop(key, []))
        return right if fault is None else fault.make(right)

    def logged(self, outcome: Outcome) -> Counter[str]:
        """What the logs of the jobs must have counted with an outcome, by the names that they give."""
        counts: Counter[str] = Counter()
        for (_, name), count in self.injected.items():
            if self.by_name[name].outcome == outcome:
                counts[self.by_name[name].logged] += count
        return counts

    def table(self) -> str:
        """A Markdown table of the kinds over all roles: injected, survived, lost."""
        rows = ["| fault | what a run makes of it | injected | survived | lost |", "|---|---|---:|---:|---:|"]
        totals = Counter[str]()
        for name, kind in self.by_name.items():
            injected = sum(self.injected[role, name] for role in ALL)
            survived = sum(self.survived[role, name] for role in ALL)
            totals.update(injected=injected, survived=survived)
            rows.append(f"| {name} | {kind.outcome} | {injected} | {survived} | {injected - survived} |")
        injected, survived = totals["injected"], totals["survived"]
        return "\n".join([*rows, f"| all | | {injected} | {survived} | {injected - survived} |"])

    def undealt(self) -> list[tuple[Role, str]]:
        """What no request has met."""
        return [(role, kind.name) for role in ALL for kind in self._decks[role]]

    def _shuffled(self, role: Role) -> list[Fault]:
        """A role's deck; such as fail lie on top, so that few runs meet them."""
        kinds = [kind for kind in self.by_name.values() if role in kind.roles]
        passing = [kind for kind in kinds if kind.outcome != "failed"]
        deck = [kind for kind in passing for _ in range(1 if kind.slow else self.times)]
        self._random.shuffle(deck)
        return deck + [kind for kind in kinds if kind.outcome == "failed"]

    def _deal(self, role: Role) -> list[Fault]:
        """Faults for one request, in the order in which it meets them: such as are repeated at once, at most one that
        fails until the next run, and at most one that is no harm, after which nobody asks again."""
        deck, hand = self._decks[role], list[Fault]()
        for fault in deck[::-1]:
            met = {one.outcome for one in hand}
            if len(hand) < self.most and not (fault.outcome in ("failed", "harmless") and fault.outcome in met):
                hand.append(fault)
        for fault in hand:
            deck.remove(fault)
        return sorted(hand, key=lambda fault: _LAST.get(fault.outcome, 0))
