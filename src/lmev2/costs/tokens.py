"""Tokens of texts that are known by their length only: characters per token, measured where a tokenizer is at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lmev2.costs.assumptions import Assumptions
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.tokens import VocabularyCounter, load_local_tokenizer
from lmev2.models.types import ModelSetupError

_SAMPLED_CHARS = 400_000  # of each kind of text


@dataclass(frozen=True)
class Ratio:
    """Characters per token.

    Attributes:
        prose, tree: of each kind of text.
        measured: the kinds that were measured with the role's tokenizer; the others are assumed.
        fault: why the tokenizer that the role names could not be used; empty where it could, or none is at hand.
    """

    prose: float
    tree: float
    measured: tuple[str, ...] = ()
    fault: str = ""


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
    try:
        count = _counter(settings, path)
    except (ModelSetupError, ImportError, OSError) as error:
        return replace(ratio, fault=str(error))
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
    """What counts tokens; None where the role names nothing, or a hub id that was not fetched.

    Raises:
        ModelSetupError, ImportError, OSError: what the role names cannot be used.
    """
    if settings.file is not None and settings.backend in ("llama_cpp", "scripted"):
        count = VocabularyCounter(path(settings.file)).count
        count("a")  # a file that cannot be read says so here
        return count
    if settings.tokenizer is None:
        return None
    tokenizer = load_local_tokenizer(path(settings.tokenizer))
    return None if tokenizer is None else tokenizer.count
