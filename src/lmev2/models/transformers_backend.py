"""A chat model in this process, through PyTorch and transformers, on a GPU if there is one.

Needs the extra ``gpu``. PyTorch is imported with the first request that the cache does not know.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmev2.models.cache import CallCache, canonical_json, request_key, sha256_text
from lmev2.models.settings import ChatSettings
from lmev2.models.thinking import split_opened_thinking, split_thinking
from lmev2.models.torch_memory import free_memory, out_of_memory
from lmev2.models.transformers_batch import Batcher
from lmev2.models.transformers_generate import Task, Written, generate
from lmev2.models.transformers_messages import Prompt, PromptMaker
from lmev2.models.transformers_source import LoadedModel, ModelSource
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, ModelCallError, ModelSetupError


class TransformersChat:
    """A chat model from the hub, from a folder or from a GGUF file.

    Requests that several threads make at once are answered in batches. In exact arithmetic a reply depends on its own
    request alone; in that of a computer, padding and the shape of a batch change the scores of tokens in their last
    digits, and with them, now and then, a word, in 16-bit types more often than in 32.

    What a request leaves open is: temperature 0 (greedy), no top-p or top-k limit, no penalties. The seed of a sampled
    reply follows from the request, so that a repeated request gets the same reply; `sample` gives another one.
    """

    def __init__(self, settings: ChatSettings, cache: CallCache, threads: int):
        if threads < 1:
            raise ValueError(f"threads is {threads}, expected 1 or more")
        self.settings = settings
        self.model = settings.model
        self.supports_images = settings.images
        self.context_length: int | None = settings.context_length
        self.threads = threads
        self.source = ModelSource(settings, cache)
        self._lock = threading.Lock()
        self._identity: dict[str, Any] | None = None
        self._prompts: PromptMaker | None = None
        self._loaded: LoadedModel | None = None
        self._batcher: Batcher[Task, tuple[Written, float]] = Batcher(
            self._answer, settings.batch_size or settings.concurrency, out_of_memory, free_memory
        )

    def identity(self) -> dict[str, Any]:
        """What :meth:`ModelSource.identity` says. Neither the device nor the size of batches: the same model may move,
        and its replies do not depend on them but for rounding."""
        with self._lock:
            if self._identity is None:
                self._identity = self.source.identity()
            return self._identity

    def counter(self) -> TransformersCounter:
        """Counts with the model's own tokenizer and image processor, without loading its weights."""
        return TransformersCounter(self)

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer one request. The time of a reply is that of its batch.

        Raises:
            ModelCallError: ``context_overflow`` when the prompt and the completion limit together exceed the window,
                ``api_error`` when PyTorch fails, such as for want of memory.
            ModelSetupError: the model cannot be had, or the request asks for what this backend cannot do.
        """
        self._refuse(request)
        prompts = self.prompts()
        started = time.perf_counter()
        prompt = prompts.make(request)
        made_s = time.perf_counter() - started
        limit = request.sampling.max_tokens
        if len(prompt.ids) + limit > self.settings.context_length:
            raise ModelCallError(
                "context_overflow",
                f"{self.model}: a prompt of {len(prompt.ids)} tokens and a completion of up to {limit} do not fit the "
                f"window of {self.settings.context_length} tokens; lower the context budget or `max_tokens`",
            )
        task = Task(prompt, request.sampling, _seed(request))
        try:
            written, batch_s = self._batcher.submit(task, task.group(), len(prompt.ids) + limit)
        except (RuntimeError, MemoryError) as error:
            raise ModelCallError("api_error", f"{self.model}: PyTorch failed: {error}") from error
        return self._reply(prompt, written, made_s + batch_s)

    def prompts(self) -> PromptMaker:
        """What makes prompts of requests; loads the tokenizer when first called."""
        with self._lock:
            if self._prompts is None:
                self._prompts = self.source.prompt_maker()
            return self._prompts

    def _refuse(self, request: ChatRequest) -> None:
        if request.grammar is not None:
            raise ModelSetupError(
                f"a request with a grammar went to {self.model!r}: only backend llama_cpp takes one (for a reader, set "
                "`reply_format: free`)"
            )
        if request.schema is not None and self.settings.json_mode != "none":
            raise ModelSetupError(
                f"a request with a JSON schema went to {self.model!r}, whose backend transformers cannot constrain a "
                "reply; set `json_mode: none`: replies are then checked, and one that does not fit is asked for again"
            )
        for message in request.messages:
            for part in message.parts:
                if isinstance(part, ImagePart) and not self.supports_images:
                    raise ModelSetupError(
                        f"a request with an image ({part.path}) went to {self.model!r}, whose role says `images: "
                        "false`; set `images: true` if the model reads images"
                    )

    def _answer(self, tasks: Sequence[Task]) -> list[tuple[Written, float]]:
        """Replies to a batch, each with the batch's time. In the batcher's thread, the only one that loads."""
        if self._loaded is None:
            self._loaded = self.source.load(self.threads, self.prompts().tokenizer)
        started = time.perf_counter()
        written = generate(self._loaded.model, tasks, self._loaded.ends, self._loaded.pad)
        batch_s = time.perf_counter() - started
        return [(reply, batch_s) for reply in written]

    def _reply(self, prompt: Prompt, written: Written, wall_s: float) -> ChatReply:
        text = self.prompts().text(written.ids)
        thinking, answer = split_opened_thinking(text) if prompt.opens_thinking else split_thinking(text, False)
        reason, tokens = "stop" if written.ended else "length", len(written.ids)
        return ChatReply(answer, reason, len(prompt.ids), tokens, self.model, wall_s, thinking)


class TransformersCounter:
    """Counts tokens as the model's tokenizer and image processor make them."""

    def __init__(self, chat: TransformersChat):
        self._chat = chat

    def count(self, text: str) -> int:
        """Number of tokens of a text, without special tokens; marks of special tokens inside it count as plain text."""
        return self._chat.prompts().count(text)

    def count_image(self, path: Path) -> int:
        """Number of tokens of an image, delimiters included; 0 for a text-only model."""
        return self._chat.prompts().count_image(path)


def _seed(request: ChatRequest) -> int:
    if request.sampling.seed is not None:
        return request.sampling.seed + request.sample
    return int(sha256_text(canonical_json(request_key({}, request)))[:16], 16)
