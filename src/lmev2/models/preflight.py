"""Endpoints looked at before a run: all roles at once, every problem in one message, no call kept or measured.

What is wrong for certain (another model, too short a window, a capability that is missing) is an error. An endpoint
that is not there is one too, unless the call cache holds replies of the model: they may be all that is needed. What a
server does not say, or cannot say just now, is told and lets the run go on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import Any, Final

from lmev2.models.preflight_probe import CAPABILITIES, Finding, probe
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.types import ModelSetupError
from lmev2.terminal import one_line

_HEADINGS: Final = {"json": "JSON"}
_SEEN_FILES: Final = 20_000  # of the call cache, until it is taken to hold something of the model
_SEEN_BYTES: Final = 2_048  # of a cache file, which begins with the identity of its model
_ADVICE: Final = (
    "Nothing was run. `snakemake check_endpoints` looks again without a run, `preflight: false` in the configuration "
    "starts one without looking; docs/reproduce.md tells of both."
)


@dataclass(frozen=True)
class Checked:
    """What was found about the endpoint of a role."""

    role: str
    settings: ChatSettings | EmbedderSettings
    findings: tuple[Finding, ...]

    def of(self, *states: str) -> list[Finding]:
        """The findings with one of these states."""
        return [finding for finding in self.findings if finding.state in states]

    def record(self) -> dict[str, Any]:
        """The findings as plain values, without address or key."""
        findings = {one.capability: {k: v for k, v in asdict(one).items() if v} for one in self.findings}
        for one in findings.values():
            del one["capability"]
        served = self.settings.served_name or self.settings.model
        return {
            "model": self.settings.model,
            "served_name": served,
            "endpoint": self.settings.endpoint,
            "ready": not self.of("failed", "absent"),
            "findings": findings,
        }


def look_at(roles: Mapping[str, ChatSettings | EmbedderSettings]) -> list[Checked]:
    """Look at the endpoints of the roles whose backend is ``openai``, all at once; in the order of the roles."""
    asked = {role: settings for role, settings in roles.items() if settings.backend == "openai"}
    if not asked:
        return []
    with ThreadPoolExecutor(len(asked)) as pool:
        found = pool.map(probe, asked.keys(), asked.values())
        return [
            Checked(role, settings, tuple(findings))
            for (role, settings), findings in zip(asked.items(), found, strict=True)
        ]


def require(checked: Sequence[Checked], cache: Path | None) -> list[str]:
    """Stop if an endpoint cannot do what its role asks.

    Args:
        cache: folder of the call cache; None: an endpoint that is not there is an error in any case.

    Returns:
        remarks on what may not matter, one line each.

    Raises:
        ModelSetupError: lists each problem of each role: what was asked for, what came back, what to do.
    """
    problems, remarks = [], []
    for one in checked:
        for finding in one.of("failed", "absent", "busy", "unlisted"):
            line = f"{_title(one)}: {finding.capability}: asked for {finding.asked}; {finding.found}"
            if finding.state == "busy":
                remarks.append(f"{line}. It was not checked.")
            elif finding.state == "unlisted":
                remarks.append(f"{line}, and it may answer all the same. To do: {finding.todo}.")
            elif finding.state == "absent" and cache is not None and holds_replies(cache, one.settings):
                remarks.append(f"{line}. Going on with the replies in the call cache; a call not among them will fail.")
            else:
                problems.append(f"{line}. To do: {finding.todo}.")
    if problems:
        listed = "\n".join(f"  {one_line(problem)}" for problem in problems)
        raise ModelSetupError(f"endpoints cannot do what this run asks of them:\n{listed}\n{_ADVICE}")
    return [one_line(remark) for remark in remarks]


def table(checked: Iterable[Checked]) -> str:
    """The findings as a table of plain text: a line per role, a column per capability that some role needs."""
    checked = list(checked)
    columns = [name for name in CAPABILITIES if any(one.capability == name for row in checked for one in row.findings)]
    rows = [["role", "model", "endpoint", *(_HEADINGS.get(name, name) for name in columns)]]
    for row in checked:
        cells = {one.capability: _cell(one) for one in row.findings}
        served = row.settings.served_name or row.settings.model
        rows.append([row.role, served, row.settings.endpoint, *(cells.get(name, "-") for name in columns)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def holds_replies(cache: Path, settings: ChatSettings | EmbedderSettings) -> bool:
    """Whether the call cache may hold something of a role's model."""
    folder = cache / ("embedding" if isinstance(settings, EmbedderSettings) else "chat")
    name = f'"model": {dumps(settings.model)}'.encode("ascii")
    files = folder.glob("*/*.json")
    for path in itertools.islice(files, _SEEN_FILES):
        try:
            with path.open("rb") as file:
                if name in file.read(_SEEN_BYTES):
                    return True
        except OSError:  # another run may tidy up
            continue
    return next(files, None) is not None


def _cell(finding: Finding) -> str:
    if finding.state in ("ok", "unknown"):
        return finding.value or finding.state
    return f"{finding.state.upper()}: {finding.value}" if finding.value else finding.state.upper()


def _title(one: Checked) -> str:
    served = one.settings.served_name or one.settings.model
    return f"{one.role} ({served!r} at {one.settings.endpoint}_BASE_URL)"
