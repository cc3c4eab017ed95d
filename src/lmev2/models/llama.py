"""A GGUF model in this process, through llama-cpp-python.

Replies are a function of the request alone: every call starts from an empty window. (Reusing the prefix that a call
shares with the one before would save time, but splits the prompt differently and so changes the scores of all tokens
a little, and with them, now and then, a word.)
"""

from __future__ import annotations

import ctypes
import json
import re
import threading
import time
from pathlib import Path
from typing import Any

from lmev2.models.cache import CallCache, canonical_json, request_key, sha256_text
from lmev2.models.gguf import import_llama_cpp, llama_cpp_version, remembered_sha256, requantize, resolve_file
from lmev2.models.settings import ChatSettings
from lmev2.models.text import well_formed
from lmev2.models.tokens import VocabularyCounter
from lmev2.models.types import ChatReply, ChatRequest, ImagePart, Message, ModelCallError, ModelSetupError

_BATCH = 512  # tokens read at a time; benchmarks/llama_speed.py measures it
_FLASH_ATTENTION = True
_STAND_IN = re.compile("\ue000(\\d+)\ue001")
_LARGEST_SEED = 2**32 - 2  # 2**32 - 1 means a random seed to llama.cpp


class LlamaChat:
    """A text-only chat model from a GGUF file.

    What a request leaves open is: temperature 0 (greedy), no top-p or top-k limit. The seed of a sampled reply follows
    from the request, so that a repeated request gets the same reply; `sample` gives another one.
    """

    def __init__(self, settings: ChatSettings, cache: CallCache, threads: int):
        if settings.file is None:
            raise ModelSetupError(
                f"model {settings.model!r}: backend llama_cpp needs `file`, a GGUF path or package:NAME"
            )
        if settings.images:
            raise ModelSetupError(f"model {settings.model!r}: backend llama_cpp reads no images; set `images: false`")
        if threads < 1:
            raise ValueError(f"threads is {threads}, expected 1 or more")
        self.settings = settings
        self.model = settings.model
        self.supports_images = False
        self.context_length: int | None = settings.context_length
        self.threads = threads
        self._file = settings.file
        self._cache = cache
        self._lock = threading.Lock()  # llama.cpp is not re-entrant
        self._loaded: Any = None
        self._formatter: Any = None
        self._identity: dict[str, Any] | None = None

    def identity(self) -> dict[str, Any]:
        """The file's hash, how it is run, and the library's version."""
        if self._identity is None:
            self._identity = {
                "backend": "llama_cpp",
                "file_sha256": remembered_sha256(resolve_file(self._file), self._cache),
                "quantize": self.settings.quantize,
                "n_ctx": self.settings.context_length,
                "n_batch": _BATCH,
                "flash_attention": _FLASH_ATTENTION,
                "json_mode": self.settings.json_mode,
                "llama_cpp_python": llama_cpp_version(),
            }
        return self._identity

    def counter(self) -> VocabularyCounter:
        """Counts with the file's own vocabulary, without loading the weights."""
        return VocabularyCounter(self._file)

    def complete(self, request: ChatRequest) -> ChatReply:
        """Answer one request; one at a time per model, others wait outside the measured time.

        Raises:
            ModelCallError: ``context_overflow`` when the prompt and the completion limit together exceed the window,
                ``api_error`` when llama.cpp fails.
            ModelSetupError: the file is missing or cannot be loaded, or the request holds an image.
        """
        messages = [_message(message, self.model) for message in request.messages]
        with self._lock:
            model = self._load()
            start = time.perf_counter()
            prompt = self._prompt(model, messages, request.thinking)
            limit = request.sampling.max_tokens
            if len(prompt) + limit > self.settings.context_length:
                raise ModelCallError(
                    "context_overflow",
                    f"{self.model}: a prompt of {len(prompt)} tokens and a completion of up to {limit} do not fit the "
                    f"window of {self.settings.context_length} tokens; lower the context budget or `max_tokens`",
                )
            try:
                written, finish_reason = self._generate(model, prompt, request)
            except RuntimeError as error:
                raise ModelCallError("api_error", f"{self.model}: llama.cpp failed: {error}") from error
            text = model.detokenize(written, prev_tokens=prompt).decode("utf-8", "replace")
            return ChatReply(text, finish_reason, len(prompt), len(written), self.model, time.perf_counter() - start)

    def _generate(self, model: Any, prompt: list[int], request: ChatRequest) -> tuple[list[int], str]:
        llama_cpp = import_llama_cpp()
        sampling = request.sampling
        vocabulary = llama_cpp.llama_model_get_vocab(model.model)
        grammar = _grammar(vocabulary, request, self.settings.json_mode)
        model.set_seed(self._seed(request))
        model.reset()
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.ctx), False)
        written: list[int] = []
        tokens = model.generate(
            prompt,
            temp=0.0 if sampling.temperature is None else sampling.temperature,
            top_p=1.0 if sampling.top_p is None else sampling.top_p,
            top_k=0 if sampling.top_k is None else sampling.top_k,
            min_p=0.0,  # the library's own default would be a setting that nobody asked for
            repeat_penalty=1.0,
            grammar=grammar,
        )
        for token in tokens:
            if llama_cpp.llama_vocab_is_eog(vocabulary, token):
                return written, "stop"
            written.append(token)
            if len(written) >= sampling.max_tokens:
                break
        return written, "length"

    def _prompt(self, model: Any, messages: list[dict[str, str]], thinking: bool | None) -> list[int]:
        switches = {} if thinking is None else {"enable_thinking": thinking}
        # Contents come from web pages: a text such as <|im_end|> in one must not end the message. So the template is
        # filled with stand-ins, and only its own pieces are read with their control tokens.
        stand_ins = [{**message, "content": f"\ue000{number}\ue001"} for number, message in enumerate(messages)]
        template = self._formatter(messages=stand_ins, **switches).prompt
        tokens: list[int] = []
        for position, piece in enumerate(_STAND_IN.split(template)):
            content = position % 2 == 1
            text = messages[int(piece)]["content"] if content else piece
            if text:
                tokens += model.tokenize(well_formed(text).encode("utf-8"), add_bos=False, special=not content)
        return tokens

    def _seed(self, request: ChatRequest) -> int:
        if request.sampling.seed is not None:
            return (request.sampling.seed + request.sample) % (_LARGEST_SEED + 1)
        return int(sha256_text(canonical_json(request_key({}, request)))[:16], 16) % (_LARGEST_SEED + 1)

    def _load(self) -> Any:
        if self._loaded is not None:
            return self._loaded
        path = resolve_file(self._file)
        if self.settings.quantize is not None:
            path = requantize(path, self.settings.quantize, self._cache.folder / "models", self.threads, self._cache)
        llama_cpp = import_llama_cpp()
        try:
            model = llama_cpp.Llama(
                str(path),
                n_ctx=self.settings.context_length,
                n_batch=_BATCH,
                n_ubatch=_BATCH,
                n_threads=self.threads,
                n_threads_batch=self.threads,
                flash_attn=_FLASH_ATTENTION,
                verbose=False,
            )
        except ValueError as error:
            raise ModelSetupError(f"llama.cpp cannot load {path}: {error}") from error
        trained = llama_cpp.llama_model_n_ctx_train(model.model)
        if self.settings.context_length > trained:
            raise ModelSetupError(
                f"{path.name} was trained for a window of {trained} tokens; `context_length` is "
                f"{self.settings.context_length}"
            )
        self._formatter = _chat_formatter(model, path)
        self._loaded = model
        return model


def _chat_formatter(model: Any, path: Path) -> Any:
    """The chat template inside the file."""
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    template = model.metadata.get("tokenizer.chat_template")
    if not template:
        raise ModelSetupError(f"{path} holds no chat template; use an instruction-tuned GGUF file that has one")
    return Jinja2ChatFormatter(
        template=template, eos_token=_piece(model, model.token_eos()), bos_token=_piece(model, model.token_bos())
    )


def _piece(model: Any, token: int) -> str:
    llama_cpp = import_llama_cpp()
    if token < 0:
        return ""
    text = llama_cpp.llama_vocab_get_text(llama_cpp.llama_model_get_vocab(model.model), ctypes.c_int32(token))
    return str(text.decode("utf-8"))


def _grammar(vocabulary: Any, request: ChatRequest, json_mode: str) -> Any:
    """The grammar that a request asks for, itself or through its schema; None if it asks for none."""
    from llama_cpp.llama_grammar import LlamaGrammar, json_schema_to_gbnf

    text = request.grammar
    if request.schema is not None:
        if text is not None:
            raise ModelSetupError("a request holds a grammar and a schema; it must ask for one of them")
        if json_mode == "none":
            return None
        # property order stays as written: it is the order in which the model writes them
        schema = json.dumps({"type": "object"} if json_mode == "object" else request.schema)
        try:
            text = json_schema_to_gbnf(schema)
        except Exception as error:  # the converter raises whatever its walk over the schema meets
            raise ModelSetupError(f"this JSON schema cannot become a grammar ({error!r}): {schema[:300]}") from error
    if text is None:
        return None
    # llama.cpp answers a faulty grammar with a null pointer, which the wrapper would hand on
    llama_cpp = import_llama_cpp()
    trial = llama_cpp.llama_sampler_init_grammar(vocabulary, text.encode("utf-8"), b"root")
    if not trial:
        raise ModelSetupError(f"llama.cpp cannot read this grammar: {text[:300]}")
    llama_cpp.llama_sampler_free(trial)
    return LlamaGrammar.from_string(text, verbose=False)


def _message(message: Message, model: str) -> dict[str, str]:
    texts = []
    for part in message.parts:
        if isinstance(part, ImagePart):
            raise ModelSetupError(f"a request with an image ({part.path}) went to the text-only model {model!r}")
        texts.append(part.text)
    return {"role": message.role, "content": "".join(texts)}
