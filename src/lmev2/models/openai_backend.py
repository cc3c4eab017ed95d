"""Chat and embedding backends for any OpenAI-compatible endpoint."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmev2.models.embedding_text import with_instruction
from lmev2.models.openai_endpoint import Endpoint
from lmev2.models.retry import PassingFault, RetryPolicy
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.text import cut_middle, encode_prefix, well_formed
from lmev2.models.thinking import split_thinking
from lmev2.models.tokens import JsonTokenizer, TokenizerCounter, load_tokenizer
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, Message, ModelSetupError, TokenCounter


class OpenAIChat:
    """Chat completions of an OpenAI-compatible endpoint."""

    def __init__(self, settings: ChatSettings, policy: RetryPolicy | None = None):
        self.settings = settings
        self.model = settings.model
        self.supports_images = settings.images
        self.context_length: int | None = settings.context_length
        self.served_name = settings.served_name or settings.model
        self._endpoint = Endpoint(
            settings.endpoint,
            self.served_name,
            settings.timeout_s,
            settings.concurrency,
            policy or RetryPolicy.of(settings.retries, settings.retry_wait_s),
        )

    def identity(self) -> dict[str, Any]:
        """Model name, served name and how JSON is constrained; not the address: the same model may move."""
        return {
            "backend": "openai",
            "model": self.model,
            "served_name": self.served_name,
            "json_mode": self.settings.json_mode,
        }

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer one request.

        Raises:
            ModelCallError: ``api_error``, ``malformed_reply`` or ``context_overflow``. A reply that was cut at the
                completion limit is returned, with finish reason ``length``.
            ModelSetupError: address or key is missing, or an image goes to a model without images.
        """
        body = self.request_body(request)
        reply, wall_s = self._endpoint.post(
            "/chat/completions", body, lambda answer: parse_completion(answer, self.model, bool(request.thinking))
        )
        return ChatReply(**reply, wall_s=wall_s)

    def counter(self) -> TokenCounter:
        """The counter of the role's `tokenizer`.

        Raises:
            ModelSetupError: the role names no tokenizer, or it cannot be loaded.
        """
        if self.settings.tokenizer is None:
            raise ModelSetupError(
                f"model {self.model!r} needs a token counter: set the role's `tokenizer` to a tokenizer.json file "
                "or to a hub id"
            )
        images = self.settings.image_tokens if self.supports_images else None
        return TokenizerCounter(load_tokenizer(self.settings.tokenizer), images)

    def request_body(self, request: ChatRequest) -> dict[str, Any]:
        """What is posted for a request.

        Raises:
            ModelSetupError: the request has a grammar, or an image goes to a model without images.
        """
        if request.grammar is not None:
            raise ModelSetupError(
                f"a request with a grammar went to {self.model!r}: only backend llama_cpp takes one "
                "(for a reader, set `reply_format: free`)"
            )
        sampling = request.sampling
        limit = "max_tokens" if request.reasoning_effort is None else "max_completion_tokens"
        body: dict[str, Any] = {
            "model": self.served_name,
            "messages": [self._message(message) for message in request.messages],
            limit: sampling.max_tokens,
        }
        optional = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,  # not of the original API; known to vLLM, SGLang and llama.cpp servers
            "seed": None if sampling.seed is None else sampling.seed + request.sample,
            "reasoning_effort": request.reasoning_effort,
            "chat_template_kwargs": None if request.thinking is None else {"enable_thinking": request.thinking},
            "response_format": self._response_format(request.schema),
        }
        return body | {name: value for name, value in optional.items() if value is not None}

    def _message(self, message: Message) -> dict[str, Any]:
        if not any(isinstance(part, ImagePart) for part in message.parts):
            text = "".join(part.text for part in message.parts if not isinstance(part, ImagePart))
            return {"role": message.role, "content": well_formed(text)}
        if not self.supports_images:
            raise ModelSetupError(
                f"a request with an image went to {self.model!r}, whose role says `images: false`; "
                "set `images: true` if the model reads images"
            )
        parts = [
            {"type": "image_url", "image_url": {"url": data_url(part.path)}}
            if isinstance(part, ImagePart)
            else {"type": "text", "text": well_formed(part.text)}
            for part in message.parts
        ]
        return {"role": message.role, "content": parts}

    def _response_format(self, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        if schema is None or self.settings.json_mode == "none":
            return None
        if self.settings.json_mode == "object":
            return {"type": "json_object"}
        if self.settings.json_mode == "object_schema":  # no part of the original API
            return {"type": "json_object", "schema": schema}
        content = {"name": "reply", "schema": schema, "strict": is_closed(schema)}
        return {"type": "json_schema", "json_schema": content}


class OpenAIEmbedder:
    """Embeddings of an OpenAI-compatible endpoint, one request a call; texts are cut here, by the model's tokenizer."""

    def __init__(self, settings: EmbedderSettings, policy: RetryPolicy | None = None):
        self.settings = settings
        self.model = settings.model
        self.dimension = settings.dimension
        self.served_name = settings.served_name or settings.model
        self._tokenizer: JsonTokenizer | None = None
        self._endpoint = Endpoint(
            settings.endpoint,
            self.served_name,
            settings.timeout_s,
            settings.concurrency,
            policy or RetryPolicy.of(settings.retries, settings.retry_wait_s),
        )

    def identity(self) -> dict[str, Any]:
        """Model, where texts are cut, and the query's prefix."""
        names = ("model", "tokenizer", "dimension", "max_tokens", "max_chars", "query_instruction")
        cut = {name: getattr(self.settings, name) for name in names}
        return {"backend": "openai", "served_name": self.served_name, **cut}

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Vectors of shape (len(texts), dimension); a text without content gets the zero vector.

        Raises:
            ModelCallError: the endpoint failed after all retries.
            ModelSetupError: address or key is missing, or the vectors have another dimension.
        """
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        cut = [self._cut(text) for text in texts]
        rows = [row for row, text in enumerate(cut) if text.strip()]
        if rows:
            vectors[rows] = self._embed([cut[row] for row in rows])
        return vectors

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        """Vector of shape (dimension,) for a query, with the instruction before it."""
        vector: npt.NDArray[np.float32] = self.embed_documents(
            [with_instruction(self.settings.query_instruction, text)]
        )[0]
        return vector

    def _cut(self, text: str) -> str:
        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(str(self.settings.tokenizer))
        text = cut_middle(well_formed(text), self.settings.max_chars)
        offsets = encode_prefix(text, self.settings.max_tokens, self._tokenizer.offsets)
        return text if len(offsets) <= self.settings.max_tokens else text[: offsets[self.settings.max_tokens - 1][1]]

    def request_body(self, texts: list[str]) -> dict[str, Any]:
        """What is posted for texts, which must be cut already."""
        return {"model": self.served_name, "input": texts, "encoding_format": "float"}

    def _embed(self, texts: list[str]) -> npt.NDArray[np.float32]:
        body = self.request_body(texts)
        vectors, _ = self._endpoint.post("/embeddings", body, lambda answer: parse_embeddings(answer, len(texts)))
        if vectors.shape[1] != self.dimension:
            raise ModelSetupError(
                f"{self.served_name!r} returned vectors of {vectors.shape[1]} numbers, the role's `dimension` is "
                f"{self.dimension}"
            )
        return vectors


def parse_completion(answer: dict[str, Any], model: str, thinking: bool) -> dict[str, Any]:
    """The fields of a :class:`ChatReply`, but for its time, from a completion object.

    Raises:
        PassingFault: no choices, no message, no text although the reply was not cut, or tokens without a number.
    """
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise PassingFault("malformed_reply", "the reply has no choices", name="no choices")
    message, finish_reason = choices[0].get("message"), _text_or(choices[0].get("finish_reason"), "unknown")
    if not isinstance(message, dict):
        raise PassingFault("malformed_reply", "the reply's choice has no message", name="no message")
    content = _joined(message.get("content"))
    if content is None:
        content = _joined(message.get("refusal"))
    if content is None:
        if finish_reason != "length":  # a reply that was cut while the model was still thinking has no text
            raise PassingFault("malformed_reply", "the reply's message has no content", name="no content")
        content = ""
    apart = _joined(message.get("reasoning_content")) or _joined(message.get("reasoning")) or ""
    inside, text = split_thinking(content, thinking and not apart)
    usage = answer.get("usage") if isinstance(answer.get("usage"), dict) else {}
    assert isinstance(usage, dict)
    return {
        "text": text,
        "finish_reason": finish_reason,
        "prompt_tokens": _count(usage, "prompt_tokens"),
        "completion_tokens": _count(usage, "completion_tokens"),
        "model": _text_or(answer.get("model"), model),
        "thinking": apart + inside,
    }


def parse_embeddings(answer: dict[str, Any], count: int) -> npt.NDArray[np.float32]:
    """L2-normalised vectors of shape (count, dimension), in the order of the inputs.

    Raises:
        PassingFault: a vector is missing, repeated, of another length, not finite or zero.
    """
    data = answer.get("data")
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        raise _bad_embeddings("the reply has no list of embeddings")
    indices = [item.get("index") for item in data]
    if sorted(indices, key=str) != sorted(range(count), key=str):
        raise _bad_embeddings(f"expected embeddings 0 to {count - 1}, the reply has {indices[:8]!s:.200}")
    try:
        vectors = np.array(
            [item["embedding"] for item in sorted(data, key=lambda item: int(item["index"]))], np.float32
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        raise _bad_embeddings("the reply's embeddings are not lists of numbers of one length") from None
    if vectors.ndim != 2 or not np.isfinite(vectors).all():
        raise _bad_embeddings("the reply's embeddings are not finite vectors")
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)  # squares may be too large for 32 bits
    if not (norms > 0).all():
        raise _bad_embeddings("the reply holds a zero vector")
    normalised: npt.NDArray[np.float32] = (vectors / norms).astype(np.float32)
    return normalised


def data_url(path: Path) -> str:
    """An image as a data URL."""
    kind = mimetypes.guess_type(path.name)[0]
    if kind is None or not kind.startswith("image/"):
        raise ModelSetupError(f"{path}: not an image by its name; expected .png, .jpg or the like")
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def is_closed(schema: Any) -> bool:
    """Whether every object of a JSON schema requires all its properties and no others, as strict mode demands."""
    if isinstance(schema, list):
        return all(is_closed(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if "properties" in schema or schema.get("type") == "object":
        required = set(schema.get("required", []))
        if schema.get("additionalProperties") is not False or required != set(schema.get("properties", {})):
            return False
    return all(is_closed(item) for item in schema.values())


def _text_or(value: object, otherwise: str) -> str:
    return well_formed(value) if isinstance(value, str) and value else otherwise  # it is written into rows


def _count(usage: dict[str, Any], name: str) -> int:
    """A number of tokens; 0 where the endpoint does not tell it."""
    value = usage.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53 or value != int(value):
        detail = f"the reply's usage.{name} is no number of tokens: {value!r:.80}"
        raise PassingFault("malformed_reply", detail, name="bad usage")
    return int(value)


def _bad_embeddings(detail: str) -> PassingFault:
    return PassingFault("malformed_reply", detail, name="bad embeddings")


def _joined(content: object) -> str | None:
    """The text of a message field: a string, or a list of text parts; None if it has none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return None
