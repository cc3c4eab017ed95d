"""A question's oracle: the trajectories that its evidence labels name, and which of their states matter most."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lmev2.data.errors import DataError
from lmev2.data.layout import EVIDENCE_FILE
from lmev2.data.schema import ABSTENTION_SUFFIX

StateName = tuple[str, int]  # trajectory id, state index
RADIUS: Final = 1  # states on each side of an annotated one (paper, Table 7)
_NAMED = 5


@dataclass(frozen=True)
class Oracle:
    """Evidence labels of a question: hops in order, each with its alternative states in the order of the labels."""

    hops: tuple[tuple[StateName, ...], ...]

    @property
    def trajectories(self) -> tuple[str, ...]:
        """Ids of the oracle trajectories, in the order in which the hops name them."""
        return tuple(dict.fromkeys(name for hop in self.hops for name, _ in hop))

    def annotated(self, trajectory_id: str) -> list[int]:
        """Annotated states of a trajectory, in its order."""
        return sorted({state for hop in self.hops for name, state in hop if name == trajectory_id})

    def first_of_hops(self) -> list[StateName]:
        """One state of each hop: the first label of every hop that no state before covers already."""
        found: list[StateName] = []
        for hop in self.hops:
            if not set(found) & set(hop):
                found.append(hop[0])
        return found


def unflawed(questions: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The questions without a flawed premise, in order: what the pilot studies ask."""
    return [question for question in questions if not question["question_type"].endswith(ABSTENTION_SUFFIX)]


def oracles(
    questions: Sequence[Mapping[str, Any]], evidence: Iterable[Mapping[str, Any]], known: Collection[str]
) -> dict[str, Oracle]:
    """The oracle of each question, by question id.

    Labels may name trajectories that no haystack of the run holds. Those are left out: they are not ingested, and every
    hop has the others as its alternatives.

    Args:
        questions: question rows.
        evidence: evidence rows of these and other questions.
        known: ids of the trajectories of the run.

    Raises:
        DataError: a question has no labels, or a hop none in a trajectory of the run; names such questions, and what to
            do.
    """
    hops: dict[str, dict[int, list[StateName]]] = {}
    for row in evidence:
        states = hops.setdefault(row["question_id"], {}).setdefault(row["hop"], [])
        if row["trajectory_id"] in known:
            states.append((row["trajectory_id"], row["state_index"]))
    names = [question["question_id"] for question in questions]
    missing = [name for name in names if name not in hops]
    if missing:
        raise DataError(
            f"oracle contexts need evidence labels, but {len(missing)} of {len(names)} questions without a flawed "
            f"premise have none in {EVIDENCE_FILE} ({_listed(missing)}); label them, or leave them out of the data root"
        )
    found = {name: Oracle(tuple(tuple(hops[name][hop]) for hop in sorted(hops[name]))) for name in names}
    lost = [name for name in names if not all(found[name].hops)]
    if lost:
        raise DataError(
            f"every label of some hop of {len(lost)} questions names a trajectory that no haystack of the run holds "
            f"({_listed(lost)}); set run.tiers to the tiers that hold them, or mend {EVIDENCE_FILE}"
        )
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")


def windows(annotated: Sequence[int], count: int, radius: int = RADIUS) -> list[tuple[int, int]]:
    """First and last state of the evidence windows: ``radius`` states around each annotated one, clipped at the ends of
    the trajectory; windows that overlap are one.

    Args:
        annotated: state indices, rising.
        count: states of the trajectory.
    """
    found: list[tuple[int, int]] = []
    for state in annotated:
        first, last = max(0, state - radius), min(count - 1, state + radius)
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def ranked_states(oracle: Oracle, candidates: Mapping[str, Sequence[int]]) -> list[StateName]:
    """The order in which states are given room: one state of each hop first, then by the distance to the nearest
    annotated state of the trajectory, in states; ties in the order of trajectories and states.

    Args:
        candidates: states that may be shown, by trajectory, in the order of the oracle's trajectories.
    """
    first = oracle.first_of_hops()
    rest = [
        (min(abs(state - one) for one in oracle.annotated(name)), place, state, name)
        for place, name in enumerate(candidates)
        for state in candidates[name]
        if (name, state) not in first
    ]
    return [*first, *((name, state) for _, _, state, name in sorted(rest))]
