"""Results of several queries of one pool, merged into one list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmev2.index import Hit

_FEW_QUERIES = 3
_SHARE_OF_MANY = 2


def share_per_query(queries: int, top_k: int) -> int:
    """How many results each of so many queries adds: an equal share of ``top_k`` for up to three, else two (paper,
    section on AgentRunbook-R)."""
    return max(1, top_k // queries) if queries <= _FEW_QUERIES else _SHARE_OF_MANY


def merge_hits(
    ranked: Sequence[Sequence[Hit]], top_k: int, take: Callable[[Hit], bool] = lambda hit: True
) -> list[tuple[int, Hit]]:
    """Merge the ranked results of queries, in query order and without repeats.

    Each query adds its share: its list is walked from the best on, entries that an earlier query has added are passed
    over, and the walk ends when the share is reached or the list is used up.

    Args:
        ranked: results per query, best first; queries are not empty, their results may be.
        top_k: results of a single query, of which several queries share.
        take: says whether an entry may stand beside those that it was told of before; those that may not are passed
            over like repeats.

    Returns:
        Pairs of a query's number and a hit, in the order of the context.
    """
    share = share_per_query(len(ranked), top_k) if ranked else 0
    taken: set[str] = set()
    merged: list[tuple[int, Hit]] = []
    for number, hits in enumerate(ranked):
        left = share
        for hit in hits:
            if left and hit.entry_id not in taken and take(hit):
                taken.add(hit.entry_id)
                merged.append((number, hit))
                left -= 1
    return merged
