"""Tiny random embedding models as GGUF files: a Qwen3 that pools at its end token, and a BERT that pools by mean."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Tensors = dict[str, npt.NDArray[np.float32]]

WIDTH, HIDDEN, HEADS, HEAD_WIDTH, LAYERS, POSITIONS = 32, 64, 2, 16, 2, 640
END = "<|endoftext|>"
BERT_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"\u2581w{number}" for number in range(50))]
_ALIGNMENT = 32
_TYPES = {bool: (7, "<?"), int: (4, "<I"), float: (6, "<f")}


def byte_alphabet() -> list[str]:
    """The characters by which a byte-level vocabulary writes the 256 bytes, in the order of the bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def write_gguf(path: Path, header: dict[str, Any], tensors: Tensors) -> Path:
    """A GGUF file (version 3) with 32-bit tensors; tensors have the shape that they have in PyTorch."""
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(header))]
    for key, value in header.items():
        parts += [_text(key), _value(value)]
    offset, data = 0, []
    for name, tensor in tensors.items():
        shape = tensor.shape[::-1]  # GGUF names the innermost dimension first
        parts.append(_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset))
        content = _padded(tensor.astype("<f4").tobytes())
        data.append(content)
        offset += len(content)
    path.write_bytes(_padded(b"".join(parts)) + b"".join(data))
    return path


def qwen3_weights(seed: int = 0) -> Tensors:
    """Random weights under the names that they have in transformers."""
    size = len(byte_alphabet()) + 1
    shapes: dict[str, tuple[int, ...]] = {"embed_tokens.weight": (size, WIDTH), "norm.weight": (WIDTH,)}
    for layer in range(LAYERS):
        block = f"layers.{layer}."
        shapes |= {
            block + "input_layernorm.weight": (WIDTH,),
            block + "self_attn.q_proj.weight": (HEADS * HEAD_WIDTH, WIDTH),
            block + "self_attn.k_proj.weight": (HEAD_WIDTH, WIDTH),
            block + "self_attn.v_proj.weight": (HEAD_WIDTH, WIDTH),
            block + "self_attn.o_proj.weight": (WIDTH, HEADS * HEAD_WIDTH),
            block + "self_attn.q_norm.weight": (HEAD_WIDTH,),
            block + "self_attn.k_norm.weight": (HEAD_WIDTH,),
            block + "post_attention_layernorm.weight": (WIDTH,),
            block + "mlp.gate_proj.weight": (HIDDEN, WIDTH),
            block + "mlp.up_proj.weight": (HIDDEN, WIDTH),
            block + "mlp.down_proj.weight": (WIDTH, HIDDEN),
        }
    return _random(shapes, seed)


def write_qwen3(path: Path, weights: Tensors, **header: Any) -> Path:
    """The weights as a file that, as those of Qwen3-Embedding do, names pooling `last` and asks for an end token.

    Entries of ``header`` replace those of the file; None leaves one out.
    """
    names = {
        "embed_tokens": "token_embd",
        "norm": "output_norm",
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "self_attn.q_norm": "attn_q_norm",
        "self_attn.k_norm": "attn_k_norm",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
    }
    tensors = {}
    for name, tensor in weights.items():
        block, _, rest = name.removeprefix("layers.").partition(".") if name.startswith("layers.") else ("", "", name)
        renamed = names[rest.removesuffix(".weight")] + ".weight"
        tensors[f"blk.{block}.{renamed}" if block else renamed] = tensor
    tokens = [*byte_alphabet(), END]
    whole = {
        **_shape("qwen3", pooling_type=3),
        "qwen3.attention.head_count_kv": 1,
        "qwen3.attention.key_length": HEAD_WIDTH,
        "qwen3.attention.value_length": HEAD_WIDTH,
        "qwen3.attention.layer_norm_rms_epsilon": 1e-6,
        "qwen3.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 1) + [3],  # normal; the last is a control token
        "tokenizer.ggml.merges": ["a b"],  # there must be one; it joins what no text here holds
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": True,
        **header,
    }
    return write_gguf(path, {key: value for key, value in whole.items() if value is not None}, tensors)


def write_bert(path: Path) -> Path:
    """A random encoder with one token a word."""
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (len(BERT_TOKENS), WIDTH),
        "token_types.weight": (2, WIDTH),
        "position_embd.weight": (POSITIONS, WIDTH),
    }
    with_bias: dict[str, tuple[int, ...]] = {"token_embd_norm": (WIDTH,)}
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        with_bias |= {block + name: (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        with_bias |= {block + name: (WIDTH,) for name in ("attn_output_norm", "layer_output_norm")}
        with_bias |= {block + "ffn_up": (HIDDEN, WIDTH), block + "ffn_down": (WIDTH, HIDDEN)}
    for name, shape in with_bias.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    header = {
        **_shape("bert", pooling_type=1),
        "bert.attention.layer_norm_epsilon": 1e-6,
        "bert.attention.causal": False,
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": BERT_TOKENS,
        "tokenizer.ggml.token_type": [3] * 4 + [1] * (len(BERT_TOKENS) - 4),
        "tokenizer.ggml.token_type_count": 2,
        "tokenizer.ggml.unknown_token_id": 1,
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,  # spelt so in the format
        "tokenizer.ggml.padding_token_id": 0,
    }
    return write_gguf(path, header, _random(shapes, seed=1))


def _shape(architecture: str, pooling_type: int) -> dict[str, Any]:
    return {
        "general.architecture": architecture,
        f"{architecture}.context_length": POSITIONS,
        f"{architecture}.embedding_length": WIDTH,
        f"{architecture}.block_count": LAYERS,
        f"{architecture}.feed_forward_length": HIDDEN,
        f"{architecture}.attention.head_count": HEADS,
        f"{architecture}.pooling_type": pooling_type,
    }


def _random(shapes: dict[str, tuple[int, ...]], seed: int) -> Tensors:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def _text(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> bytes:
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, list):
        kind = 8 if isinstance(value[0], str) else 5
        items = [_text(item) if kind == 8 else struct.pack("<i", item) for item in value]
        return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)
    number, layout = _TYPES[type(value)]
    return struct.pack("<I", number) + struct.pack(layout, value)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)
