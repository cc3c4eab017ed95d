"""Token counters."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lmev2.models.settings import ImageTokenSettings
from lmev2.models.tokens import TokenizerCounter, image_tokens, load_local_tokenizer, load_tokenizer
from lmev2.models.types import ModelSetupError
from lmev2.models.wordllama_backend import package_folder

TOKENIZER = package_folder() / "tokenizers" / "l2_supercat_tokenizer_config.json"


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (320, 320, 100),  # whole patches
        (1280, 720, 40 * 22),  # 22.5 rows round to the even number
        (1280, 721, 40 * 23),
        (32, 32, 8 * 8),  # scaled up to the minimum
        (16, 512, 2 * 46),  # 0.5 x 16 patches; scaled by sqrt(64 / 8) to 1.41 x 45.25, then rounded up
        (8000, 8000, 128 * 128),  # scaled down to the maximum
    ],
)
def test_image_tokens_by_hand(width: int, height: int, tokens: int) -> None:
    assert image_tokens(width, height, ImageTokenSettings()) == tokens + 2


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 100), st.integers(200, 20_000))
def test_image_tokens_stay_within_the_bounds(width: int, height: int, least: int, most: int) -> None:
    if max(width, height) > 100 * min(width, height):
        return
    settings = ImageTokenSettings(min_tokens=least, max_tokens=most, extra=0)
    tokens = image_tokens(width, height, settings)
    assert least <= tokens <= most * 1.01
    assert tokens == image_tokens(height, width, settings)


@settings(deadline=None)  # the first one loads the tokenizer
@given(st.text(max_size=200))
def test_a_count_is_the_number_of_ids(text: str) -> None:
    tokenizer = load_tokenizer(str(TOKENIZER))
    assert tokenizer.count(text) == len(tokenizer.ids(text))


def test_a_counter_counts_text_and_images(tmp_path: Path) -> None:
    Image.new("RGB", (320, 320)).save(tmp_path / "a.png")
    text_only = TokenizerCounter(load_tokenizer(str(TOKENIZER)))
    assert text_only.count("") == 0
    assert text_only.count("a b c") == 3  # no mark of the beginning
    assert text_only.count("word " * 5000) >= 5000  # neither cut nor padded
    assert text_only.count_image(tmp_path / "a.png") == 0
    assert TokenizerCounter(load_tokenizer(str(TOKENIZER)), ImageTokenSettings()).count_image(tmp_path / "a.png") == 102


def test_a_tokenizer_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelSetupError, match=r"no tokenizer file at .*none\.json"):
        load_tokenizer(str(tmp_path / "none.json"))
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(ModelSetupError, match="is not a tokenizer file"):
        load_tokenizer(str(bad))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelSetupError, match=r"no tokenizer.json for 'nobody/nothing'.*set `tokenizer` to its path"):
        load_tokenizer("nobody/nothing")


def test_a_hub_tokenizer_that_was_fetched_is_loaded_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert load_local_tokenizer("some/model") is None
    folder = tmp_path / "models--some--model"
    (folder / "snapshots" / "abc").mkdir(parents=True)
    shutil.copy(TOKENIZER, folder / "snapshots" / "abc" / "tokenizer.json")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc", encoding="utf-8")
    expected = load_tokenizer(str(TOKENIZER)).ids("a text")
    for source in ("some/model", "some/model@abc", str(TOKENIZER)):
        found = load_local_tokenizer(source)
        assert found is not None and found.ids("a text") == expected
    assert load_local_tokenizer("some/model@other") is None
    with pytest.raises(ModelSetupError, match="neither a file nor a hub id"):
        load_local_tokenizer("some/model/file")
