"""Scripted backends: replies and vectors without a model, for tests of everything around one.

A script is a Python callable, a list of rules, or a JSON-lines file with one rule a line:

    {"match": "part of the last user message", "text": "reply"}
    {"regex": "invoice \\\\d+", "text": "reply", "finish_reason": "length"}
    {"match": "slow", "text": "reply", "delay_s": 0.2}
    {"match": "broken", "error": "api_error", "text": "what went wrong"}
    {"text": "reply to the first request that no rule matches"}

A rule with `match` or `regex` answers every request that it fits, or the first `times` of them; the first fitting rule
in the file's order counts. Rules without either answer the remaining requests in order, each once unless `times` says
otherwise.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from lmev2.models.cache import canonical_json, sha256_text
from lmev2.models.settings import EmbedderSettings, ImageTokenSettings
from lmev2.models.text import cut_middle
from lmev2.models.tokens import count_image_tokens
from lmev2.models.types import (
    ChatReply,
    ChatRequest,
    ErrorKind,
    ModelCallError,
    ModelSetupError,
    TextPart,
    TokenCounter,
)

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Rule:
    """One rule of a script; see the module's description."""

    text: str = ""
    match: str | None = None
    regex: str | None = None
    finish_reason: str = "stop"
    error: ErrorKind | None = None
    delay_s: float = 0.0
    times: int | None = None

    @property
    def general(self) -> bool:
        """Whether the rule fits any request."""
        return self.match is None and self.regex is None

    def fits(self, message: str) -> bool:
        """Whether the rule answers this last user message."""
        if self.match is not None and self.match not in message:
            return False
        return self.regex is None or re.search(self.regex, message) is not None


@dataclass
class ScriptedCounter:
    """Counts words and punctuation marks as tokens; images by the formula, or 0 for a text-only model."""

    images: ImageTokenSettings | None = None

    def count(self, text: str) -> int:
        """Number of words and punctuation marks."""
        return len(_WORD.findall(text))

    def count_image(self, path: Path) -> int:
        """Number of tokens of an image."""
        return 0 if self.images is None else count_image_tokens(path, self.images)


@dataclass
class ScriptedChat:
    """A chat backend that answers from a script and records what it was asked.

    Attributes:
        script: the rules, or a callable that returns a reply's text, a whole reply, or raises ModelCallError.
        name: tells callables apart in the cache key.
        tokens: counts in place of the counter of words.
        calls: the requests so far, in order of arrival.
    """

    script: Sequence[Rule] | Callable[[ChatRequest], str | ChatReply]
    model: str = "scripted"
    images: ImageTokenSettings | None = None
    context_length: int | None = None
    name: str = ""
    tokens: TokenCounter | None = None
    calls: list[ChatRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.supports_images = self.images is not None
        self._guard = threading.Lock()
        self._used: dict[int, int] = {}

    def identity(self) -> dict[str, Any]:
        """Model name and the hash of the rules, or the callable's `name`."""
        rules = None if callable(self.script) else sha256_text(canonical_json([vars(rule) for rule in self.script]))
        return {"backend": "scripted", "model": self.model, "name": self.name, "rules_sha256": rules}

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer from the script.

        Raises:
            ModelCallError: the rule says so, or no rule is left for this request.
        """
        start = time.perf_counter()
        with self._guard:
            self.calls.append(request)
            rule = None if callable(self.script) else self._take(self.script, last_user_text(request))
        if callable(self.script):
            answer = self.script(request)
            if isinstance(answer, ChatReply):
                return answer
            rule = Rule(answer)
        assert rule is not None
        if rule.delay_s:
            time.sleep(rule.delay_s)
        if rule.error is not None:
            raise ModelCallError(rule.error, rule.text or "scripted error")
        counter = self.counter()
        texts = [part.text for message in request.messages for part in message.parts if isinstance(part, TextPart)]
        return ChatReply(
            text=rule.text,
            finish_reason=rule.finish_reason,
            prompt_tokens=sum(map(counter.count, texts)),
            completion_tokens=counter.count(rule.text),
            model=self.model,
            wall_s=time.perf_counter() - start,
        )

    def counter(self) -> TokenCounter:
        """Counts words and punctuation marks, unless another counter was given."""
        return self.tokens or ScriptedCounter(self.images)

    def _take(self, rules: Sequence[Rule], message: str) -> Rule:
        for general in (False, True):
            for number, rule in enumerate(rules):
                limit = rule.times if rule.times is not None or not general else 1
                left = limit is None or self._used.get(number, 0) < limit
                if rule.general == general and left and rule.fits(message):
                    self._used[number] = self._used.get(number, 0) + 1
                    return rule
        raise ModelCallError("api_error", f"the script has no reply left for: {message[:200]!r}")


class ScriptedEmbedder:
    """Embeddings by hashing words: texts that share words are similar; the same on every machine."""

    def __init__(self, settings: EmbedderSettings):
        self.settings = settings
        self.model = settings.model
        self.dimension = settings.dimension

    def identity(self) -> dict[str, Any]:
        """Dimension and where texts are cut."""
        names = ("dimension", "max_tokens", "max_chars", "query_instruction")
        return {"backend": "scripted"} | {name: getattr(self.settings, name) for name in names}

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension); a text without words gets the zero vector."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            words = _WORD.findall(cut_middle(text, self.settings.max_chars).lower())[: self.settings.max_tokens]
            for word in words:
                digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
                vectors[row, int.from_bytes(digest[:8], "big") % self.dimension] += 1.0 if digest[8] & 1 else -1.0
            norm = float(np.linalg.norm(vectors[row]))
            if norm > 0:
                vectors[row] /= norm
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Vector of shape (dimension,) for a query; an instruction would only add the same words to all of them."""
        vector: npt.NDArray[np.float32] = self.embed_documents([text])[0]
        return vector


def last_user_text(request: ChatRequest) -> str:
    """The text of the last user message, its parts joined; empty if there is none."""
    for message in reversed(request.messages):
        if message.role == "user":
            return "".join(part.text for part in message.parts if isinstance(part, TextPart))
    return ""


def read_script(path: str | Path) -> list[Rule]:
    """The rules of a JSON-lines file.

    Raises:
        ModelSetupError: the file is missing or a line is no rule; names file and line.
    """
    file = Path(path)
    if not file.is_file():
        raise ModelSetupError(
            f"no script at {file.absolute()}; set the role's `script` to a JSON-lines file with replies"
        )
    return list(_parse(file, file.read_text(encoding="utf-8").split("\n")))


def _parse(file: Path, lines: Iterable[str]) -> Iterable[Rule]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rule = Rule(**json.loads(line))
            if rule.regex is not None:
                re.compile(rule.regex)
        except (ValueError, TypeError, re.error) as error:
            raise ModelSetupError(f"{file}, line {number}: not a rule ({error})") from error
        if rule.error is not None and rule.error not in get_args(ErrorKind):
            raise ModelSetupError(f"{file}, line {number}: unknown error kind {rule.error!r}")
        yield rule
