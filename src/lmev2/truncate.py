"""Fitting a memory context into the reader's budget: whole items are dropped from the end, counts are exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmev2.models.types import ImagePart, TextPart, TokenCounter

SEPARATOR = "\n\n"
IMAGE_LEFT_OUT = "[images left out]"
EMPTY_CONTEXT = "(the memory returned no evidence)"
_SEAM_TOKENS = 16  # joining two items changes the sum of their tokens by less


@dataclass(frozen=True)
class FittedContext:
    """A context that fits.

    Attributes:
        parts: what the reader sees, in order; text pieces are already separated.
        kept: how many items are in it, from the start.
        tokens_before, tokens: of the whole context and of the kept one, in the reader's own tokens, images included.
        images_left_out: kept image items that the reader sees as a placeholder line only.
    """

    parts: tuple[TextPart | ImagePart, ...]
    kept: int
    tokens_before: int
    tokens: int
    images_left_out: int


NOTHING = FittedContext((TextPart(EMPTY_CONTEXT),), 0, 0, 0, 0)  # a context without items


def fit_context(items: Sequence[Mapping[str, Any]], counter: TokenCounter, budget: int, images: bool) -> FittedContext:
    """Drop whole items from the end until the context has at most ``budget`` tokens.

    The tokens of a context are those of its joined text, as the reader's tokenizer sees it, plus those of its images;
    they are not the sum over items, since a tokenizer may merge across the line breaks between two items.

    Args:
        items: context items (``type``, ``value``), most important first.
        counter: the reader's token counter.
        budget: tokens; 0 keeps nothing.
        images: the reader accepts images; if not, a placeholder line stands for neighbouring ones.
    """
    before = _count(_parts(items, images), counter)
    kept, tokens = len(items), before
    if before > budget:
        kept, too_many = _guess(items, counter, before, budget, images)
        tokens = _count(_parts(items[:kept], images), counter)
        while kept and tokens > budget:
            kept -= 1
            tokens = _count(_parts(items[:kept], images), counter)
        while kept + 1 < too_many:
            more = _count(_parts(items[: kept + 1], images), counter)
            if more > budget:
                break
            kept, tokens = kept + 1, more
    left_out = 0 if images else sum(item["type"] == "image" for item in items[:kept])
    parts = _parts(items[:kept], images) or (TextPart(EMPTY_CONTEXT),)
    return FittedContext(parts, kept, before, tokens if kept else 0, left_out)


def _guess(
    items: Sequence[Mapping[str, Any]], counter: TokenCounter, before: int, budget: int, images: bool
) -> tuple[int, int]:
    """How many items fit by the sum of their own counts, and how many surely do not.

    Texts are long and counting is most of the work, so only the lesser part is counted once more: the items that fit,
    from the start, or those that do not, from the end. The sum is off where items meet, by less than
    :data:`_SEAM_TOKENS` and a mark for images for each item counted.

    Args:
        before: tokens of all items together, more than the budget.
    """
    from_start = before > 2 * budget
    # A mark counted for each of neighbouring images stands there once.
    marks = not images and any(item["type"] == "image" for item in items)
    seam = _SEAM_TOKENS + (counter.count(IMAGE_LEFT_OUT + SEPARATOR) if marks else 0)
    kept, total = (0, 0) if from_start else (len(items), before)
    fits, too_many = 0, len(items)
    for counted in range(1, len(items) + 1):
        item = items[kept if from_start else kept - 1]
        own = _count(_parts([item], images), counter) + counter.count(SEPARATOR)
        kept, total = (kept + 1, total + own) if from_start else (kept - 1, total - own)
        fits = kept if total <= budget else fits
        if total - seam * counted > budget:
            too_many = min(too_many, kept)
        if (too_many == kept) if from_start else (fits == kept):
            break
    return fits, too_many


def _parts(items: Sequence[Mapping[str, Any]], images: bool) -> tuple[TextPart | ImagePart, ...]:
    """Items as message parts; neighbouring texts become one part, so that what is counted is what is sent."""
    parts: list[TextPart | ImagePart] = []
    run: list[str] = []
    for item in items:
        if item["type"] == "image" and images:
            if run:
                parts.append(TextPart(SEPARATOR.join(run) + SEPARATOR))
                run = []
            parts.append(ImagePart(Path(item["value"])))
        elif item["type"] == "text":
            run.append(item["value"])
        elif not run or run[-1] != IMAGE_LEFT_OUT:  # one mark for neighbouring images
            run.append(IMAGE_LEFT_OUT)
    if run:
        parts.append(TextPart(SEPARATOR.join(run)))
    return tuple(parts)


def _count(parts: Sequence[TextPart | ImagePart], counter: TokenCounter) -> int:
    return sum(
        counter.count(part.text) if isinstance(part, TextPart) else counter.count_image(part.path) for part in parts
    )
