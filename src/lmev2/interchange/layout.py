"""Run folders of the benchmark's public harness: file names, categories, and the one way to write their JSON.

A folder holds the run of one method on one domain and tier and is named ``<method>_<domain>_<tier>``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lmev2.data.schema import DOMAINS, Domain, QuestionType

RUN_ARGS: Final = "run_args.json"
QUESTIONS: Final = "runtime_inputs/questions.json"
HAYSTACK: Final = "runtime_inputs/haystack.json"
RECORDS: Final = "per_question.jsonl"
AGGREGATED: Final = "aggregated_metrics.json"
RUN_FILES: Final = (RUN_ARGS, QUESTIONS, HAYSTACK, RECORDS, AGGREGATED)
TIERS: Final = ("small", "medium")

# Key of what only this pipeline writes and reads, in records and in run_args.json; others ignore it.
OURS: Final = "lmev2"

# Stands in every field for a time of day: rows carry none, and equal rows must give equal files.
NOT_RECORDED: Final = "1970-01-01T00:00:00+00:00"

# The harness's category of each question type: the type's variant with a flawed premise stands apart.
HARNESS_CATEGORIES: Final[Mapping[QuestionType, str]] = MappingProxyType(
    {
        "static-environment": "static",
        "static-environment-abs": "static-abs",
        "dynamic-environment": "dynamic",
        "dynamic-environment-abs": "dynamic-abs",
        "procedure": "procedure",
        "procedure-abs": "procedure-abs",
        "errors-gotchas": "gotchas",
    }
)


def folder_name(method: str, domain: str, tier: str) -> str:
    """Name of a run folder."""
    return f"{method}_{domain}_{tier}"


def parse_folder_name(name: str) -> tuple[str, Domain, str] | None:
    """Method, domain and tier of a run folder's name; None when it is not such a name."""
    for domain in DOMAINS:
        for tier in TIERS:
            method = name.removesuffix(f"_{domain}_{tier}")
            if method and method != name:
                return method, domain, tier
    return None


def json_text(value: Any) -> str:
    """A JSON file's text, in ASCII as the harness writes it, so that no reader stumbles over a line separator."""
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def json_line(value: Any) -> str:
    """A line of a JSON-lines file, in ASCII."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json_text(value), encoding="ascii")
