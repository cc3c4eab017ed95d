"""Truncation keeps the longest prefix of whole items whose joined text fits."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from lmev2.models.types import ImagePart, TextPart
from lmev2.truncate import EMPTY_CONTEXT, IMAGE_LEFT_OUT, SEPARATOR, fit_context


class WordCounter:
    """Runs of word characters, of white space and of the rest, so that counts of joined texts are not additive."""

    def count(self, text: str) -> int:
        return len(re.findall(r"\w+|\s+|[^\w\s]+", text))

    def count_image(self, path: Path) -> int:
        return 7


class ByteCounter:
    """A token a byte, as tokenizers without merges count."""

    def count(self, text: str) -> int:
        return len(text.encode())

    def count_image(self, path: Path) -> int:
        return 7


def text(value: str) -> dict[str, str]:
    return {"type": "text", "value": value}


_ITEMS = st.lists(
    st.one_of(
        st.text("ab \n!", min_size=1, max_size=12).map(text),
        st.just({"type": "image", "value": "x.png"}),
    ),
    max_size=12,
)


@given(_ITEMS, st.integers(0, 120), st.booleans(), st.sampled_from([WordCounter(), ByteCounter()]))
@settings(max_examples=400)
def test_keeps_the_longest_fitting_prefix(
    items: list[dict[str, str]], budget: int, images: bool, counter: WordCounter | ByteCounter
) -> None:
    fitted = fit_context(items, counter, budget, images)

    def seen(count: int) -> list[dict[str, str]]:
        """Of neighbouring images a text-only reader sees one mark."""
        before = [text(""), *items]
        return [
            item
            for number, item in enumerate(items[:count])
            if images or not before[number]["type"] == item["type"] == "image"
        ]

    def tokens(count: int) -> int:
        total, run = 0, []
        for item in seen(count):
            if images and item["type"] == "image":
                total += 7 + (counter.count(SEPARATOR.join(run) + SEPARATOR) if run else 0)
                run = []
            else:
                run.append(IMAGE_LEFT_OUT if item["type"] == "image" else item["value"])
        return total + (counter.count(SEPARATOR.join(run)) if run else 0)

    assert fitted.tokens_before == tokens(len(items))
    assert fitted.tokens == tokens(fitted.kept) <= budget or fitted.kept == 0
    assert fitted.kept == len(items) or tokens(fitted.kept + 1) > budget
    # Every image that the reader does not see counts, though neighbours share their mark.
    left_out = [item for item in items[: fitted.kept] if item["type"] == "image" and not images]
    assert fitted.images_left_out == len(left_out)
    if fitted.kept and not images:
        shown = [IMAGE_LEFT_OUT if item["type"] == "image" else item["value"] for item in seen(fitted.kept)]
        assert fitted.parts == (TextPart(SEPARATOR.join(shown)),)


def test_neighbouring_images_cost_a_text_only_reader_one_mark() -> None:
    images = [{"type": "image", "value": f"{number}.png"} for number in range(30)]
    fitted = fit_context([text("a"), *images, text("b" * 30)], ByteCounter(), budget=25, images=False)
    assert fitted.kept == 31


class CountingCounter(WordCounter):
    """Keeps the length of all that it counted."""

    counted = 0

    def count(self, text: str) -> int:
        self.counted += len(text)
        return super().count(text)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=20), st.integers(0, 3000), st.booleans())
def test_long_contexts_are_cut_as_exactly_and_counted_about_twice(
    sizes: list[int], budget: int, seams_merge: bool
) -> None:
    joint = " " if seams_merge else "."  # white space at an item's end becomes one token with what joins items
    values = ["word " * size + joint for size in sizes]
    counter = CountingCounter()
    fitted = fit_context([text(value) for value in values], counter, budget, images=False)
    tokens = [WordCounter().count(SEPARATOR.join(values[:kept])) for kept in range(len(values) + 1)]
    assert fitted.kept == max(kept for kept, own in enumerate(tokens) if own <= budget)
    assert (fitted.tokens, fitted.tokens_before) == (tokens[fitted.kept], tokens[-1])
    close = sum(abs(own - budget) <= 16 * len(values) for own in tokens)
    # Once whole; then, if less than half fits, that half and the item that no longer fits, and what is kept once more.
    assert counter.counted <= (2.5 + close) * len(SEPARATOR.join(values)) + 40 * len(values)


def test_an_empty_context_says_so() -> None:
    fitted = fit_context([], WordCounter(), 100, images=False)
    assert fitted.parts == (TextPart(EMPTY_CONTEXT),)
    assert (fitted.tokens, fitted.tokens_before, fitted.kept) == (0, 0, 0)


def test_text_only_readers_get_a_placeholder_and_a_count() -> None:
    items = [text("one"), {"type": "image", "value": "a.png"}, text("two")]
    fitted = fit_context(items, WordCounter(), 100, images=False)
    assert fitted.parts == (TextPart("one\n\n[images left out]\n\ntwo"),)
    assert fitted.images_left_out == 1


def test_neighbouring_images_share_one_placeholder_but_count_each() -> None:
    image = {"type": "image", "value": "a.png"}
    items = [image, image, text("one"), image, image, image, text("two"), image]
    fitted = fit_context(items, WordCounter(), 100, images=False)
    mark = "[images left out]"
    assert fitted.parts == (TextPart(SEPARATOR.join([mark, "one", mark, "two", mark])),)
    assert fitted.images_left_out == 6


def test_a_further_neighbouring_image_costs_a_text_only_reader_nothing() -> None:
    image = {"type": "image", "value": "a.png"}
    budget = WordCounter().count("one\n\n[images left out]")
    fitted = fit_context([text("one"), image, image, image, text("two")], WordCounter(), budget, images=False)
    assert (fitted.kept, fitted.tokens, fitted.images_left_out) == (4, budget, 3)
    fitted = fit_context([text("one"), image, image], WordCounter(), budget - 1, images=False)
    assert (fitted.kept, fitted.images_left_out) == (1, 0)


def test_a_reader_of_images_gets_neighbouring_ones_all() -> None:
    items = [text("one"), *({"type": "image", "value": f"{name}.png"} for name in "ab"), text("two")]
    fitted = fit_context(items, WordCounter(), 100, images=True)
    assert fitted.parts == (
        TextPart(f"one{SEPARATOR}"),
        ImagePart(Path("a.png")),
        ImagePart(Path("b.png")),
        TextPart("two"),
    )


def test_images_keep_their_place() -> None:
    items = [text("one"), {"type": "image", "value": "a.png"}, text("two"), text("three")]
    fitted = fit_context(items, WordCounter(), 100, images=True)
    assert fitted.parts == (TextPart(f"one{SEPARATOR}"), ImagePart(Path("a.png")), TextPart(f"two{SEPARATOR}three"))
    assert fitted.images_left_out == 0
