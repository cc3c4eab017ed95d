"""Calls that failed: allowed up to a configured number, never turned into a score or passed off as a reply."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

_log = logging.getLogger("lmev2")


class TooManyErrors(RuntimeError):
    """A job with more failures than ``errors.allow`` lets through; all that succeeded is in the call cache."""


class Failure(NamedTuple):
    """What failed: id of the question or entry, error kind, and what the endpoint said."""

    name: str
    kind: str
    detail: str


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
    check_failures(
        [Failure(row["question_id"], row["error"], row["error_detail"] or "") for row in failed],
        allow,
        stage,
        "rows with an error kind",
    )


def check_failures(failures: Sequence[Failure], allow: int, stage: str, passed_as: str) -> None:
    """Fail when there are more failures than allowed.

    Args:
        failures: everything in the job that failed, after all else is finished.
        allow: how many may pass.
        stage: name of the job, for the message.
        passed_as: what an allowed failure becomes, in the plural.

    Raises:
        TooManyErrors: lists the ids with kind and detail, and says what to do.
    """
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(one.kind for one in failures).items()))
    if len(failures) <= allow:
        if failures:
            _log.warning("%s: %d rows failed (%s), let through as %s", stage, len(failures), kinds, passed_as)
        return
    lines = [f"  {one.name}: {one.kind}: {one.detail}"[:400] for one in failures[:50]]
    more = f"\n  … and {len(failures) - 50} more" if len(failures) > 50 else ""
    raise TooManyErrors(
        f"{stage}: {len(failures)} rows failed ({kinds}), errors.allow is {allow}:\n"
        + "\n".join(lines)
        + more
        + "\nFinished calls are kept; run again to repeat only the failed ones, or raise errors.allow to let them "
        f"through as {passed_as}."
    )
