"""Settings of a model role (reader, controller, judge, embedder), as they stand in the configuration.

Addresses and keys never stand here: they are read from the environment at the first call, so that no key reaches
the params that Snakemake keeps on disk.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lmev2.settings import Settings

ReasoningEffort = Literal["minimal", "low", "medium", "high", "xhigh"]
NumberType = Literal["float32", "bfloat16", "float16"]
# Of environment variables that a shell can set.
EndpointName = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
MOST_ATTEMPTS = 100  # of a judge for one verdict; as many sample numbers belong to each repeat


class SamplingSettings(Settings):
    """Sampling of a chat role; null leaves a value to the backend."""

    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 512
    seed: int | None = None


class ImageTokenSettings(Settings):
    """How a vision model's processor turns pixels into tokens: one token per ``patch`` x ``patch`` pixels of the image,
    scaled so that the number lies between ``min_tokens`` and ``max_tokens``, plus ``extra`` delimiters."""

    patch: Annotated[int, Field(ge=1)] = 32
    min_tokens: Annotated[int, Field(ge=1)] = 64
    max_tokens: Annotated[int, Field(ge=1)] = 16384
    extra: Annotated[int, Field(ge=0)] = 2


class PriceSettings(Settings):
    """Price of a million tokens; all null: costs stay unknown. Cached input tokens cost ``cached_input``, all others
    ``input``.

    Attributes:
        currency: for the heading of the table.
    """

    input: Annotated[float, Field(ge=0)] | None = None
    cached_input: Annotated[float, Field(ge=0)] | None = None
    output: Annotated[float, Field(ge=0)] | None = None
    currency: str = "USD"

    @model_validator(mode="after")
    def _all_or_none(self) -> Self:
        if len({value is None for value in (self.input, self.cached_input, self.output)}) > 1:
            raise ValueError("a price needs input, cached_input and output; set all three, or none")
        return self

    def known(self) -> bool:
        """Whether there is a price."""
        return self.input is not None


class ThroughputSettings(Settings):
    """What the servers of a role's model do in a second, for the estimate of ``lmev2 plan``; no call reads it.

    Attributes:
        prompt, completion: tokens per second read and written, of all GPUs together under the run's load; both null:
            unknown, as for a hosted model.
        gpus: how many GPUs that takes.
    """

    prompt: Annotated[float, Field(gt=0)] | None = None
    completion: Annotated[float, Field(gt=0)] | None = None
    gpus: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.prompt is None) != (self.completion is None):
            raise ValueError("a throughput needs prompt and completion; set both, or none")
        return self

    def known(self) -> bool:
        """Whether there is a throughput."""
        return self.prompt is not None


class ChatSettings(Settings):
    """A chat role.

    Attributes:
        backend: ``llama_cpp`` (a GGUF file in this process), ``transformers`` (PyTorch in this process; needs the extra
            ``gpu``), ``openai`` (any compatible endpoint), ``rules`` (no model; controller only) or ``scripted``
            (replies from a file; for tests).
        model: the name written into results.
        served_name: the name by which the model is called (default: ``model``): at the endpoint, or, for
            ``transformers``, its hub id or folder.
        tokenizer: for ``openai``, a ``tokenizer.json`` path or a hub id whose ``tokenizer.json`` counts tokens.
        file: for ``llama_cpp`` and ``transformers``, a GGUF path, or ``package:NAME`` for the GGUF that an installed
            package ships. ``transformers`` reads its weights as numbers of `dtype`.
        quantize: for ``llama_cpp``, requantise the file once to this type (``q8_0``) before use.
        revision: for ``transformers``, branch, tag or commit of a model on the hub; null: its main branch.
        device: for ``transformers``, such as ``cuda``, ``cuda:1`` or ``cpu``, or ``auto`` to spread the model over all
            GPUs; null: a GPU if there is one.
        dtype: for ``transformers``, the numbers' type; null: ``bfloat16``.
        batch_size: for ``transformers``, requests that the model answers at once; null: ``concurrency``, which is also
            the most that a job has to ask at once.
        context_length: the model's window in tokens.
        endpoint: name of the environment variables that hold address and key: ``X`` means ``X_BASE_URL`` and
            ``X_API_KEY``.
        images: the model accepts images.
        thinking: thinking on or off where the model can switch it.
        sampling: sampling settings.
        timeout_s, retries, concurrency: of one request; requests at once.
        retry_wait_s: about how long to wait before the first retry; the wait doubles each time, up to a minute. What a
            server asks for with Retry-After is waited, up to ten minutes.
        json_mode: how JSON replies are constrained: by ``schema``, ``object``, or ``none`` (repair only; all that
            ``transformers`` can). ``object_schema`` is for servers that take a schema with ``object`` only, such as
            llama-cpp-python's.
        script: for ``scripted``, the file with the replies; `file`, if given, then names the GGUF file whose
            vocabulary counts tokens. In both, as in `tokenizer`, ``{pipeline}`` stands for the Snakefile's folder.
        price: what tokens cost, for estimates and tables of costs.
        throughput: of the model's servers, for estimates.
    """

    backend: Literal["llama_cpp", "transformers", "openai", "rules", "scripted"]
    model: str
    served_name: str | None = None
    tokenizer: str | None = None
    file: str | None = None
    quantize: Literal["q8_0", "q4_0"] | None = None
    revision: str | None = None
    device: str | None = None
    dtype: NumberType | None = None
    batch_size: Annotated[int, Field(ge=1)] | None = None
    context_length: Annotated[int, Field(ge=256)] = 8192
    endpoint: EndpointName = "LMEV2"
    images: bool = False
    image_tokens: ImageTokenSettings = ImageTokenSettings()
    thinking: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    sampling: SamplingSettings = SamplingSettings()
    timeout_s: Annotated[float, Field(gt=0)] = 600
    retries: Annotated[int, Field(ge=0)] = 3
    retry_wait_s: Annotated[float, Field(ge=0)] = 1
    concurrency: Annotated[int, Field(ge=1)] = 4
    json_mode: Literal["schema", "object_schema", "object", "none"] = "schema"
    script: str | None = None
    price: PriceSettings = PriceSettings()
    throughput: ThroughputSettings = ThroughputSettings()


class EmbedderSettings(Settings):
    """The embedding role.

    Attributes:
        backend: ``wordllama`` (weights inside its wheel), ``openai`` (any compatible endpoint), ``llama_cpp`` (a GGUF
            file in this process), ``sentence_transformers`` (PyTorch in this process; needs the extra ``gpu``) or
            ``scripted`` (tests).
        model: the name written into results.
        served_name: the name by which the model is called (default: ``model``): at the endpoint, or, for
            ``sentence_transformers``, its hub id or folder.
        tokenizer: for ``openai``, a ``tokenizer.json`` path or a hub id whose ``tokenizer.json`` cuts texts.
        file: for ``llama_cpp``, a GGUF path, or ``package:NAME`` for the GGUF that an installed package ships.
        pooling: for ``llama_cpp``, how tokens' vectors become one: ``mean``, ``cls`` (the first token's) or ``last``;
            null: as the file says.
        end_token: for ``llama_cpp``, the token appended to every text, as text; empty: none; null: as the file says.
        revision: for ``sentence_transformers``, branch, tag or commit of a model on the hub; null: its main branch.
        device: for ``sentence_transformers``, such as ``cuda``, ``cuda:1`` or ``cpu``; null: a GPU if there is one.
        dtype: for ``sentence_transformers``, the numbers' type; null: as the model is stored.
        dimension: of the vectors; for ``wordllama`` 256.
        matryoshka: for models in this process, ``dimension`` may be smaller than the model's own: the vector is then
            made of its first columns. Right only for models that were trained for it, as Qwen3-Embedding was.
        max_tokens: documents are cut at so many tokens (paper's appendix: 4,096).
        max_chars: and before that, in the middle, at so many characters.
        query_instruction: one sentence; queries become ``Instruct: {instruction}\\nQuery:{text}``. Empty: no prefix.
        batch_size: texts per call. Models in this process take one text at a time, so that no vector depends on the
            texts beside it, and store so many at once.
        padded_batches: for ``sentence_transformers``, take ``batch_size`` texts of like length at once, padded to one
            length: faster on a GPU, and a vector's last digits depend on the texts beside it.
        endpoint, timeout_s, retries, retry_wait_s, concurrency: for ``openai``, as for a chat role.
        price, throughput: as for a chat role; an embedder writes no tokens.
    """

    backend: Literal["wordllama", "openai", "llama_cpp", "sentence_transformers", "scripted"]
    model: str
    served_name: str | None = None
    tokenizer: str | None = None
    file: str | None = None
    pooling: Literal["mean", "cls", "last"] | None = None
    end_token: str | None = None
    revision: str | None = None
    device: str | None = None
    dtype: NumberType | None = None
    endpoint: EndpointName = "LMEV2_EMBEDDER"
    dimension: Annotated[int, Field(ge=1)] = 256
    matryoshka: bool = False
    max_tokens: Annotated[int, Field(ge=1)] = 4096
    max_chars: Annotated[int, Field(ge=1)] = 40_000
    query_instruction: str = ""
    batch_size: Annotated[int, Field(ge=1)] = 16
    padded_batches: bool = False
    timeout_s: Annotated[float, Field(gt=0)] = 600
    retries: Annotated[int, Field(ge=0)] = 3
    retry_wait_s: Annotated[float, Field(ge=0)] = 1
    concurrency: Annotated[int, Field(ge=1)] = 4
    price: PriceSettings = PriceSettings()
    throughput: ThroughputSettings = ThroughputSettings()

    @model_validator(mode="after")
    def _can_embed(self) -> Self:
        if self.backend == "llama_cpp" and self.file is None:
            raise ValueError("backend llama_cpp needs `file`, a GGUF path or package:NAME")
        for name, backends in _EMBEDDER_ONLY.items():
            if getattr(self, name) not in (None, False) and self.backend not in backends:
                raise ValueError(
                    f"`{name}` is for backend {' or '.join(backends)}; backend {self.backend} does not take it, "
                    "remove it or choose another backend"
                )
        if self.backend == "openai" and self.tokenizer is None:
            raise ValueError("backend openai needs `tokenizer` to cut texts: a tokenizer.json or a hub id")
        return self


# Settings of the embedder that say nothing to other backends, where they would seem to have an effect.
_EMBEDDER_ONLY = {
    "file": ("llama_cpp",),
    "pooling": ("llama_cpp",),
    "end_token": ("llama_cpp",),
    "revision": ("sentence_transformers",),
    "device": ("sentence_transformers",),
    "dtype": ("sentence_transformers",),
    "padded_batches": ("sentence_transformers",),
    "matryoshka": ("llama_cpp", "sentence_transformers"),
}


# The same of a chat role.
_CHAT_ONLY = ("revision", "device", "dtype", "batch_size")


def _check_backend(settings: ChatSettings) -> None:
    """Refuse what the role's backend cannot do, before any job runs."""
    if settings.backend == "rules":
        raise ValueError("backend rules is no model; choose llama_cpp, transformers, openai or scripted")
    for name in _CHAT_ONLY:
        if getattr(settings, name) is not None and settings.backend != "transformers":
            raise ValueError(
                f"`{name}` is for backend transformers; backend {settings.backend} does not take it, remove it or "
                "choose another backend"
            )
    if settings.backend == "transformers":
        _check_transformers(settings)
    if settings.backend == "llama_cpp" and settings.file is None:
        raise ValueError("backend llama_cpp needs `file`, a GGUF path or package:NAME")
    if settings.backend == "llama_cpp" and settings.images:
        raise ValueError("backend llama_cpp reads no images; set `images: false`")
    if settings.sampling.max_tokens >= settings.context_length:
        raise ValueError(
            f"sampling.max_tokens {settings.sampling.max_tokens} leaves no room in context_length "
            f"{settings.context_length}"
        )


def _check_transformers(settings: ChatSettings) -> None:
    if settings.quantize is not None:
        raise ValueError("`quantize` is for backend llama_cpp; backend transformers takes a `dtype`")
    if settings.tokenizer is not None:
        raise ValueError("`tokenizer` is for backend openai; backend transformers has the model's own, remove it")
    if settings.file is not None and settings.images:
        raise ValueError(
            "backend transformers reads no images with a GGUF `file`; set `images: false`, or name the model by "
            "`served_name`"
        )
    if settings.file is not None and (settings.revision is not None or settings.served_name is not None):
        raise ValueError("`file` names the whole model; remove `served_name` and `revision`")
    if settings.batch_size is not None and settings.batch_size > settings.concurrency:
        raise ValueError(
            f"batch_size {settings.batch_size} is never reached with concurrency {settings.concurrency}; raise "
            "`concurrency`, or leave `batch_size` out"
        )


def _check_json_mode(settings: ChatSettings) -> None:
    if settings.backend == "transformers" and settings.json_mode != "none":
        raise ValueError(
            f"backend transformers cannot constrain a reply (json_mode {settings.json_mode}); set `json_mode: none`: "
            "replies are then checked, and one that does not fit is asked for again"
        )


class ReaderSettings(ChatSettings):
    """The reader.

    Attributes:
        context_tokens: budget of the memory context in the reader's tokens (paper: 200,000). 0: it is shown none, and
            needs no tokenizer to answer without.
        reply_format: ``free``, or ``line``: a grammar keeps the reply to one line of at most ``line_chars`` characters,
            for local models too small to end by themselves (backend ``llama_cpp``).
    """

    context_tokens: Annotated[int, Field(ge=0)] = 200_000
    reply_format: Literal["free", "line"] = "free"
    line_chars: Annotated[int, Field(ge=1, le=10_000)] = 240

    @model_validator(mode="after")
    def _can_read(self) -> Self:
        _check_backend(self)
        if self.backend == "openai" and self.tokenizer is None and self.context_tokens:
            raise ValueError("backend openai needs `tokenizer` to count context tokens: a tokenizer.json or a hub id")
        if self.backend in ("openai", "transformers") and self.reply_format == "line":
            raise ValueError(
                f"reply_format line needs a grammar, which backend {self.backend} does not take; set it to free"
            )
        if self.context_tokens + self.sampling.max_tokens > self.context_length:
            raise ValueError(
                f"context_tokens {self.context_tokens} and sampling.max_tokens {self.sampling.max_tokens} do not fit "
                f"context_length {self.context_length}"
            )
        return self


class ControllerSettings(ChatSettings):
    """The controller: writes notes and events when memory is made, and queries when it is asked.

    Backend ``rules`` does these jobs without a model; only then may all other settings be left out.
    """

    backend: Literal["llama_cpp", "transformers", "openai", "rules", "scripted"] = "rules"
    model: str = "rules"

    @model_validator(mode="after")
    def _can_control(self) -> Self:
        if self.backend != "rules":
            _check_backend(self)
            _check_json_mode(self)
            return self
        if self.model != "rules":
            raise ValueError(
                f"backend rules calls no model, but model is {self.model!r}; name the backend of that model (openai, "
                "transformers, llama_cpp), or set `model: rules`"
            )
        return self


class JudgeSettings(ChatSettings):
    """The judge.

    Attributes:
        label_attempts: calls for one verdict while replies have no usable label.
        repeats: independent verdicts on each answer, an odd number: the label that most of them give is the score's.
            They differ where sampling does, that is, with a temperature or an endpoint that is not deterministic.
    """

    label_attempts: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)] = 3
    repeats: Annotated[int, Field(ge=1, le=99)] = 1

    @model_validator(mode="after")
    def _can_judge(self) -> Self:
        _check_backend(self)
        _check_json_mode(self)
        if self.repeats % 2 == 0:
            raise ValueError(f"repeats must be odd, so that a majority decides, found {self.repeats}")
        return self
