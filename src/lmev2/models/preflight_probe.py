"""One look at the endpoint of a model role: does it serve the model, and can the model do what the role asks of it?

Each capability costs one small request, and the list of models one more. Nothing is cached, nothing is measured.
"""

from __future__ import annotations

import base64
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from lmev2.models import preflight_list
from lmev2.models.embedding_text import with_instruction
from lmev2.models.json_reply import JsonReplyError, parse_json_object
from lmev2.models.openai_backend import OpenAIChat, OpenAIEmbedder, parse_completion, parse_embeddings
from lmev2.models.openai_endpoint import Endpoint, Look
from lmev2.models.request import make_request
from lmev2.models.retry import PassingFault, RetryPolicy
from lmev2.models.settings import ChatSettings, ControllerSettings, EmbedderSettings, JudgeSettings
from lmev2.models.types import Message, ModelSetupError

Capability = Literal["served", "context", "chat", "images", "json", "vectors"]
# absent: no address, no key, nobody there or not let in. busy: there, but it cannot say now. unknown: it does not say.
# unlisted: the list does not name the model, and it answers by that name.
State = Literal["ok", "unknown", "unlisted", "busy", "absent", "failed"]
CAPABILITIES: Final[tuple[Capability, ...]] = ("served", "context", "chat", "images", "json", "vectors")

TIMEOUT_S: Final = 20.0
LONGEST_WAIT_S: Final = 5.0  # before the one retry
_RETRY_WAIT_S: Final = 1.0
CHECK_TEXT: Final = "This is a check of the endpoint before a run. Reply with the word yes."
JSON_TEXT: Final = (
    "This is a check of the endpoint before a run. Reply with exactly this JSON object and nothing else: "
    '{"label": 1, "reason": "ok"}'
)
JSON_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "label": {"type": "integer", "enum": [0, 1]},
        "reason": {"type": "string", "maxLength": 40},
    },
    "required": ["label", "reason"],
    "additionalProperties": False,
}
_JSON_TOKENS: Final = 64
_REASONING_TOKENS: Final = 1024  # a model that reasons before its reply needs room for both
_SHOWN_NAMES: Final = 8  # of a list of models
_SHOWN_CHARS: Final = 120  # of one of them, and of a reply
_NO_ENTRY: Final = (401, 403)
_REFUSED: Final = "refused"
_NAMED: Final = ("chat", "vectors")  # requests that a server refuses which does not know the model's name
_BUSY: Final = (408, 429, 502, 503, 504)
# Some APIs refuse a limit that reasoning alone would use up; that the request got so far is all that is asked here.
_CUT: Final = re.compile(r"max_tokens or model output limit was reached", re.IGNORECASE)


@dataclass(frozen=True)
class Finding:
    """What was found about one capability.

    Attributes:
        value: for the table; empty: the state says it all.
        asked, found, todo: what was asked for, what came back, and what to do about it; empty where nothing is wrong.
    """

    capability: Capability
    state: State
    value: str = ""
    asked: str = ""
    found: str = ""
    todo: str = ""


def probe(role: str, settings: ChatSettings | EmbedderSettings) -> list[Finding]:
    """Look at a role's endpoint.

    Args:
        role: its name in the configuration, for what to do.
        settings: of backend ``openai``.

    Returns:
        a finding for each capability that the role needs; where the endpoint is absent or serves another model, one.
        None holds the endpoint's address or key, whatever the server said.
    """
    looking = _Probe(role, settings)
    return [replace(one, found=looking.endpoint.masked(one.found)) for one in looking.findings()]


class _Probe:
    def __init__(self, role: str, settings: ChatSettings | EmbedderSettings):
        self.settings = settings
        self.served_name = settings.served_name or settings.model
        self.where = role if role.startswith("judges.") else f"models.{role}"
        if role not in ("reader", "judge", "controller", "embedder") and not role.startswith("judges."):
            self.where = f"pilots.readers.{role}"
        timeout_s = min(TIMEOUT_S, settings.timeout_s)
        self.endpoint = Endpoint(settings.endpoint, self.served_name, timeout_s, 1, RetryPolicy(retries=0))

    def findings(self) -> Iterator[Finding]:
        try:
            listed = self._look("/models")
        except ModelSetupError as error:
            yield Finding(
                "served", "absent", "no address", "an address and a key", str(error), "set it, then run again"
            )
            return
        served = self._served(listed)
        if served.state in ("absent", "failed"):
            yield served
            return
        further = list(self._capabilities(listed))
        if served.state == "unlisted" and any(one.value == _REFUSED for one in further if one.capability in _NAMED):
            served = self._refused_name(served)
        yield served
        yield from further

    def _capabilities(self, listed: Look) -> Iterator[Finding]:
        """What else the role needs of the model."""
        yield self._context(listed)
        if isinstance(self.settings, EmbedderSettings):
            yield self._vectors(self.settings)
            return
        chat = self._chat(self.settings, self.settings.images)
        if self.settings.images:
            pictured = replace(chat, capability="images")
            if pictured.state == "failed":  # is it the image? One more request tells
                chat = self._chat(self.settings, False)
            yield chat
            if chat.state != "failed":
                yield pictured
        else:
            yield chat
        if chat.state == "ok" and _wants_json(self.settings):
            yield self._json(self.settings)

    def _look(self, path: str, body: Mapping[str, Any] | None = None, at_root: bool = False) -> Look:
        """Ask, and once more after a passing fault; a list that takes too long is not waited for twice."""
        found = self.endpoint.look(path, body, at_root)
        slow = body is None and found.status is None and found.connected
        if (found.status is None and not slow) or found.status in _BUSY:
            time.sleep(min(found.retry_after_s or _RETRY_WAIT_S, LONGEST_WAIT_S))
            found = self.endpoint.look(path, body, at_root)
        return found

    def _served(self, listed: Look) -> Finding:
        name, asked = self.settings.endpoint, "the list of its models"
        if not listed.connected:
            todo = f"start the server, wait until it has loaded its model, and see that {name}_BASE_URL names it"
            return Finding("served", "absent", "no answer", asked, listed.said, todo)
        if listed.status is None or listed.status in _BUSY:
            return Finding("served", "busy", "not now", asked, _said(listed), "nothing, it was not checked")
        listed_names = preflight_list.names(listed)
        if not listed_names:  # none, or it is not for everybody: what is asked next decides
            return Finding("served", "unknown", "no list of models")
        if preflight_list.entry(listed, self.served_name) is not None:
            return Finding("served", "ok")
        shown = ", ".join(repr(self.endpoint.masked(one)[:_SHOWN_CHARS]) for one in listed_names[:_SHOWN_NAMES])
        if len(listed_names) > _SHOWN_NAMES:
            shown += f" and {len(listed_names) - _SHOWN_NAMES} more"
        asked = f"the model {self.served_name!r}"
        if preflight_list.may_serve_others(listed):
            found = f"its list names {shown}, not this one"
            return Finding("served", "unlisted", "", asked, found, "see that it is the model that is meant")
        todo = (
            f"set {self.where}.served_name to the name of the model that is meant, or start the server with it "
            f"(vLLM: --served-model-name, llama-server: --alias); or correct {name}_BASE_URL"
        )
        return Finding("served", "failed", "another model", asked, f"it serves {shown}", todo)

    def _refused_name(self, served: Finding) -> Finding:
        """An unlisted model of which the server gave no reply."""
        address = f"{self.settings.endpoint}_BASE_URL"
        todo = f"set {self.where}.served_name to a name that the server knows, or correct {address}"
        found = f"{served.found}, and the request was refused"
        return replace(served, state="failed", value="unknown name", found=found, todo=todo)

    def _context(self, listed: Look) -> Finding:
        wanted, key = _window(self.settings)
        length, exact = self._length(listed)
        if length is None:
            return Finding("context", "unknown")
        if length >= wanted:
            return Finding("context", "ok", str(length)) if exact else Finding("context", "unknown", f"<= {length}")
        todo = (
            "start the server with more (vLLM: --max-model-len, llama-server: --ctx-size, shared by the slots of "
            f"--parallel), or lower {self.where}.{key}"
        )
        return Finding(
            "context", "failed", str(length), f"{wanted} tokens of context ({key})", f"{length} tokens", todo
        )

    def _length(self, listed: Look) -> tuple[int | None, bool]:
        """The server's window in tokens, and whether it is the window or only a bound on it."""
        if listed.status is None:  # it takes too long to be asked twice
            return None, False
        entry = preflight_list.entry(listed, self.served_name) or {}
        length = preflight_list.window(entry)
        if length is None:
            # llama-server: the list has the length that the model was trained with, /props that of a slot.
            length = preflight_list.slot_window(self.endpoint.look("/props", at_root=True))
        if length is not None:
            return length, True
        return preflight_list.trained_window(entry), False

    def _chat(self, settings: ChatSettings, image: bool) -> Finding:
        """One token with the role's own sampling and thinking, to an image too where the role sends images."""
        content: str | list[dict[str, Any]] = CHECK_TEXT
        todo = f"see that it chats and takes what {self.where} sends: sampling (null leaves a value out), thinking, "
        todo += "reasoning_effort"
        if image:
            picture = {"type": "image_url", "image_url": {"url": check_image()}}
            content = [{"type": "text", "text": CHECK_TEXT}, picture]
            todo = f"set {self.where}.images to false, or serve a model that reads images, with its image processor"
        found = self._look("/chat/completions", self._body(settings, content, tokens=1))
        asked = "a reply of one token" + (" to a small image" if image else "")
        if found.status == 400 and _CUT.search(found.said):
            return Finding("chat", "ok")
        if found.body is None:
            return self._refusal("chat", found, asked, todo)
        fault = self._fault(found.body, lambda body: parse_completion(body, settings.model, bool(settings.thinking)))
        return Finding("chat", "failed", "no reply", asked, fault, todo) if fault else Finding("chat", "ok")

    def _json(self, settings: ChatSettings) -> Finding:
        """One JSON object in the role's `json_mode`, with thinking off where the role can switch it."""
        reasons = settings.reasoning_effort is not None
        tokens = _REASONING_TOKENS if reasons else _JSON_TOKENS
        body = self._body(settings, JSON_TEXT, min(tokens, settings.sampling.max_tokens), schema=JSON_SCHEMA, off=True)
        found = self._look("/chat/completions", body)
        mode = settings.json_mode
        asked = f"a JSON object (json_mode: {mode})"
        other = {"schema": "object, or to object_schema or none", "object_schema": "object, or to none"}.get(
            mode, "none"
        )
        todo = f"set {self.where}.json_mode to {other}, or start a server that constrains replies"
        if found.status == 400 and _CUT.search(found.said):
            return Finding("json", "unknown", "cut")
        if found.body is None:
            return self._refusal("json", found, asked, todo)
        fault = self._fault(found.body, lambda body: parse_completion(body, settings.model, False))
        if fault:
            return Finding("json", "failed", "no reply", asked, fault, todo)
        reply = parse_completion(found.body, settings.model, False)
        if reply["finish_reason"] == "length":
            return Finding("json", "unknown", "cut")
        text, schema = reply["text"], None if mode == "object" else JSON_SCHEMA
        fault = self._fault(text, lambda text: parse_json_object(text, schema))
        if fault:
            said = f"a reply that does not keep to it ({fault}): {self.endpoint.masked(text)[:_SHOWN_CHARS]!r}"
            return Finding("json", "failed", "not kept", asked, said, todo)
        return Finding("json", "ok", mode)

    def _vectors(self, settings: EmbedderSettings) -> Finding:
        text = with_instruction(settings.query_instruction, CHECK_TEXT)
        found = self._look("/embeddings", OpenAIEmbedder(settings).request_body([text]))
        asked = f"a vector of {settings.dimension} numbers"
        if found.body is None:
            todo = "see that the server embeds (vLLM: --runner pooling, llama-server: --embeddings)"
            return self._refusal("vectors", found, asked, todo)
        fault = self._fault(found.body, lambda body: parse_embeddings(body, 1))
        if fault:
            todo = "see that the server pools one vector for a text (llama-server: --pooling)"
            return Finding("vectors", "failed", "no vector", asked, fault, todo)
        size = int(parse_embeddings(found.body, 1).shape[1])
        if size != settings.dimension:
            todo = f"set {self.where}.dimension to {size} if this is the model that is meant"
            return Finding("vectors", "failed", str(size), asked, f"a vector of {size}", todo)
        return Finding("vectors", "ok", str(size))

    def _body(
        self,
        settings: ChatSettings,
        content: str | list[dict[str, Any]],
        tokens: int,
        schema: dict[str, Any] | None = None,
        off: bool = False,
    ) -> dict[str, Any]:
        """The body that the role would send, with other messages and a limit of its own."""
        request = make_request(
            settings, [Message.text("user", "")], schema=schema, thinking=False if off else None, role="check"
        )
        request = replace(request, sampling=replace(request.sampling, max_tokens=tokens))
        body = OpenAIChat(settings).request_body(request)
        return body | {"messages": [{"role": "user", "content": content}]}

    def _refusal(self, capability: Capability, found: Look, asked: str, todo: str) -> Finding:
        """A request without a reply: refused for good, or just now."""
        name = self.settings.endpoint
        if not found.connected:
            todo = f"see that the server is running, and that {name}_BASE_URL names it"
            return Finding(capability, "absent", "no answer", asked, found.said, todo)
        if found.status is None or found.status in _BUSY:
            return Finding(capability, "busy", "not now", asked, _said(found), "nothing, it was not checked")
        if found.status in _NO_ENTRY:
            todo = f"check the key in {name}_API_KEY"
            return Finding(capability, "absent", "no entry", asked, _said(found), todo)
        if found.status == 404 and capability in _NAMED:
            path = f"check the path in {name}_BASE_URL (does it end in /v1?) and {self.where}.served_name"
            todo = f"{path}, now {self.served_name!r}; else {todo}"
        return Finding(capability, "failed", _REFUSED, asked, _said(found), todo)

    def _fault(self, said: Any, parse: Callable[[Any], object]) -> str:
        """What is wrong with something that a server said; empty if nothing is.

        Told of what was said as it may be quoted: errors cut what they quote.
        """
        try:
            parse(said)
            return ""
        except (PassingFault, JsonReplyError) as error:
            fault = str(error)
        try:
            parse(self._masked(said))
        except (PassingFault, JsonReplyError) as error:
            return str(error)
        return fault

    def _masked(self, value: Any) -> Any:
        """A JSON value with each of its texts masked."""
        if isinstance(value, str):
            return self.endpoint.masked(value)
        if isinstance(value, list):
            return [self._masked(one) for one in value]
        if isinstance(value, dict):
            return {name: self._masked(one) for name, one in value.items()}
        return value


def check_image() -> str:
    """A grey image of 64 by 64 pixels as a data URL; large enough for any image processor."""
    side = 64
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\x00" + b"\x80" * side) * side, 9)
    chunks = [(b"IHDR", header), (b"IDAT", rows), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode("ascii")


def _said(found: Look) -> str:
    return found.said if found.status in (None, 200) else f"it answered {found.status}: {found.said}"


def _wants_json(settings: ChatSettings) -> bool:
    return isinstance(settings, (JudgeSettings, ControllerSettings)) and settings.json_mode != "none"


def _window(settings: ChatSettings | EmbedderSettings) -> tuple[int, str]:
    """The window that a role needs, in tokens, and the key that says so."""
    if isinstance(settings, EmbedderSettings):
        return settings.max_tokens, "max_tokens"
    return settings.context_length, "context_length"
