"""Token counters: a GGUF file's vocabulary, a ``tokenizer.json``, and the formula for images."""

from __future__ import annotations

import functools
import math
import os
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from tokenizers import Tokenizer

from lmev2.models.gguf import import_llama_cpp, resolve_file
from lmev2.models.settings import ImageTokenSettings
from lmev2.models.text import well_formed
from lmev2.models.types import ModelSetupError


class JsonTokenizer:
    """A ``tokenizer.json``, as it encodes plain text: no special tokens, no cutting, no padding."""

    def __init__(self, tokenizer: Tokenizer):
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer

    def ids(self, text: str) -> list[int]:
        """Token ids of a text."""
        ids: list[int] = self._tokenizer.encode(well_formed(text), add_special_tokens=False).ids
        return ids

    def count(self, text: str) -> int:
        """Number of tokens of a text, as many as :meth:`ids` gives, in two thirds of the time: no offsets are kept."""
        return len(self._tokenizer.encode_batch_fast([well_formed(text)], add_special_tokens=False)[0])

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """First and last-plus-one character of each token of a well-formed text."""
        offsets: list[tuple[int, int]] = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return offsets


class TokenizerCounter:
    """Counts with a ``tokenizer.json``; images by the formula, or 0 for a text-only model."""

    def __init__(self, tokenizer: JsonTokenizer, images: ImageTokenSettings | None = None):
        self._tokenizer = tokenizer
        self._images = images

    def count(self, text: str) -> int:
        """Number of tokens of a text, without special tokens."""
        return self._tokenizer.count(text)

    def count_image(self, path: Path) -> int:
        """Number of tokens of an image."""
        return 0 if self._images is None else count_image_tokens(path, self._images)


class VocabularyCounter:
    """Counts with the vocabulary of a GGUF file, without loading its weights. Text-only."""

    def __init__(self, file: str):
        self._path = resolve_file(file)
        self._guard = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None  # model (kept alive), vocabulary

    def count(self, text: str) -> int:
        """Number of tokens of a text; marks of special tokens inside it count as plain text."""
        llama_cpp, vocabulary = import_llama_cpp(), self._vocabulary()
        data = well_formed(text).encode("utf-8")
        # without a place for tokens, the answer is minus the number of tokens
        return abs(int(llama_cpp.llama_tokenize(vocabulary, data, len(data), None, 0, False, False)))

    def count_image(self, path: Path) -> int:
        """0: the model reads no images."""
        return 0

    def _vocabulary(self) -> Any:
        with self._guard:
            if self._loaded is None:
                llama_cpp = import_llama_cpp()
                parameters = llama_cpp.llama_model_default_params()
                parameters.vocab_only = True
                model = llama_cpp.llama_model_load_from_file(os.fsencode(self._path), parameters)
                if model is None:
                    raise ModelSetupError(f"llama.cpp cannot read the vocabulary of {self._path}")
                self._loaded = (model, llama_cpp.llama_model_get_vocab(model))
            return self._loaded[1]


def count_image_tokens(path: Path, settings: ImageTokenSettings) -> int:
    """Number of tokens that an image file costs."""
    with Image.open(path) as image:
        width, height = image.size
    return image_tokens(width, height, settings)


def image_tokens(width: int, height: int, settings: ImageTokenSettings) -> int:
    """Number of tokens of an image of so many pixels: a grid of patches, plus delimiters.

    Each side is rounded to whole patches; if the grid is too large or too small, the image is scaled in proportion
    first, then rounded down or up, so that the number lies within the bounds.
    """
    columns, rows = (max(1, round(side / settings.patch)) for side in (width, height))
    area = (width / settings.patch) * (height / settings.patch)
    if columns * rows > settings.max_tokens:
        scale = math.sqrt(settings.max_tokens / area)
        columns, rows = (max(1, math.floor(side / settings.patch * scale)) for side in (width, height))
    elif columns * rows < settings.min_tokens:
        scale = math.sqrt(settings.min_tokens / area)
        columns, rows = (math.ceil(side / settings.patch * scale) for side in (width, height))
    return columns * rows + settings.extra


@functools.lru_cache(maxsize=8)
def load_tokenizer(source: str) -> JsonTokenizer:
    """A tokenizer from a ``tokenizer.json`` path, or from a hub id (``owner/name``, ``owner/name@revision``).

    A hub file is taken from the hub's local cache if it is there, else downloaded.

    Raises:
        ModelSetupError: no such file, not a tokenizer, or the hub cannot be reached.
    """
    return _from_file(_named_file(source) or _hub_file(source))


def load_local_tokenizer(source: str) -> JsonTokenizer | None:
    """The same without a network: None where the file of a hub id is not in the hub's local cache.

    Raises:
        ModelSetupError: no such file, not a tokenizer, or neither a file nor a hub id.
    """
    path = _named_file(source) or _fetched_file(source)
    return None if path is None else load_tokenizer(str(path))


def _named_file(source: str) -> Path | None:
    """The file that a path names; None for a hub id."""
    path = Path(source).expanduser()
    if path.is_file():
        return path
    if path.suffix == ".json":
        raise ModelSetupError(
            f"no tokenizer file at {path.absolute()}; set `tokenizer` to a tokenizer.json or a hub id"
        )
    return None


def _from_file(path: Path) -> JsonTokenizer:
    try:
        return JsonTokenizer(Tokenizer.from_file(str(path)))
    except Exception as error:
        raise ModelSetupError(f"{path} is not a tokenizer file: {error}") from None


def _hub_file(source: str) -> Path:
    import huggingface_hub

    name, revision = _hub_id(source)
    try:
        return Path(huggingface_hub.hf_hub_download(name, "tokenizer.json", revision=revision))
    except Exception as error:
        raise ModelSetupError(
            f"no tokenizer.json for {source!r}: {type(error).__name__}: {error}. Without network, download the file "
            "elsewhere and set `tokenizer` to its path"
        ) from None


def _fetched_file(source: str) -> Path | None:
    import huggingface_hub

    name, revision = _hub_id(source)
    try:
        found = huggingface_hub.try_to_load_from_cache(name, "tokenizer.json", revision=revision)
    except Exception as error:
        raise ModelSetupError(
            f"{source!r} is neither a file nor a hub id: {error}; set `tokenizer` to a tokenizer.json or a hub id"
        ) from None
    return Path(found) if isinstance(found, str) else None


def _hub_id(source: str) -> tuple[str, str | None]:
    """Name and revision."""
    name, _, revision = source.partition("@")
    return name, revision or None
