"""Tokens of texts that are known by their length only: characters per token, measured where a tokenizer is at hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmev2.costs.assumptions import Assumptions
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.tokens import VocabularyCounter, load_tokenizer
from lmev2.models.types import ModelSetupError

_log = logging.getLogger("lmev2")
_SAMPLED_CHARS = 400_000  # of each kind of text


@dataclass(frozen=True)
class Ratio:
    """Characters per token.

    Attributes:
        prose, tree: of each kind of text.
        measured: the kinds that were measured with the role's tokenizer; the others are assumed.
    """

    prose: float
    tree: float
    measured: tuple[str, ...] = ()


def measure(
    settings: ChatSettings | EmbedderSettings,
    path: Callable[[str], str],
    texts: Sequence[str],
    trees: Sequence[str],
    assumed: Assumptions,
) -> Ratio:
    """Characters per token of a role, with its own tokenizer where that lies on this machine, else as assumed. Nothing
    is fetched.

    Args:
        path: fills in the placeholders of a configured path.
        texts, trees: samples.
    """
    ratio = Ratio(assumed.chars_per_token, assumed.tree_chars_per_token)
    count = _counter(settings, path)
    if count is None:
        return ratio
    found = {kind: _per_token(count, sample) for kind, sample in (("prose", texts), ("tree", trees))}
    known = {kind: value for kind, value in found.items() if value is not None}
    return Ratio(known.get("prose", ratio.prose), known.get("tree", ratio.tree), tuple(known))


def _per_token(count: Callable[[str], int], sample: Sequence[str]) -> float | None:
    chars = tokens = 0
    for text in sample:
        if chars >= _SAMPLED_CHARS:
            break
        chars += len(text)
        tokens += count(text)
    return chars / tokens if tokens else None


def _counter(settings: ChatSettings | EmbedderSettings, path: Callable[[str], str]) -> Callable[[str], int] | None:
    try:
        if settings.file is not None and settings.backend in ("llama_cpp", "scripted"):
            return _checked(VocabularyCounter(path(settings.file)).count)
        if settings.tokenizer is None:
            return None
        file = _local_tokenizer(path(settings.tokenizer))
        if file is None:
            return None
        tokenizer = load_tokenizer(file)
        return lambda text: len(tokenizer.ids(text))
    except (ModelSetupError, ImportError, OSError) as error:
        _log.info("no tokenizer of %s at hand: %s", settings.model, error)
        return None


def _checked(count: Callable[[str], int]) -> Callable[[str], int]:
    count("a")  # a file that cannot be read says so here
    return count


def _local_tokenizer(source: str) -> str | None:
    """The tokenizer file of a path or of a hub id whose file was fetched before."""
    file = Path(source).expanduser()
    if file.suffix == ".json" or file.is_file():
        return str(file) if file.is_file() else None
    from huggingface_hub import try_to_load_from_cache

    name, _, revision = source.partition("@")
    found = try_to_load_from_cache(name, "tokenizer.json", revision=revision or None)
    return found if isinstance(found, str) else None
