"""Rows of a run as a run folder of the public harness.

Equal rows give equal files: times of day, which rows do not hold, stand as one fixed value. A run with rows that have
no score is written as well, marked as incomplete; such rows carry ``error`` and a null score.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lmev2 import __version__
from lmev2.files import replacing
from lmev2.interchange import layout
from lmev2.interchange.aggregate import USED_FIELDS, aggregate, incompleteness
from lmev2.interchange.manifest import ImportManifest
from lmev2.interchange.records import Rows, harness_question, make_record, relative_path
from lmev2.models.types import ImagePart, Message, TextPart
from lmev2.prompts import Prompt
from lmev2.reader import question_messages
from lmev2.rows import read_rows
from lmev2.truncate import fit_context

Row = Mapping[str, Any]
# Settings that name files of this machine, or their times.
_LOCAL = ("file", "script", "tokenizer", "stamps")


class ExportError(ValueError):
    """Rows that make no run folder."""


@dataclass(frozen=True)
class ExportedRun:
    """What a run folder is made of.

    Attributes:
        method, tier, domain: of the run.
        args: ``run_args.json`` without the marks of an incomplete run.
        completed_at: for ``aggregated_metrics.json``.
        questions: question rows of the whole run, all domains.
        haystacks: haystack rows, of all tiers.
        contexts, answers, scores: rows of the method and tier.
        prompt: the reader prompt, from which messages are rebuilt; None leaves ``prompt_messages`` empty.
        root: the data root; paths below it are written relative to it.
    """

    method: str
    tier: str
    domain: str
    args: Mapping[str, Any]
    completed_at: str
    questions: Iterable[Row]
    haystacks: Iterable[Row]
    contexts: Iterable[Row]
    answers: Iterable[Row]
    scores: Iterable[Row]
    prompt: Prompt | None
    root: str


def run_args(spec: Mapping[str, Any], domain: str, fingerprint: str, prompts: Mapping[str, str]) -> dict[str, Any]:
    """``run_args.json`` of a run of ours: the harness's fields, and every setting under our own key.

    Args:
        spec: the export job's settings: ``name``, ``tier``, ``models`` by role and ``method``, ``render``.
        domain: of the folder.
        fingerprint: identity of the data.
        prompts: SHA-256 of the reader's prompt files by name.
    """
    reader, judge = spec["models"]["reader"], spec["models"]["judge"]
    models = {
        role: {name: value for name, value in settings.items() if name not in _LOCAL}
        for role, settings in spec["models"].items()
    }
    return {
        "domain": domain,
        "model": reader["model"],
        "evaluator_model": judge["model"],
        "method": spec["name"],
        "tier": spec["tier"],
        "memory_context_max_tokens": reader["context_tokens"],
        "started_at_utc": layout.NOT_RECORDED,
        layout.OURS: {
            "version": __version__,
            "data": fingerprint,
            "models": models,
            "method": spec["method"],
            "render": spec["render"],
            "prompts": dict(prompts),
        },
    }


def imported_args(manifest: ImportManifest, domain: str) -> tuple[dict[str, Any], str]:
    """``run_args.json`` of an imported run, as it came but for the method's name here; and when it ended.

    Raises:
        ExportError: nothing of the domain was imported.
    """
    run = manifest.run_of(domain)
    if run is None:
        raise ExportError(f"{manifest.name} was imported without a {domain} run")
    marks = ("incomplete", "errors")  # found anew from the rows
    args = {name: value for name, value in run.run_args.items() if name not in marks}
    args |= {"method": manifest.name, "tier": manifest.tier}
    return args, run.completed_at_utc or layout.NOT_RECORDED


def prompts_are_ours(args: Mapping[str, Any], prompts: Mapping[str, str]) -> bool:
    """Whether the run was read with these prompt files, so that its messages can be rebuilt from them."""
    ours = args.get(layout.OURS)
    return isinstance(ours, Mapping) and ours.get("prompts") == dict(prompts)


def read_shards(paths: Iterable[str], schema: pa.Schema) -> Iterator[dict[str, Any]]:
    """The rows of several files, one after the other."""
    for path in paths:
        yield from read_rows(path, schema)


def export_run(folder: Path, run: ExportedRun) -> None:
    """Write a run folder; what stood there is replaced.

    Raises:
        ExportError: the run has no question of the domain, or rows of a question are missing.
    """
    questions = {row["question_id"]: row for row in run.questions if row["domain"] == run.domain}
    haystacks = {row["question_id"]: row["trajectory_ids"] for row in run.haystacks if row["tier"] == run.tier}
    answers, scores = _by_question(run.answers, questions), _by_question(run.scores, questions)
    contexts = _by_question(run.contexts, questions)
    # An imported run may lack questions of this one; a run of ours has all.
    names = sorted(name for name in questions if name in answers)
    if not names:
        raise ExportError(
            f"{run.method} on {run.tier} has no question of domain {run.domain} in this run; ask for the other domain"
        )
    lacking = [name for name in names if name not in contexts or name not in scores or name not in haystacks]
    if lacking:
        raise ExportError(f"{len(lacking)} questions lack a context, score or haystack (first: {lacking[0]!r})")
    staging = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(staging, ignore_errors=True)
    facts: list[dict[str, Any]] = []
    try:
        staging.mkdir(parents=True)
        with (staging / layout.RECORDS).open("w", encoding="ascii", newline="\n") as file:
            for number, name in enumerate(names):
                rows = Rows(dict(contexts[name]), dict(answers[name]), dict(scores[name]))
                messages = _messages(questions[name], rows, run.prompt, run.root)
                record = make_record(number, questions[name], haystacks[name], rows, messages, run.root)
                file.write(layout.json_line(record))
                facts.append({key: record.get(key) for key in (*USED_FIELDS, "error")})
        own = {name: list(haystacks[name]) for name in names}
        layout.write_json(staging / layout.QUESTIONS, [harness_question(questions[name], run.root) for name in names])
        layout.write_json(staging / layout.HAYSTACK, own)
        layout.write_json(staging / layout.RUN_ARGS, {**run.args, **incompleteness(facts)})
        layout.write_json(staging / layout.AGGREGATED, aggregate(facts, own, run.completed_at))
        for name in layout.RUN_FILES:
            with replacing(folder / name) as temporary:
                (staging / name).replace(temporary)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _by_question(rows: Iterable[Row], questions: Mapping[str, Row]) -> dict[str, Row]:
    return {row["question_id"]: row for row in rows if row["question_id"] in questions}


class _FreeTokens:
    """Counts nothing, so that the context that the reader kept is laid out as it was and not cut again."""

    def count(self, text: str) -> int:
        """No tokens."""
        return 0

    def count_image(self, path: Path) -> int:
        """No tokens."""
        return 0


def _messages(question: Row, rows: Rows, prompt: Prompt | None, root: str) -> list[dict[str, Any]]:
    """What the reader was sent, in the harness's notation; empty where it was sent nothing or cannot be told."""
    context, answer, _ = rows
    if prompt is None or context["error"] is not None:
        return []
    kept = context["items"][: len(context["items"]) - answer["items_dropped"]]
    images = bool(answer["images_shown"])
    parts = fit_context(kept, _FreeTokens(), 0, images).parts
    return [_message(message, root) for message in question_messages(question, parts, images, prompt)]


def _message(message: Message, root: str) -> dict[str, Any]:
    if message.role == "system":
        content: Any = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    else:
        content = [_part(part, root) for part in message.parts]
    return {"role": message.role, "content": content}


def _part(part: TextPart | ImagePart, root: str) -> dict[str, str]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_path", "image_path": relative_path(str(part.path), root)}
