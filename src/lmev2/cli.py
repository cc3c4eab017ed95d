"""The command line: ``show`` prints the tables of a finished run and says where everything lies; ``schema`` prints the
JSON schema of the configuration, for editors."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lmev2.config import Config
from lmev2.tables.export import markdown_table

_TABLES = {"table2": "Accuracy and query latency", "evidence": "Evidence in the context"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status: 0, or 1 when there is nothing to show."""
    parser = argparse.ArgumentParser(prog="lmev2", description="Look at the results of a run.")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="print the tables of a finished run")
    show.add_argument("table", choices=["table2"], help="which table; table2 comes with the evidence table")
    show.add_argument("--results", type=Path, default=Path("results"), help="folder of the run (default: results)")
    commands.add_parser("schema", help="print the JSON schema of the configuration")
    options = parser.parse_args(arguments)
    if options.command == "schema":
        print(config_schema())
        return 0
    return show_tables(options.results)


def config_schema() -> str:
    """JSON schema of the configuration after ``inherits`` is filled in, as text."""
    return json.dumps(Config.model_json_schema(), indent=1, sort_keys=True, ensure_ascii=False)


def show_tables(results: Path) -> int:
    """Print table 2, the evidence table beside it, and where figures and logs lie."""
    missing = [name for name in _TABLES if not (results / f"{name}.csv").is_file()]
    if missing:
        wanted = " ".join(str(results / f"{name}.csv") for name in missing)
        print(f"{results} has no finished run: found no {wanted}.", file=sys.stderr)
        print(f"Make it with: snakemake --cores all {wanted}", file=sys.stderr)
        return 1
    for name, title in _TABLES.items():
        with (results / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        print(f"\n{title} ({results / f'{name}.csv'})\n\n{markdown_table(header, rows)}")
    print(f"\nNotes: {results / 'table2.md'}. Figure: {results / 'table2.png'} (and .pdf). Logs: {results / 'logs'}/")
    print(f"Every row (contexts, answers, scores): {results / 'metrics.duckdb'}")
    return 0
