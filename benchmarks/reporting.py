"""From rows to tables and report: 451 questions, 12 methods, 2 tiers.

    PYTHONPATH=src python -m benchmarks.reporting OUT
    PYTHONPATH=src python -m benchmarks.reporting OUT --context-chars 600000

Rows are made up: every method finds eight slices among the pages of one site. The contexts of the paper's retrieval
methods have about 600,000 characters, 6.5 GB in all. Each step runs in a process of its own. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from benchmarks.measure import measure_call
from benchmarks.reporting_calls import build_html, collect_rows, score_shards, write_table2
from benchmarks.reporting_data import Scale, write_run

_STEPS = {
    "score_answers, all jobs": score_shards,
    "collect_scores": collect_rows,
    "export_table2": write_table2,
    "build_report": build_html,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=451)
    parser.add_argument("--methods", type=int, default=12)
    parser.add_argument("--context-chars", type=int, default=60_000)
    arguments = parser.parse_args()
    folder = arguments.out.absolute() / "reporting"
    shutil.rmtree(folder, ignore_errors=True)
    write_run(folder, Scale(arguments.questions, arguments.methods, arguments.context_chars))
    print("| step | wall s | CPU s | peak MB |\n| --- | ---: | ---: | ---: |")
    for name, function in _STEPS.items():
        cost = measure_call(function, folder)
        print(f"| {name} | {cost.wall_s:.1f} | {cost.cpu_s:.1f} | {cost.peak_mb:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
