"""What stands below a table: how the run was made, what failed, and how marks and scores came about."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

RULE_AGENT: Final = "search"  # the coding agent that works without a model


def run_notes(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Notes of every table: models, remarks, rows of rules, data and their goals, what was not made at once, questions,
    failed rows."""
    models = connection.execute("SELECT role, model FROM models ORDER BY role DESC").fetchall()
    notes = [", ".join(f"{role}: {model}" for role, model in models) + "."]
    run = dict(connection.execute("SELECT name, value FROM run").fetchall())
    remarks = json.loads(run["run"])["notes"]
    notes += [remarks[model] for role, model in models if role == "reader" and model in remarks]
    notes += agent_notes(connection)
    notes.append(f"Data: {run['data']}. All settings and hashes: tables run and models of metrics.duckdb.")
    notes += goal_notes(json.loads(run["goals"]))
    notes += _made_otherwise(connection)
    total = connection.execute("SELECT count(*) FROM questions").fetchone()
    notes.append(f"{total[0] if total else 0} questions per method and tier.")
    notes += _imported(connection)
    errors = connection.execute(
        "SELECT error, count(*) FROM scores WHERE error IS NOT NULL GROUP BY error ORDER BY error"
    ).fetchall()
    if errors:
        kinds = ", ".join(f"{count} {kind}" for kind, count in errors)
        notes.append(f"INCOMPLETE: {kinds}; rows with an error have no score and are not in the means.")
    return notes


def bootstrap_note(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """How the marks were found."""
    found = connection.execute("SELECT value FROM run WHERE name = 'statistics'").fetchone()
    settings: Mapping[str, Any] = json.loads(found[0]) if found else {}
    compared = connection.execute("SELECT count(*) FROM comparisons").fetchone()
    if not found or not compared or not compared[0]:
        return ["No method of the run is compared with another, so nothing is marked."]
    return [
        "Asterisk: better than the best of the methods that it is compared with (compare_with), on the same questions; "
        f"paired bootstrap over questions, {settings['resamples']:,} resamples, seed {settings['seed']}, two-sided "
        f"p < {settings['alpha']:g}. Intervals: {100 * settings['level']:g} %."
    ]


def reference_note(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The reference points of LAFS by tier."""
    rows = connection.execute(
        "SELECT tier, method, latency_s, accuracy FROM reference_points JOIN tiers USING (tier) "
        "ORDER BY position, method"
    ).fetchall()
    points: dict[str, list[str]] = {}
    for tier, method, latency, accuracy in rows:
        points.setdefault(tier, []).append(f"{method} {accuracy:.1f} % at {latency:g} s")
    notes = [f"Reference points of tier {tier} (paper, Table 2): {', '.join(names)}." for tier, names in points.items()]
    what = (
        "LAFS: best accuracy in percent within a latency budget, averaged over log-latency from 1 s to 200 s, of the "
    )
    return [
        f"{what}reference points with the method's own point (all: with the points of every method); gain: what the "
        "reference points alone do not reach.",
        *notes,
    ]


def latency_note(_: duckdb.DuckDBPyConnection) -> list[str]:
    """What the latency measures."""
    return [
        "Seconds of the query call; reader, judge and the making of the memory are outside. waited_s: failed attempts "
        "of model calls and pauses between them, outside as well, summed."
    ]


def shares_note(_: duckdb.DuckDBPyConnection) -> list[str]:
    """What the parts are."""
    return [
        "Shares of the questions with a score: answered correctly, wrongly, or UNKNOWN. abstention: questions with a "
        "flawed premise, by their scorer; without_abstention: the others."
    ]


def agents_note(_: duckdb.DuckDBPyConnection) -> list[str]:
    """What is counted of coding agents."""
    return [
        "Means over questions, attempts that failed included: shell commands, model calls (requests), tokens, seconds "
        "from the making of the sandbox to the output. failed: questions without a usable output. Cached tokens are "
        "part of the input tokens, reasoning tokens of the output tokens. Costs stand where models.agent.price has a "
        "price."
    ]


# Notes of single tables, by the name that a rule gives.
NOTES: Mapping[str, Callable[[duckdb.DuckDBPyConnection], Sequence[str]]] = {
    "bootstrap": bootstrap_note,
    "references": reference_note,
    "latency": latency_note,
    "shares": shares_note,
    "agents": agents_note,
}


def goal_notes(summary: Mapping[str, Any]) -> list[str]:
    """A note on goals that were rewritten, or that the checker objects to; none where there are none.

    Args:
        summary: what :func:`lmev2.goals.apply.summary` returned.
    """
    fallback = summary["origins"].get("fallback", 0)
    if not (summary["changed"] or summary["flagged"] or fallback):
        return []
    text = f"{summary['changed']} of {summary['goals']} goals rewritten without their routes"
    if summary["mode"] == "check":
        text = f"{summary['goals']} goals checked for routes, none rewritten"
    if fallback:
        text += f", {fallback} by rules because the model's reply was no use"
    flagged = f"; {summary['flagged']} FLAGGED by the checker" if summary["flagged"] else ""
    return [f"Goals: {text}{flagged} (goals/report.csv)."]


def read_goal_notes(path: Path) -> list[str]:
    """:func:`goal_notes` of a summary's file, for tables that are not made from the database."""
    return goal_notes(json.loads(path.read_text(encoding="utf-8")))


def _imported(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A note on each imported run: its models, and how far its questions are those of this run."""
    notes = []
    for label, tier, reader, judge, questions, taken, left_out, empty, told in connection.execute(
        "SELECT label, tier, reader, judge, questions, taken, left_out, empty_replies, states_told FROM imports"
    ).fetchall():
        text = f"{label} on {tier} is imported (reader: {reader}, judge: {judge}): {taken} of {questions} questions"
        if taken < questions:
            text += f"; PARTIAL: {questions - taken} questions of this run are not in it, so its means are over fewer"
        if left_out:
            text += f"; {left_out} of its questions are not in this run and left out"
        if empty:
            text += f"; {empty} scored rows have an empty reply, which may stand for a failed call"
        notes.append(f"{text}{'' if told else '; its items do not tell their states, so evidence is unknown'}.")
    return notes


def agent_notes(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """What everybody must know of the rows of coding agents: whether no model made them, and whether an agent worked
    without isolation."""
    notes = _ruled_agents(connection)
    bare = connection.execute(
        "SELECT count(*), string_agg(DISTINCT label, ', ' ORDER BY label) FROM agent_runs JOIN methods USING (method) "
        "WHERE isolation = 'none'"
    ).fetchone()
    if bare and bare[0]:
        notes.append(
            f"Without isolation: {bare[0]} rows of {bare[1]}. Their agent could read and change whatever the user can, "
            "the reference answers included."
        )
    return notes


def _ruled_agents(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A note on the rows of coding agents that no model made."""
    agent = connection.execute("SELECT settings FROM models WHERE role = 'agent'").fetchone()
    labels = connection.execute("SELECT label FROM methods WHERE family = 'agent' ORDER BY position").fetchall()
    if agent is None or not labels or json.loads(agent[0])["agent"] != RULE_AGENT:
        return []
    return [
        f"Made by rules, not by a model: {', '.join(label for (label,) in labels)}. The agent {RULE_AGENT} works in "
        "the same sandbox with the same files as a coding agent but calls no model; these rows are not comparable with "
        "the paper's Codex rows."
    ]


def _made_otherwise(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A note on entries, queries and choices that a model's reply could not be used for as it came."""
    counts = connection.execute(
        """
        SELECT CAST(sum(entries) AS BIGINT), origin, pool FROM pools WHERE origin IN ('repaired', 'fallback')
        GROUP BY origin, pool
        UNION ALL
        SELECT count(*), query_origin, method || ' queries' FROM contexts WHERE query_origin IN ('repaired', 'fallback')
        GROUP BY query_origin, method
        UNION ALL
        SELECT count(*), rerank_origin, method || ' rerank' FROM contexts
        WHERE rerank_origin IN ('repaired', 'fallback')
        GROUP BY rerank_origin, method
        ORDER BY 3, 2
        """
    ).fetchall()
    if not counts:
        return []
    parts = ", ".join(f"{count} {origin} in {where}" for count, origin, where in counts)
    return [f"Memory not made by the controller's first reply: {parts} (origins.csv)."]
