"""What a model call is: requests, replies, failures, and the two interfaces that every backend implements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

ErrorKind = Literal[
    "api_error",  # the endpoint failed after all retries
    "malformed_reply",  # no choices, null message, not the promised shape
    "length",  # the reply was cut at the completion limit
    "context_overflow",  # the prompt does not fit the model's window
    "judge_error",  # the judge gave no usable label
    "memory_error",  # the memory system failed to return a context
]


class ModelCallError(Exception):
    """A model call that failed for good; never cached, never turned into a score.

    Attributes:
        kind: one of :data:`ErrorKind`.
        detail: what the endpoint said, without headers or keys.
    """

    def __init__(self, kind: ErrorKind, detail: str):
        super().__init__(f"{kind}: {detail}")
        self.kind: ErrorKind = kind
        self.detail = detail


class ModelSetupError(Exception):
    """A fault of the configuration or the environment: a missing file, variable, package or setting.

    Not a failed call: it must end the job, and is never recorded as a row with an error kind.
    """


@dataclass(frozen=True)
class TextPart:
    """A piece of text in a message."""

    text: str


@dataclass(frozen=True)
class ImagePart:
    """An image in a message, by path; its bytes enter the cache key as a hash."""

    path: Path


@dataclass(frozen=True)
class Message:
    """One chat message: role ``system``, ``user`` or ``assistant`` and its parts in order."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[TextPart | ImagePart, ...]

    @staticmethod
    def text(role: Literal["system", "user", "assistant"], text: str) -> Message:
        """A message of one text part."""
        return Message(role, (TextPart(text),))


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of a call; ``None`` leaves a setting to the backend and keeps it out of the request."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int = 512
    seed: int | None = None


@dataclass(frozen=True)
class ChatRequest:
    """One chat completion.

    Attributes:
        schema: JSON schema that the reply must follow; constrained by the backend where it can.
        grammar: GBNF grammar with a rule ``root`` that the reply must follow; only for backend ``llama_cpp``, and not
            together with a schema.
        thinking: True or False where the model can switch thinking, None to leave it alone.
        reasoning_effort: for APIs that take one (``low`` … ``xhigh``).
        sample: number of the sample; part of the cache key, so that repeats are separate calls.
        role: what the call is for (reader, judge, controller); for logs only, not part of the key.
        usable: whether a reply may be kept for replay; a reply that the caller cannot use (no label, cut) is an error
            to it, and a repeated run must be able to ask again. None keeps every reply. Not part of the key.
    """

    messages: tuple[Message, ...]
    sampling: Sampling = Sampling()
    schema: dict[str, Any] | None = None
    grammar: str | None = None
    thinking: bool | None = None
    reasoning_effort: str | None = None
    sample: int = 0
    role: str = field(default="", compare=False)
    usable: Callable[[ChatReply], bool] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ChatReply:
    """What came back.

    Attributes:
        text: the answer, without the model's thinking.
        finish_reason: ``stop``, ``length`` (cut at the completion limit), or what else the endpoint said.
        prompt_tokens, completion_tokens: as the backend counts them, thinking included; 0 where an endpoint is silent.
        model: the name that the endpoint reports, else the configured one.
        wall_s: seconds of the attempt that succeeded, as measured when it first ran; waiting and retries are outside.
        thinking: the thinking that came with the answer, verbatim; empty if none. Nothing of a reply is lost: it is
            either here or in ``text``.
        replayed: from the cache.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    model: str
    wall_s: float
    thinking: str = ""
    replayed: bool = False


class TokenCounter(Protocol):
    """Counts tokens as the model's own processor does."""

    def count(self, text: str) -> int:
        """Number of tokens of a text, without special tokens."""
        ...

    def count_image(self, path: Path) -> int:
        """Number of tokens that an image costs; 0 for a text-only model."""
        ...


class ChatBackend(Protocol):
    """A model that answers chat requests. Thread-safe; a call that fails raises :class:`ModelCallError` only.

    What the configuration or the environment lacks is a :class:`ModelSetupError`, raised where it is first needed: a
    run that finds all its answers in the cache needs no endpoint and no key.
    """

    model: str
    supports_images: bool
    context_length: int | None  # tokens, None when unknown

    def identity(self) -> dict[str, Any]:
        """All that can change an answer besides the request (model name, file hash, …); enters the cache key."""
        ...

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer one request; retries of passing faults happen inside."""
        ...

    def counter(self) -> TokenCounter:
        """The model's token counter."""
        ...


class EmbeddingBackend(Protocol):
    """A model that embeds texts as L2-normalised float32 vectors."""

    model: str
    dimension: int

    def identity(self) -> dict[str, Any]:
        """All that can change a vector besides the text; enters fingerprints."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension) for memory entries, without prefix."""
        ...

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Vector of shape (dimension,) for a query, with the configured instruction prefix."""
        ...
