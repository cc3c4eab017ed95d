"""Who wrote what: the origins table, and the note under every table, counted again in Python."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from unit.tableworld import EVIDENCE, ORIGINS, SHORTENED, TABLE2, export, make_run


@pytest.mark.parametrize("seed", range(4))
def test_the_origins_table_counts_entries_queries_and_choices(tmp_path: Path, seed: int) -> None:
    run = make_run(seed, questions=(1, 6, 30, 77)[seed])
    rows, _ = export(tmp_path, run, ORIGINS)
    of_pools = [row for row in rows if row["kind"] == "pool"]
    assert rows[: len(of_pools)] == of_pools
    counts = Counter((one["pool"], one["origin"]) for one in run.entries)
    assert [(row["name"], row["origin"]) for row in of_pools] == sorted(counts)  # each pair once
    for row in of_pools:
        entries = [one for one in run.entries if (one["pool"], one["origin"]) == (row["name"], row["origin"])]
        assert row["tier"] == "" and row["entries"] == str(len(entries))
        assert row["shortened"] == str(sum(SHORTENED[one["origin"], one["origin_detail"]] for one in entries))
        assert row["images_left_out"] == str(sum(one["images_left_out"] for one in entries))

    of_queries = [row for row in rows if row["kind"] == "queries"]
    of_choices = [row for row in rows if row["kind"] == "rerank"]
    assert of_pools + of_queries + of_choices == rows
    for column, found in (("query_origin", of_queries), ("rerank_origin", of_choices)):
        expected = []
        for method, tier in itertools.product(run.methods, run.tiers):
            origins = Counter(row[column] for row in run.of("contexts", method, tier) if row[column])
            expected += [(method, tier, origin, str(count)) for origin, count in sorted(origins.items())]
        assert [(row["name"], row["tier"], row["origin"], row["entries"]) for row in found] == expected
        assert {(row["shortened"], row["images_left_out"]) for row in found} <= {("0", "0")}
    assert run.methods[0] not in {row["name"] for row in of_queries}


@pytest.mark.parametrize("query", [TABLE2, EVIDENCE, ORIGINS], ids=["table2", "evidence", "origins"])
def test_the_markdown_says_what_no_first_reply_wrote(tmp_path: Path, query: str) -> None:
    run = make_run(2, questions=30)
    _, text = export(tmp_path, run, query)
    found: Counter[tuple[str, str]] = Counter()
    for entry in run.entries:
        found[entry["pool"], entry["origin"]] += 1
    for context in run.contexts:
        found[f"{context['method']} queries", context["query_origin"]] += 1
        found[f"{context['method']} rerank", context["rerank_origin"]] += 1
    told = sorted(key for key in found if key[1] in ("repaired", "fallback"))
    # Two pools, two methods with queries and three with choices, all with both; tiers are counted together.
    assert len(told) == 2 * (2 + 2 + 3)
    parts = ", ".join(f"{found[where, origin]} {origin} in {where}" for where, origin in told)
    assert f"\n- Memory not made by the controller's first reply: {parts} (origins.csv).\n" in text


@pytest.mark.parametrize("origins", [("rules", "question"), ("model", "model")])
def test_the_markdown_has_no_such_note_when_all_went_well(tmp_path: Path, origins: tuple[str, str]) -> None:
    run = make_run(2, questions=9)
    for entry in run.entries:
        entry |= {"origin": origins[0], "origin_detail": None}
    for context in run.contexts:
        context["query_origin"] = context["query_origin"] and origins[1]
        context["rerank_origin"] = "model"
    assert "first reply" not in export(tmp_path, run, TABLE2)[1]


def test_a_run_without_pools_has_queries_and_choices_only(tmp_path: Path) -> None:
    run = make_run(2, questions=5)
    run.entries = []
    rows, _ = export(tmp_path, run, ORIGINS)
    assert {row["kind"] for row in rows} == {"queries", "rerank"}
