"""Rows that failed: allowed up to a configured number, never turned into a score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


class TooManyErrors(RuntimeError):
    """A job with more failed rows than ``errors.allow`` lets through; all that succeeded is in the call cache."""


def check_allowed(rows: Iterable[Mapping[str, Any]], allow: int, stage: str) -> None:
    """Fail when more rows than allowed carry an error kind.

    Args:
        rows: finished rows with ``question_id``, ``error`` and ``error_detail``.
        allow: how many errors may pass.
        stage: name of the job, for the message.

    Raises:
        TooManyErrors: lists the question ids with kind and detail, and says what to do.
    """
    failed = [row for row in rows if row["error"] is not None]
    if len(failed) <= allow:
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(row["error"] for row in failed).items()))
    lines = [f"  {row['question_id']}: {row['error']}: {row['error_detail'] or ''}"[:400] for row in failed[:50]]
    more = f"\n  … and {len(failed) - 50} more" if len(failed) > 50 else ""
    raise TooManyErrors(
        f"{stage}: {len(failed)} rows failed ({kinds}), errors.allow is {allow}:\n"
        + "\n".join(lines)
        + more
        + "\nFinished calls are kept; run again to repeat only the failed ones, or raise errors.allow to let them "
        "through as rows with an error kind."
    )
