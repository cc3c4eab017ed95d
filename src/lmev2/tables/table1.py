"""Table 1: published benchmarks, and this data root computed from its ingested data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb

from lmev2.data.schema import ABSTENTION_SUFFIX
from lmev2.metrics import TABLE_CATEGORIES, category_of
from lmev2.rows import check_readable
from lmev2.tables.export import TableFiles, run_query, write_table
from lmev2.tables.layout import Block, Cell, Column, Layout

OWN_GROUP: Final = "This data root"
_DOMAIN: Final = "Web agent"
_ABILITIES: Final = ("static", "dynamic", "workflows", "gotchas", "premise")
_COLUMNS: Final = (
    Column("Benchmark"),
    Column("Domain"),
    Column("# Sess.", "Context", right=True),
    Column("# Tok.", "Context", right=True),
    Column("MM", "Context"),
    Column("# Q", "Questions", right=True),
    Column("MM", "Questions"),
    *(Column(name.capitalize(), "Memory ability", short=name[0].upper()) for name in _ABILITIES),
)
_RANGE = re.compile(r"(?<=[\dkM])-(?=[\di])")


class CountError(ValueError):
    """Haystack entries whose tokens were not counted."""


def export_table1(
    data: Mapping[str, Sequence[Path]],
    query: str,
    published: Sequence[Mapping[str, str]],
    name: str,
    tokenizer: str,
    files: TableFiles,
    title: str,
    notes: Iterable[str] = (),
) -> None:
    """Write the published rows and this data root's own.

    Args:
        data: Parquet files by the name that the query reads them by: ``questions`` (all of the data root),
            ``haystacks``, ``tokens`` (:mod:`lmev2.tables.haystack_tokens`).
        query: gives a row per tier.
        published: rows of the paper's Table 1.
        name: of the data root.
        tokenizer: the model whose tokens were counted.
        files: to write.
        title: of the table.
        notes: on the data, for below the table.

    Raises:
        CountError: a haystack names a trajectory without a count.
    """
    with duckdb.connect() as connection:
        for view, paths in data.items():
            for path in paths:
                check_readable(path)
            connection.read_parquet([str(path) for path in paths]).create_view(view)
        tiers = run_query(connection, query).records()
        types = [kind for (kind,) in connection.execute("SELECT DISTINCT question_type FROM questions").fetchall()]
    uncounted = sum(tier["uncounted"] for tier in tiers)
    if uncounted:
        raise CountError(f"{uncounted} haystack entries name trajectories whose tokens were not counted")
    own = _own_row(tiers, types, name)
    header = list(published[0])
    rows = [[row[column] for column in header] for row in (*published, own)]
    below = (
        "Published rows: paper, Table 1. # Sess., # Tok.: history of a question in sessions and tokens, from the "
        "smallest to the largest length tier; # Q: questions; MM: with images.",
        *(_tier_note(tier, name, tokenizer) for tier in tiers),
        *notes,
    )
    write_table(files, header, rows, Layout(title, _COLUMNS, tuple(_blocks([*published, own])), below))


def _own_row(tiers: Sequence[Mapping[str, Any]], types: Sequence[str], name: str) -> dict[str, str]:
    categories = {category_of(kind) for kind in types}
    flags = [category in categories for category in TABLE_CATEGORIES]
    flags.append(any(kind.endswith(ABSTENTION_SUFFIX) for kind in types))
    return {
        "group": OWN_GROUP,
        "benchmark": name,
        "domain": _DOMAIN,
        "sessions": _range([_sessions(tier["trajectories"]) for tier in tiers]),
        "tokens": _range([short_number(tier["text_tokens"]) for tier in tiers]),
        "context_multimodal": _yes(any(tier["images"] for tier in tiers)),
        "questions": str(max(tier["questions"] for tier in tiers)),
        "question_multimodal": _yes(any(tier["question_images"] for tier in tiers)),
        **{ability: str(int(flag)) for ability, flag in zip(_ABILITIES, flags, strict=True)},
    }


def short_number(value: float) -> str:
    """A number of tokens as the paper prints it: ``950``, ``16k``, ``1.5M``, ``115M``."""
    for unit, sign in ((1e6, "M"), (1e3, "k")):
        if value >= unit * 0.9995:
            scaled = value / unit
            return f"{scaled:.1f}{sign}".replace(".0", "") if scaled < 9.95 else f"{scaled:.0f}{sign}"
    return f"{value:.0f}"


def _sessions(mean: float) -> str:
    return f"{mean:.1f}".removesuffix(".0") if mean < 10 else f"{mean:.0f}"


def _range(values: Sequence[str]) -> str:
    """First and last of values in rising order, or the one that both are."""
    return values[0] if values[0] == values[-1] else f"{values[0]}-{values[-1]}"


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _tier_note(tier: Mapping[str, Any], name: str, tokenizer: str) -> str:
    return (
        f"{name}, tier {tier['tier']}: {tier['questions']} questions ({tier['question_images']} with an image); mean "
        f"of a question: {tier['trajectories']:.1f} trajectories, {tier['states']:,.1f} states, "
        f"{tier['text_tokens']:,.0f} text tokens (goal, addresses, actions, thoughts and trees, in tokens of "
        f"{tokenizer}), {tier['images']:,.1f} screenshots ({tier['image_tokens']:,.0f} tokens, not in # Tok.)."
    )


def _blocks(rows: Sequence[Mapping[str, str]]) -> list[Block]:
    groups: dict[str, list[tuple[Cell, ...]]] = {}
    for row in rows:
        cells = [row["benchmark"], row["domain"], _pretty(row["sessions"]), _pretty(row["tokens"])]
        cells += [_check(row["context_multimodal"]), _pretty(row["questions"]), _check(row["question_multimodal"])]
        cells += [_check(row[ability]) for ability in _ABILITIES]
        groups.setdefault(row["group"], []).append(tuple(Cell(text) for text in cells))
    return [Block(group, tuple(members)) for group, members in groups.items()]


def _check(value: str) -> str:
    return {"yes": "✓", "1": "✓", "no": "✗", "0": "✗"}[value]


def _pretty(value: str) -> str:
    """A number with its thousands apart, a range with its dash, and ``inf`` as a sign."""
    if value.rstrip("+").isdigit():
        return f"{int(value.rstrip('+')):,}" + "+" * value.endswith("+")
    return _RANGE.sub("–", value).replace("inf", "∞")
