"""What the report says of a run as a whole, read from its database."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import duckdb

from lmev2.report.html.site import slug
from lmev2.tables.notes import agent_notes
from lmev2.tables.statistics import POOLS

Row = dict[str, Any]
Key = tuple[str, str, str]  # question id, method, tier

OUTCOMES: Final = ("correct", "wrong", "unknown", "error")
_KINDS: Final = {
    "none": "No memory",
    "rag question": "Retrieval, the question is the query",
    "rag generated": "Retrieval with generated queries",
    "plugin": "Plugin memory",
    "agent": "Coding agent",
    "imported": "Imported run",
}


@dataclass(frozen=True)
class Method:
    """A row of the table; ``settings`` are its effective settings, ``page`` the name of its page."""

    number: int
    name: str
    label: str
    family: str
    settings: Mapping[str, Any]

    @property
    def page(self) -> str:
        """File name of its page, without the ending."""
        return slug(self.name)

    @property
    def kind(self) -> str:
        """Its family in words; retrieval is parted by who writes the queries."""
        queries = self.settings.get("queries")
        key = f"{self.family} {queries}" if self.family == "rag" and queries else self.family
        return _KINDS.get(key, key)


@dataclass(frozen=True)
class Cell:
    """A method on a tier."""

    method: Method
    tier: str

    @property
    def anchor(self) -> str:
        """Its place on a question's page."""
        return f"m{self.method.number}-{slug(self.tier)}"

    @property
    def label(self) -> str:
        """Its name where both tiers occur."""
        return f"{self.method.label} ({self.tier})"


class Run:
    """A run's methods, tiers, questions, outcomes and tables.

    Args:
        database: the run's database, open for reading.
    """

    def __init__(self, database: duckdb.DuckDBPyConnection):
        self._database = database
        self.facts: dict[str, str] = dict(database.execute("SELECT name, value FROM run ORDER BY name").fetchall())
        self.models: list[Row] = self._rows("SELECT role, model, settings FROM models ORDER BY role DESC")
        settings = json.loads(self.facts.get("methods", "{}"))
        self.methods = [
            Method(row["position"], row["method"], row["label"], row["family"], settings.get(row["method"], {}))
            for row in self._rows("SELECT * FROM methods ORDER BY position")
        ]
        self.tiers: list[str] = [row["tier"] for row in self._rows("SELECT tier FROM tiers ORDER BY position")]
        self.questions = [
            row | {"page": slug(row["question_id"])}
            for row in self._rows("SELECT * FROM questions ORDER BY question_id")
        ]
        self.outcomes: dict[Key, Row] = {
            (row["question_id"], row["method"], row["tier"]): row | {"outcome": _outcome(row)}
            for row in self._rows(
                """
                SELECT o.question_id, o.method, o.tier, o.correct, o.unknown, o.error, o.evidence_covered,
                       o.evidence_covered_before, o.gold_supported, o.latency_s, o.waited_s, o.context_tokens,
                       o.context_tokens_before, o.items_before, o.items_dropped, a.images_shown
                FROM outcomes o JOIN answers a USING (question_id, method, tier)
                """
            )
        }
        there = {(method, tier) for _, method, tier in self.outcomes}
        every = [Cell(method, tier) for method in self.methods for tier in self.tiers]
        self.cells = [cell for cell in every if (cell.method.name, cell.tier) in there]  # an import may lack a tier

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Row]:
        result = self._database.execute(query, values)
        names = [column[0] for column in result.description or []]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    @cached_property
    def remarks(self) -> list[str]:
        """Remarks of the configuration on the reader in use, and what must be known of coding agents."""
        notes = json.loads(self.facts.get("run", "{}")).get("notes", {})
        reader = [notes[row["model"]] for row in self.models if row["role"] == "reader" and row["model"] in notes]
        return reader + self.agent_remarks

    @cached_property
    def agent_remarks(self) -> list[str]:
        """What must be known of the rows of coding agents."""
        return agent_notes(self._database)

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Sections of the configuration that the database keeps; those of single methods stand on their pages."""
        parsed = {}
        for name, value in self.facts.items():
            if value.startswith(("{", "[")) and name not in ("methods", "data"):
                parsed[name] = json.loads(value)
        return parsed

    @cached_property
    def hashes(self) -> dict[str, str]:
        """What the run was made from: data and prompts."""
        return {name: value for name, value in self.facts.items() if name == "data" or name.startswith("prompt ")}

    @cached_property
    def errors(self) -> dict[str, int]:
        """Rows without a score, by error kind."""
        kinds = (row["error"] for row in self.outcomes.values() if row["error"] is not None)
        return dict(sorted(Counter(kinds).items()))

    def errors_of(self, method: str) -> dict[str, int]:
        """Rows of one method without a score, by error kind."""
        kinds = (row["error"] for key, row in self.outcomes.items() if row["error"] is not None and key[1] == method)
        return dict(sorted(Counter(kinds).items()))

    def outcome(self, question_id: str, cell: Cell) -> Row | None:
        """One question's outcome; None where the run has no row."""
        return self.outcomes.get((question_id, cell.method.name, cell.tier))

    @cached_property
    def accuracies(self) -> list[Row]:
        """Table 2: per cell, ``columns`` with accuracy, interval, mark and comparison of each category, and latency,
        questions and errors."""
        intervals = {(r["method"], r["tier"], r["category"]): r for r in self._rows("SELECT * FROM intervals")}
        compared = {(r["method"], r["tier"], r["category"]): r for r in self._rows("SELECT * FROM comparisons")}
        latencies = {(row["method"], row["tier"]): row for row in self.latencies}
        rows = []
        for cell in self.cells:
            key = (cell.method.name, cell.tier)
            own = [row for (_, *rest), row in self.outcomes.items() if tuple(rest) == key]
            columns = [
                {"category": name, "interval": intervals.get((*key, name)), "comparison": compared.get((*key, name))}
                for name in POOLS
            ]
            errors = sum(row["error"] is not None for row in own)
            latency = latencies.get(key, {}).get("mean_s")
            rows.append({"cell": cell, "columns": columns, "latency": latency, "questions": len(own), "errors": errors})
        return rows

    @cached_property
    def latencies(self) -> list[Row]:
        """Latency of the query call per cell, in seconds."""
        return self._rows("SELECT * FROM latencies ORDER BY method_position, tier_position")

    @cached_property
    def lafs(self) -> list[Row]:
        """LAFS and its gain over the paper's reference points."""
        labels = {method.name: method.label for method in self.methods} | {"all": "All methods together"}
        return [row | {"label": labels.get(row["method"], row["method"])} for row in self._rows("SELECT * FROM lafs")]

    def shares(self, method: str) -> list[Row]:
        """Shares correct, wrong and unknown of a method, by tier, category and part."""
        return self._rows(
            "SELECT tier, category, part, questions, errors, correct, wrong, unknown FROM shares WHERE method = ? "
            "ORDER BY tier_position, list_position(?, category), "
            "list_position(['all', 'without_abstention', 'abstention'], part)",
            [method, list(POOLS)],
        )

    def scorers(self, method: str) -> list[Row]:
        """Accuracy of a method by tier and scorer."""
        return self._rows(
            "SELECT tier, scorer, count(correct) AS questions, count(error) AS errors, avg(correct) AS correct "
            "FROM outcomes WHERE method = ? GROUP BY tier_position, tier, scorer ORDER BY tier_position, scorer",
            [method],
        )

    def comparisons(self, method: str) -> list[Row]:
        """Differences of a method to its best partners."""
        labels = {one.name: one.label for one in self.methods}
        rows = self._rows("SELECT * FROM comparisons WHERE method = ?", [method])
        return [row | {"partner_label": labels.get(row["partner"], row["partner"])} for row in rows]

    def texts(self, question_ids: Sequence[str]) -> dict[Key, Row]:
        """Replies, judge's reasons and errors of some questions; long, so never of all at once."""
        rows = self._rows(
            """
            SELECT question_id, method, tier, a.reply, a.parsed, a.finish_reason, a.wall_s, a.prompt_tokens,
                   a.completion_tokens, a.model, a.images_left_out, s.scorer, s.judge_label, s.judge_labels,
                   s.judge_reason, s.error_detail, x.query_origin, x.rerank_origin, x.replayed
            FROM answers a JOIN scores s USING (question_id, method, tier)
            JOIN contexts x USING (question_id, method, tier)
            WHERE list_contains(?, question_id)
            """,
            [list(question_ids)],
        )
        return {(row["question_id"], row["method"], row["tier"]): row for row in rows}


def _outcome(row: Mapping[str, Any]) -> str:
    if row["error"] is not None:
        return "error"
    if row["correct"]:
        return "correct"
    return "unknown" if row["unknown"] else "wrong"
