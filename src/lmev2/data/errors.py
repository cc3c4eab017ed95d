"""What is wrong with a data root: problems are collected, so that one run shows them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PROBLEM_LIMIT = 20


class DataError(ValueError):
    """Data that cannot be used.

    Attributes:
        problems: one text per problem, each naming file, line and id where it has them.
    """

    def __init__(self, headline: str, problems: Sequence[str] = ()):
        super().__init__("\n".join([headline, *(f"  {problem}" for problem in problems)]))
        self.problems = tuple(problems)


class Problems:
    """Collects the problems of a data root and raises them together.

    Args:
        root: the data root, for the headline.
        limit: the collection is raised at once when it reaches so many.
    """

    def __init__(self, root: Path, limit: int = PROBLEM_LIMIT):
        self._root = root
        self._limit = limit
        self._found: list[str] = []

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
        place = ", ".join(part for part in (file, f"line {line}" if line else None, id) if part)
        self._found.append(f"{place}: {text}")
        if len(self._found) >= self._limit:
            raise DataError(f"{self._root}: the first {self._limit} problems (there may be more):", self._found)

    def raise_if_any(self) -> None:
        """Raise what was collected.

        Raises:
            DataError: there are problems.
        """
        if self._found:
            raise DataError(f"{self._root}: {len(self._found)} problem(s):", self._found)
