"""From a search's hits to what a reader is sent: reading trajectories, rendering, and cutting to 200,000 tokens.

    PYTHONPATH=src python -m benchmarks.run OUT --sizes small --only ingest sanitize_goals apply_goals raw_state \\
        make_tokenizer embed_raw_state index_raw_state query_full
    PYTHONPATH=src python -m benchmarks.reading OUT/work/small

Every context that the stage ``query_full`` wrote is made and cut again, with each of two tokenizers. Prints a Markdown
table: milliseconds for one context, by the clock and of CPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.data_stages import GGUF_FILE
from benchmarks.query_stages import BUDGET
from lmev2.data.store import StateStore
from lmev2.index import Hit
from lmev2.memory.render import render_slice
from lmev2.memory.settings import RenderSettings
from lmev2.models.tokens import TokenizerCounter, VocabularyCounter, load_tokenizer
from lmev2.models.types import TokenCounter
from lmev2.rows import CONTEXT, QUESTION, read_rows
from lmev2.trajectory import Trajectory
from lmev2.truncate import FittedContext, fit_context

Row = Mapping[str, Any]
Result = TypeVar("Result")

_HEADER = ("step", "contexts", "wall p50 ms", "wall p95 ms", "CPU p50 ms", "CPU p95 ms")


class Timer:
    """Times of one step: wall and CPU seconds of each call."""

    def __init__(self, name: str):
        self.name = name
        self.times: list[tuple[float, float]] = []

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call and take the time."""
        started, used = time.perf_counter(), time.process_time()
        result = function(*arguments)
        self.times.append((time.perf_counter() - started, time.process_time() - used))
        return result

    def line(self) -> str:
        """The step's line of the table."""
        wall, cpu = 1000 * np.array(self.times).T
        cells = [f"{value:.1f}" for times in (wall, cpu) for value in np.percentile(times, (50, 95))]
        return f"| {' | '.join([self.name, str(len(wall)), *cells])} |"


def _hits(context: Row) -> list[Hit]:
    """The hits that a context of slices shows, in its order."""
    hits = []
    for item in context["items"]:
        if item["type"] == "text":
            first, last = item["states"][0], item["states"][-1]
            center = first if first == 0 and last < 2 else first + 1
            hits.append(Hit("", item["trajectory_id"], first, last, center, {}, item["score"]))
    return hits


def _read(store: StateStore, hits: Sequence[Hit]) -> dict[str, Trajectory]:
    return {hit.trajectory_id: store.trajectory(hit.trajectory_id) for hit in hits}


def _render(
    hits: Sequence[Hit], trajectories: Mapping[str, Trajectory], question: str, settings: RenderSettings
) -> None:
    seen: set[str] = set()
    for rank, hit in enumerate(hits, start=1):
        render_slice(rank, hit, question, trajectories[hit.trajectory_id], settings, seen)


def _fit(contexts: Iterable[Row], counter: TokenCounter, name: str) -> list[Timer]:
    """Times for contexts that fit, and for those that are cut."""
    timers = {False: Timer(f"count, {name}: fits"), True: Timer(f"count and cut, {name}: longer than the budget")}
    tokens: dict[bool, list[int]] = {False: [], True: []}
    counter.count("the vocabulary is loaded")
    for context in contexts:
        own = Timer("")
        fitted: FittedContext = own.call(fit_context, context["items"], counter, BUDGET, False)
        cut = fitted.kept < len(context["items"])
        timers[cut].times += own.times
        tokens[cut].append(fitted.tokens_before)
    for cut, timer in timers.items():
        if tokens[cut]:
            timer.name += f", {np.mean(tokens[cut]):,.0f} tokens"
    return [timer for timer in timers.values() if timer.times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="OUT/work/<size> of benchmarks.run")
    work = parser.parse_args().work
    contexts = list(read_rows(work / "contexts/full.parquet", CONTEXT))
    questions = {row["question_id"]: row["question"] for row in read_rows(work / "data/questions.parquet", QUESTION)}
    reading, full, focused = Timer("read the trajectories"), Timer("render, full"), Timer("render, focused")
    with StateStore(work / "goals/states.parquet", work / "goals/trajectories.parquet", keep=0) as store:
        for context in contexts:
            hits, question = _hits(context), questions[context["question_id"]]
            found = reading.call(_read, store, hits)
            full.call(_render, hits, found, question, RenderSettings(mode="full"))
            focused.call(_render, hits, found, question, RenderSettings(mode="focused"))
    timers = [reading, full, focused]
    timers += _fit(contexts, VocabularyCounter(GGUF_FILE), "GGUF")
    timers += _fit(contexts, TokenizerCounter(load_tokenizer(str(work / "tokenizer.json"))), "tokenizer.json")
    print(f"| {' | '.join(_HEADER)} |\n| --- {'| ---: ' * (len(_HEADER) - 1)}|")
    print("\n".join(timer.line() for timer in timers))


if __name__ == "__main__":
    main()
