"""The command line. Each command, or family of commands, is a module ``cli_<name>`` with ``add_commands``. Here stand
``show``, which prints the tables of a finished run and says where everything lies, and ``schema``, which prints the
JSON schema of the configuration, for editors.

Exit status of every command: 0, 1 when something is wrong with the data, 2 when something is wrong with the command;
141 when whoever reads the output stops before its end.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lmev2 import cli_ask, cli_browsergym, cli_inspect, cli_interchange, cli_plan, cli_validate
from lmev2.config import Config
from lmev2.tables.layout import markdown_table
from lmev2.terminal import one_line

_COMMANDS = (cli_ask, cli_inspect, cli_validate, cli_plan, cli_browsergym, cli_interchange)
_PIPE_CLOSED = 141
_TABLES = {"table2": "Accuracy and query latency", "evidence": "Evidence in the context"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="lmev2",
        description="Look at data and results, take in recorded runs, and exchange results. lmev2 COMMAND -h explains "
        "a command.",
        epilog="Exit status: 0; 1 when something is wrong with the data; 2 when something is wrong with the command.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show = commands.add_parser("show", help="print the tables of a finished run")
    show.add_argument("table", choices=["table2"], help="which table; table2 comes with the evidence table")
    show.add_argument("--results", type=Path, default=Path("results"), help="folder of the run (default: results)")
    show.set_defaults(run=lambda options: show_tables(options.results))
    schema = commands.add_parser("schema", help="print the JSON schema of the configuration")
    schema.set_defaults(run=lambda _: print_schema())
    for module in _COMMANDS:
        module.add_commands(commands)
    options = parser.parse_args(arguments)
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return status


def print_schema() -> int:
    """Print the JSON schema of the configuration."""
    print(config_schema())
    return 0


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
        # A column without any value only makes the lines longer.
        kept = [number for number in range(len(header)) if not rows or any(row[number] for row in rows)]
        lines = [[one_line(row[number]) for number in kept] for row in [header, *rows]]
        shown = markdown_table(lines[0], lines[1:])
        print(f"\n{title} ({results / f'{name}.csv'})\n\n{shown}")
    for line in _incomplete(results / "table2.md"):
        print(f"\n{line}")
    print(f"\nNotes: {results / 'table2.md'}. Figure: {results / 'table2.png'} (and .pdf). Logs: {results / 'logs'}/")
    print(f"Every row (contexts, answers, scores): {results / 'metrics.duckdb'}")
    if (results / "report" / "index.html").is_file():
        print(f"Report to look at in a browser: {results / 'report' / 'index.html'}")
    return 0


def _incomplete(notes: Path) -> list[str]:
    """What the notes below a table say of failed rows."""
    lines = notes.read_text(encoding="utf-8").splitlines() if notes.is_file() else []
    return [one_line(line.removeprefix("- ")) for line in lines if line.startswith("- INCOMPLETE")]
