"""What is wrong with a data root: problems are collected, so that one run shows them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROBLEM_LIMIT = 20


def shown(value: object, chars: int) -> str:
    """A value as Python writes it, cut, for a message; by its type where that cannot be done."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested a thousand times, or a number of thousands of digits
        text = f"({type(value).__name__}, too large to show)"
    return text[:chars]


class DataError(ValueError):
    """Data that cannot be used.

    Attributes:
        problems: one text per problem, each naming file, line and id where it has them.
    """

    def __init__(self, headline: str, problems: Sequence[str] = ()):
        super().__init__("\n".join([headline, *(f"  {problem}" for problem in problems)]))
        self.problems = tuple(problems)


@dataclass(frozen=True)
class Problem:
    """One problem of a data root.

    Attributes:
        file: path below the root.
        line: line number in the file, from 1; None when it has none.
        id: what the line is about, such as ``question '01307e07'``; None when that cannot be made out.
        text: what was found and what is expected.
    """

    file: str
    line: int | None
    id: str | None
    text: str

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.file, f"line {self.line}" if self.line else None, self.id) if part)
        return f"{place}: {self.text}"


class Problems:
    """Collects the problems of a data root and raises them together.

    Args:
        root: the data root, for the headline.
        limit: the collection is raised at once when it reaches so many.
    """

    def __init__(self, root: Path, limit: int = PROBLEM_LIMIT):
        self._root = root
        self._limit = limit
        self._found: list[Problem] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, text: str, *, file: str, line: int | None = None, id: str | None = None) -> None:
        """Add a problem.

        Args:
            text: what was found and what is expected.
            file: path below the root.
            line: line number in the file, from 1.
            id: what the line is about, such as ``question '01307e07'``.

        Raises:
            DataError: the limit is reached.
        """
        self._found.append(Problem(file, line, id, text))
        if len(self._found) >= self._limit:
            raise DataError(f"{self._root}: the first {self._limit} problems (there may be more):", self._texts())

    def raise_if_any(self) -> None:
        """Raise what was collected.

        Raises:
            DataError: there are problems.
        """
        if self._found:
            raise DataError(f"{self._root}: {len(self._found)} problem(s):", self._texts())

    def _texts(self) -> list[str]:
        return [str(problem) for problem in self._found]


class ProblemCount(Problems):
    """Counts all problems and keeps the first of each file, however many there are; nothing is raised while they are
    collected.

    Args:
        root: the data root.
        limit: how many problems of a file are kept; None keeps all.
    """

    def __init__(self, root: Path, limit: int | None = PROBLEM_LIMIT):
        super().__init__(root)
        self._kept = limit
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._counts.total()

    @property
    def by_file(self) -> dict[str, int]:
        """Number of problems by file, in the order in which the files were found wanting."""
        return dict(self._counts)

    @property
    def kept(self) -> tuple[Problem, ...]:
        """The first problems of each file, in the order in which they were found."""
        return tuple(self._found)

    def add(self, text: str, *, file: str, line: int | None = None, id: str | None = None) -> None:
        """Count a problem, and keep it if it is one of the first of its file."""
        self._counts[file] += 1
        if self._kept is None or self._counts[file] <= self._kept:
            self._found.append(Problem(file, line, id, text))
