"""An OpenAI-compatible endpoint on loopback whose replies a function decides, and which remembers what it was asked."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# What a conversation is for, by words of its system prompt.
_TASKS = {
    "two reusable memory notes": "note",
    "retrieval-ready event text": "event",
    "structured retrieval queries": "query",
    "select memory entries": "rerank",
    "experienced colleague": "reader",
    "strict grader": "judge",
}
_REPAIR = "Your last reply could not be used"
_CHECK = "This is a check of the endpoint before a run."


@dataclass
class Answer:
    """What the server does with one request; ``body`` is sent as JSON unless it is bytes already, and by ``send``, if
    given, which gets the connection's handler and the bytes."""

    body: object
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    reset: bool = False
    delay_s: float = 0.0
    send: Callable[[BaseHTTPRequestHandler, bytes], None] | None = None


@dataclass(frozen=True)
class Call:
    """One request.

    Attributes:
        path, headers, body: as they came; names of headers in lower case.
        repeat: how many equal requests came before.
    """

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    repeat: int

    @property
    def task(self) -> str:
        """What the conversation is for: ``embedding``, note, event, query, rerank, reader, judge or ``chat``."""
        if self.path.endswith("/embeddings"):
            return "embedding"
        system = str(self.body["messages"][0]["content"])
        return next((task for words, task in _TASKS.items() if words in system), "chat")

    @cached_property
    def kind(self) -> str:
        """The task, or ``repair`` where the model is shown its own reply and asked again."""
        return "repair" if self.task != "embedding" and self.texts[-1].startswith(_REPAIR) else self.task

    @property
    def is_check(self) -> bool:
        """It is no work of a run, which looks at its endpoints before."""
        texts = self.body.get("input", []) if self.path.endswith("/embeddings") else self.texts
        return any(_CHECK in text for text in texts)

    @cached_property
    def texts(self) -> list[str]:
        """The text of each message; images are left out."""
        return ["".join(_parts(message, "text")) for message in self.body.get("messages", [])]

    @property
    def prompt(self) -> str:
        """The text of the first user message."""
        roles = [message["role"] for message in self.body["messages"]]
        return self.texts[roles.index("user")]

    @property
    def images(self) -> list[str]:
        """The addresses of all images, in order."""
        return [image["url"] for message in self.body.get("messages", []) for image in _parts(message, "image_url")]


class ChatServer:
    """The endpoint; a context manager, and it stops with the process at the latest.

    Args:
        reply: decides what is replied to a request of a run.
        check: the same for a request by which a run looks at its endpoints beforehand; by default all is well, and
            embeddings are those of ``reply``.

    Attributes:
        url: its address, for ``<endpoint>_BASE_URL``.
        models: entries of its list of models; None: it has no such list.
        pages: what else a GET finds, by path.
        calls: all requests but those that look beforehand, in order of arrival.
        looks: paths of the GETs and of the requests that look beforehand, in order of arrival.
        most_running: how many requests were under way at once, at most.
    """

    def __init__(
        self,
        reply: Callable[[Call], Answer],
        models: Sequence[dict[str, Any]] | None = None,
        check: Callable[[Call], Answer] | None = None,
    ) -> None:
        self.models, self.pages = models, dict[str, Answer]()
        self.calls: list[Call] = []
        self.looks: list[str] = []
        self.most_running = 0
        self._reply, self._running, self._seen = reply, 0, Counter[str]()
        self._check = check or self._all_is_well
        self._guard = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client was killed
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> ChatServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def counts(self) -> Counter[str]:
        """Requests by kind."""
        return Counter(call.kind for call in self.of())

    def of(self, *kinds: str) -> list[Call]:
        """The requests of these kinds, in order of arrival; without kinds all."""
        with self._guard:
            calls = list(self.calls)
        return [call for call in calls if not kinds or call.kind in kinds]

    def answer(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Answer:
        """Remember a request and decide what to reply, after the reply's delay."""
        key = path + json.dumps(body, sort_keys=True)
        if (check := Call(path, headers, body, 0)).is_check:
            with self._guard:
                self.looks.append(path)
            return self._check(check)
        with self._guard:
            call = Call(path, headers, body, self._seen[key])
            self._seen[key] += 1
            self.calls.append(call)
            self._running += 1
            self.most_running = max(self.most_running, self._running)
        try:
            answer = self._reply(call)
            time.sleep(answer.delay_s)
        finally:
            with self._guard:
                self._running -= 1
        return answer

    def page(self, path: str) -> Answer:
        """What a GET finds."""
        with self._guard:
            self.looks.append(path)
        if path in self.pages:
            return self.pages[path]
        if path == "/v1/models" and self.models is not None:
            return Answer({"object": "list", "data": self.models})
        return Answer({"error": {"message": "no such page"}}, 404)

    def _all_is_well(self, call: Call) -> Answer:
        if call.task == "embedding":
            return self._reply(call)
        return Answer(completion('{"label": 1, "reason": "ok"}'))


def completion(content: object = "hi", finish_reason: str | None = "stop", **message: object) -> dict[str, Any]:
    """A chat completion; more fields of its message by name."""
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "served-snapshot",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }


def bags_of_words(body: dict[str, Any], dimension: int) -> dict[str, Any]:
    """Embeddings that count words by hash, so that texts with common words are near."""
    data = []
    for index, text in enumerate(body["input"]):
        vector = [0.001] * dimension
        for word in re.findall(r"\w+", text.lower()):
            vector[int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % dimension] += 1.0
        data.append({"object": "embedding", "index": index, "embedding": vector})
    return {"object": "list", "data": data, "model": "served-snapshot"}


def make_tokenizer(path: Path) -> str:
    """A tokenizer file that splits at white space."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"x": 0}, unk_token="x"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(path))
    return str(path)


def _parts(message: dict[str, Any], kind: str) -> list[Any]:
    """The content of a message's parts of one type."""
    content = message["content"] or ""  # null where the model only calls tools
    if isinstance(content, str):
        return [content] if kind == "text" else []
    return [part[kind] for part in content if part["type"] == kind]


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(server.page(self.path))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._send(server.answer(self.path, headers, body))

        def _send(self, answer: Answer) -> None:
            if answer.reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
                self.connection.close()
                return
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            if answer.send is not None:
                answer.send(self, content)
                return
            self.send_response(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
