"""The sentence-transformers embedder with two tiny random models made here: an encoder that pools by mean, and a Qwen3
that pools at the end token. Skipped without the extra ``gpu``; what needs no PyTorch runs always."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedEmbedder
from lmev2.models.factory import make_embedder
from lmev2.models.model_folder import model_files
from lmev2.models.sentence_transformers_backend import SentenceTransformersEmbedder, model_folder
from lmev2.models.settings import EmbedderSettings
from lmev2.models.text import cut_middle
from lmev2.models.types import ModelCallError, ModelSetupError

WIDTH, POSITIONS = 32, 80
WORDS = [f"w{number}" for number in range(200)]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<|endoftext|>", *WORDS]
TEXTS = ["w1", "w1 w2 w3", " ".join(WORDS[:40]), "w7 unknown w8"]
KINDS = ("encoder", "decoder")


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("sentence_transformers", reason="the extra `gpu` is not installed (make gpu-env)")
    return pytest.importorskip("torch")


def fast_tokenizer(before: str, behind: str) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(VOCABULARY)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [(mark, VOCABULARY.index(mark)) for mark in (before, behind) if mark]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{before} $A {behind}".strip(), special_tokens=marks
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        model_max_length=POSITIONS,
        padding_side="right" if before else "left",  # the encoder's positions count from the left
    )


def save_model(folder: Path, kind: str, torch: Any) -> None:
    """A random model on disk, with a prompt of its own that must not be used."""
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    shape = {"vocab_size": len(VOCABULARY), "hidden_size": WIDTH, "intermediate_size": 64, "num_hidden_layers": 2}
    torch.manual_seed(0)
    if kind == "encoder":
        config: Any = transformers.BertConfig(**shape, num_attention_heads=2, max_position_embeddings=POSITIONS)
        model, marks, pooling = transformers.BertModel(config), ("[CLS]", "[SEP]"), "mean"
    else:
        config = transformers.Qwen3Config(
            **shape, num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=POSITIONS
        )
        model, marks, pooling = transformers.Qwen3Model(config), ("", "<|endoftext|>"), "lasttoken"
    raw = folder.with_name(f"{folder.name}-raw")
    model.save_pretrained(raw)
    fast_tokenizer(*marks).save_pretrained(raw)
    modules = [Transformer(str(raw)), Pooling(WIDTH, pooling)]
    whole = SentenceTransformer(modules=modules, device="cpu", prompts={"query": "w9 w9 w9 ", "document": "w8 "})
    whole.default_prompt_name = "query"
    whole.save(str(folder))


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, torch: Any) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        save_model(root / kind, kind, torch)
    return {kind: root / kind for kind in KINDS}


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, models: dict[str, Path]) -> Path:
    return models[request.param]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CallCache:
    return CallCache(tmp_path_factory.mktemp("cache"))


def settings(folder: Path, **changes: Any) -> EmbedderSettings:
    values: dict[str, Any] = {
        "served_name": str(folder),
        "device": "cpu",
        "dimension": WIDTH,
        "max_tokens": 50,
        **changes,
    }
    return EmbedderSettings(backend="sentence_transformers", model="tiny", **values)


def embedder(folder: Path, cache: CallCache, **changes: Any) -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder(settings(folder, **changes), cache, threads=1)


def by_hand(folder: Path, words: list[str], torch: Any) -> npt.NDArray[np.float64]:
    """The vector of a text's words, by transformers alone."""
    import transformers

    model = transformers.AutoModel.from_pretrained(folder).eval()
    marks = ("[CLS]", "[SEP]") if folder.name == "encoder" else ("", "<|endoftext|>")
    whole = [*filter(None, marks[:1]), *words, marks[1]]
    ids = [VOCABULARY.index(word if word in VOCABULARY else "[UNK]") for word in whole]
    with torch.inference_mode():
        states = model(input_ids=torch.tensor([ids])).last_hidden_state[0].double().numpy()
    vector = states.mean(axis=0) if folder.name == "encoder" else states[-1]
    return np.asarray(vector / np.linalg.norm(vector))


def test_vectors_are_those_of_the_model_and_unit(folder: Path, cache: CallCache, torch: Any) -> None:
    backend = embedder(folder, cache)
    vectors = backend.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), WIDTH)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(vector, by_hand(folder, text.split(), torch), atol=1e-5)
        np.testing.assert_array_equal(embedder(folder, cache).embed_documents([text])[0], vector)
    np.testing.assert_array_equal(backend.embed_documents(TEXTS[::-1])[::-1], vectors)
    assert not backend.embed_documents(["", " \n"]).any()
    assert backend.embed_documents([]).shape == (0, WIDTH)
    np.testing.assert_array_equal(backend.embed_query("w1 \ud83d"), backend.embed_query("w1 \ufffd"))


def test_padded_batches_move_a_vector_by_rounding_only(
    folder: Path, cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [" ".join(WORDS[:length]) for length in (40, 1, 7, 30, 2, 12, 25)] + [""]
    alone = embedder(folder, cache).embed_documents(texts)
    backend = embedder(folder, cache, padded_batches=True, batch_size=3)
    model, _ = backend._load()
    sizes: list[int] = []
    encode = model.encode

    def record(given: Any, **options: Any) -> Any:
        sizes.append(1 if isinstance(given, str) else len(given))
        if sizes == [3]:
            raise RuntimeError("CUDA out of memory")
        return encode(given, **options)

    monkeypatch.setattr(model, "encode", record)
    np.testing.assert_allclose(backend.embed_documents(texts), alone, atol=1e-5)
    assert sizes == [3, 1, 2, 3, 1]  # the first batch did not fit and was halved
    assert backend.identity() != embedder(folder, cache).identity()


def test_a_text_is_cut_at_tokens_and_keeps_its_special_tokens(folder: Path, cache: CallCache, torch: Any) -> None:
    backend = embedder(folder, cache)
    vector = backend.embed_documents([" ".join(WORDS[:120])])[0]
    np.testing.assert_allclose(vector, by_hand(folder, WORDS[:50], torch), atol=1e-5)
    np.testing.assert_array_equal(backend.embed_documents([" ".join(WORDS[:50] + WORDS[150:])])[0], vector)
    assert not np.array_equal(backend.embed_documents([" ".join(WORDS[:49] + WORDS[150:])])[0], vector)


def test_only_a_prefix_of_a_long_text_is_tokenised(
    folder: Path, cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = embedder(folder, cache, max_chars=10**6)
    model, tokenizer = backend._load()
    seen: list[int] = []
    whole, encode = tokenizer.offsets, model.encode
    monkeypatch.setattr(tokenizer, "offsets", lambda text: seen.append(len(text)) or whole(text))
    monkeypatch.setattr(model, "encode", lambda text, **options: seen.append(len(text)) or encode(text, **options))
    backend.embed_documents(["w1 w22 " * 50_000])
    assert len(seen) >= 2
    assert max(seen) < 2000


def test_a_text_is_cut_in_the_middle_first(folder: Path, cache: CallCache) -> None:
    backend = embedder(folder, cache, max_chars=60)
    text = "w1 " * 100 + "w2 " * 100
    assert "w2" in cut_middle(text, 60)
    np.testing.assert_array_equal(backend.embed_documents([text]), backend.embed_documents([cut_middle(text, 60)]))


def test_queries_carry_our_instruction_and_no_prompt_of_the_model(folder: Path, cache: CallCache, torch: Any) -> None:
    plain, instructed = embedder(folder, cache), embedder(folder, cache, query_instruction="w5 w6")
    np.testing.assert_allclose(plain.embed_query("w1"), by_hand(folder, ["w1"], torch), atol=1e-5)
    np.testing.assert_array_equal(plain.embed_query("w1"), plain.embed_documents(["w1"])[0])
    expected = plain.embed_documents(["Instruct: w5 w6\nQuery:w1"])[0]
    np.testing.assert_array_equal(instructed.embed_query("w1"), expected)
    np.testing.assert_array_equal(instructed.embed_documents(["w1"]), plain.embed_documents(["w1"]))
    assert not np.array_equal(instructed.embed_query("w1"), plain.embed_query("w1"))


def test_a_number_type_is_used_and_stays_unit(folder: Path, cache: CallCache) -> None:
    whole = embedder(folder, cache).embed_documents(TEXTS[:2])
    half = embedder(folder, cache, dtype="bfloat16").embed_documents(TEXTS[:2])
    np.testing.assert_allclose(half, whole, atol=0.05)
    assert not np.array_equal(half, whole)
    np.testing.assert_allclose(np.linalg.norm(half, axis=1), 1, atol=1e-6)


def test_fewer_dimensions_only_where_the_model_is_said_to_allow_it(folder: Path, cache: CallCache) -> None:
    whole = embedder(folder, cache).embed_query("w1")
    part = embedder(folder, cache, dimension=8, matryoshka=True).embed_query("w1")
    np.testing.assert_allclose(part, whole[:8] / np.linalg.norm(whole[:8]), atol=1e-6)
    with pytest.raises(ModelSetupError, match="`matryoshka: true`"):
        embedder(folder, cache, dimension=8).embed_query("w1")
    with pytest.raises(ModelSetupError, match=f"{WIDTH} numbers; `dimension` is 99"):
        embedder(folder, cache, dimension=99, matryoshka=True).embed_query("w1")


def test_what_does_not_fit_is_named(models: dict[str, Path], cache: CallCache) -> None:
    with pytest.raises(ModelSetupError, match=r"reads 80 tokens.*with special tokens 81. Set it to 78 or less"):
        embedder(models["encoder"], cache, max_tokens=79).embed_query("w1")
    embedder(models["decoder"], cache, max_tokens=79).embed_query("w1")
    with pytest.raises(ModelSetupError, match=r"cannot load .*device nowhere"):
        embedder(models["encoder"], cache, device="nowhere").embed_query("w1")


def test_a_failing_model_is_a_call_error(
    models: dict[str, Path], cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = embedder(models["encoder"], cache)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(backend._load()[0], "encode", fail)
    with pytest.raises(ModelCallError, match="out of memory"):
        backend.embed_query("w1")


def test_a_model_of_the_hub_that_cannot_be_had_is_named(
    cache: CallCache, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelSetupError, match="nobody/nothing"):
        embedder(Path("nobody/nothing"), cache, revision="v1").embed_query("w1")


def test_what_changes_a_vector_is_in_the_identity(models: dict[str, Path], cache: CallCache, tmp_path: Path) -> None:
    folder = models["encoder"]
    changes: list[dict[str, Any]] = [
        {},
        {"revision": "v2"},
        {"dtype": "bfloat16"},
        {"dimension": 8},
        {"max_tokens": 9},
        {"max_chars": 9},
        {"query_instruction": "x"},
    ]
    identities = {json.dumps(embedder(folder, cache, **change).identity()) for change in changes}
    assert len(identities) == len(changes)
    same = embedder(folder, cache, device=None, batch_size=1).identity()
    assert same == embedder(folder, cache).identity()
    assert set(same["versions"]) == {"sentence-transformers", "transformers", "torch"}

    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    assert embedder(moved, cache).identity() == same
    weights = moved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert embedder(moved, cache).identity() != same


def test_stored_vectors_need_no_model(folder: Path, cache: CallCache) -> None:
    first = make_embedder(settings(folder), cache, threads=1)
    vectors = first.embed_documents(TEXTS)
    again = make_embedder(settings(folder), cache, threads=1)
    np.testing.assert_array_equal(again.embed_documents(TEXTS), vectors)
    assert isinstance(again, CachedEmbedder)
    assert isinstance(again.backend, SentenceTransformersEmbedder)
    assert again.backend._loaded is None


def test_a_missing_package_is_named(cache: CallCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise sys.modules["importlib.metadata"].PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", missing)
    backend = embedder(Path("owner/name"), cache)
    for call in (backend.identity, lambda: backend.embed_query("w1")):
        with pytest.raises(ModelSetupError, match="sentence-transformers, which is not installed; run `make gpu-env`"):
            call()


def test_folders_and_hub_ids(tmp_path: Path) -> None:
    assert model_folder("Qwen/Qwen3-Embedding-8B") is None
    for name in (str(tmp_path / "none"), "./none", "a/b/c"):
        with pytest.raises(ModelSetupError, match="no folder"):
            model_folder(name)
    with pytest.raises(ModelSetupError, match=r"holds no modules\.json"):
        model_folder(str(tmp_path))
    (tmp_path / "modules.json").write_text("[]")
    assert model_folder(str(tmp_path)) == tmp_path


def test_files_that_decide_about_vectors(tmp_path: Path) -> None:
    wanted = ["1_Pooling/config.json", "config.json", "model.safetensors", "vocab.txt"]
    for name in [*wanted, "README.md", ".cache/a.json", "onnx/model.json", "openvino/model.bin"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    assert [str(path.relative_to(tmp_path)) for path in model_files(tmp_path)] == wanted
