"""A Responses API on loopback whose turns a script decides, and which remembers what it was asked.

It streams as little as the Codex CLI needs: the finished items of a turn, then the response with its usage.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Item = dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """What the model does when it is asked once.

    Attributes:
        items: shell commands (:func:`shell`) and texts (:func:`say`), in order.
        usage: input, cached input, output and reasoning tokens; None leaves usage out.
        status: of the reply; anything but 200 sends an error with ``error`` as its message.
        headers: more headers of the reply.
        delay_s: seconds before the reply.
        hang_up: the connection ends without a reply.
        break_off: the connection ends in the middle of the reply.
    """

    items: tuple[Item, ...] = ()
    usage: tuple[int, int, int, int] | None = (1000, 100, 50, 20)
    status: int = 200
    error: str = "scripted error"
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    hang_up: bool = False
    break_off: bool = False


@dataclass(frozen=True)
class Request:
    """One request; names of headers in lower case."""

    headers: dict[str, str]
    body: dict[str, Any]


def shell(command: str) -> Item:
    """The model asks for a shell command."""
    return {"type": "function_call", "name": "exec_command", "arguments": json.dumps({"cmd": command})}


def say(text: str) -> Item:
    """The model says something; a turn of nothing else is its last."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


class ResponsesServer:
    """The endpoint; a context manager.

    Args:
        turns: one for each request, the last one for all further ones; or a function of the number of the request
            (from 0) and its body.

    Attributes:
        url: its address, for ``<endpoint>_BASE_URL``.
        requests: all requests to ``/v1/responses``, in order of arrival.
    """

    def __init__(self, turns: Sequence[Turn] | Callable[[int, dict[str, Any]], Turn]) -> None:
        self.requests: list[Request] = []
        self._turns = turns
        self._guard = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign] # a client was ended
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> ResponsesServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def turn(self, request: Request) -> tuple[int, Turn]:
        """Remember a request; its number and what to reply."""
        with self._guard:
            number = len(self.requests)
            self.requests.append(request)
        if callable(self._turns):
            return number, self._turns(number, request.body)
        return number, self._turns[min(number, len(self._turns) - 1)]


def _events(number: int, turn: Turn) -> list[dict[str, Any]]:
    items = [
        {**item, "id": f"item_{number}_{place}", "call_id": f"call_{number}_{place}"}
        for place, item in enumerate(turn.items)
    ]
    response: dict[str, Any] = {
        "id": f"response_{number}",
        "object": "response",
        "status": "completed",
        "output": items,
    }
    if turn.usage is not None:
        read, cached, written, reasoning = turn.usage
        response["usage"] = {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": reasoning},
            "total_tokens": read + written,
        }
    done = [
        {"type": "response.output_item.done", "output_index": place, "item": item} for place, item in enumerate(items)
    ]
    return [*done, {"type": "response.completed", "response": response}]


def _handler(server: ResponsesServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply(404, b"{}", {"content-type": "application/json"})

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            if self.path.partition("?")[0] != "/v1/responses":
                return self._reply(404, b"{}", {"content-type": "application/json"})
            headers = {name.lower(): value for name, value in self.headers.items()}
            number, turn = server.turn(Request(headers, json.loads(content)))
            time.sleep(turn.delay_s)
            if turn.hang_up:
                self.close_connection = True
                return None
            if turn.status != 200:
                body = json.dumps({"error": {"message": turn.error}}).encode()
                return self._reply(turn.status, body, {"content-type": "application/json", **turn.headers})
            events = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _events(number, turn)]
            if turn.break_off:
                self.close_connection = True
                events[-1] = events[-1][:20]
            missing = 1000 if turn.break_off else 0
            self._reply(200, "".join(events).encode(), {"content-type": "text/event-stream", **turn.headers}, missing)

        def _reply(self, status: int, content: bytes, headers: dict[str, str], missing: int = 0) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(content) + missing))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
