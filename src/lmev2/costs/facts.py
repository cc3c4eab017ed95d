"""What an estimate knows of the data: questions, haystacks, and the sizes of trajectories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lmev2.costs.assumptions import Assumptions
from lmev2.pools.settings import ChunkSettings
from lmev2.pools.state_chunk import state_chunk_entries
from lmev2.trajectory import Trajectory

_CHUNKED_STATES = 4_000  # of which chunks are counted; of more states, by proportion
_SAMPLE_TREES, _SAMPLE_CHARS = 24, 20_000

Size = tuple[int, int]  # width and height in pixels


@dataclass(frozen=True)
class QuestionFacts:
    """A question, with texts as their lengths in characters."""

    question_id: str
    domain: str
    question_type: str
    scorer: str
    judged: bool
    text: str
    answer_chars: int
    image: Size | None


@dataclass(frozen=True)
class StateFacts:
    """A state, with texts as their lengths in characters; ``digest`` tells trees apart, ``action`` is annotated."""

    url: int
    action: int
    thought: int
    tree: int
    digest: int
    image: Size | None


@dataclass(frozen=True)
class TrajectoryFacts:
    """A trajectory, with texts as their lengths in characters.

    Attributes:
        named_route: a model would be asked to rewrite the goal; None when that is not known.
    """

    trajectory_id: str
    goal: int
    start_url: int
    states: tuple[StateFacts, ...]
    named_route: bool | None = None

    @property
    def trace(self) -> int:
        """Characters of all annotated actions, each on a line of its own with its number."""
        return sum(state.action + 10 for state in self.states[1:])


@dataclass
class ChunkCount:
    """State chunks of the first states: distinct texts, and their characters."""

    states: int = 0
    texts: set[int] = field(default_factory=set)
    chars: int = 0

    def add(self, trajectory: Trajectory, radius: int, settings: ChunkSettings) -> None:
        """Count a trajectory's chunks, unless enough were counted."""
        if self.states >= _CHUNKED_STATES:
            return
        self.states += len(trajectory.states)
        for entry in state_chunk_entries(trajectory, radius, settings):
            digest = hash(entry["text"])
            if digest not in self.texts:
                self.texts.add(digest)
                self.chars += len(entry["text"])


@dataclass(frozen=True)
class DataFacts:
    """All that is known of the data.

    Attributes:
        source: where it was read, in words.
        questions: of the run's sample.
        haystacks: trajectory ids by question, by tier of the run; of all questions.
        trajectories: by id, all that a haystack names.
        known: trajectories were read; else they are made up.
        chunks: of the trajectories that were read.
        trees, texts: samples to measure characters per token on.
    """

    source: str
    questions: tuple[QuestionFacts, ...]
    haystacks: Mapping[str, Mapping[str, tuple[str, ...]]]
    trajectories: Mapping[str, TrajectoryFacts]
    known: bool
    chunks: ChunkCount
    trees: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def states(self) -> int:
        """States of all trajectories."""
        return sum(len(one.states) for one in self.trajectories.values())

    @property
    def transitions(self) -> int:
        """Pairs of adjacent states."""
        return self.states - len(self.trajectories)


def made_up(trajectory_id: str, assumed: Assumptions) -> TrajectoryFacts:
    """A trajectory as it is assumed to be."""
    size = assumed.image_width, assumed.image_height
    url, action, thought = (round(one) for one in (assumed.url_chars, assumed.action_chars, assumed.thought_chars))
    states = tuple(
        StateFacts(url, action * bool(index), thought * bool(index), assumed.tree_chars, index, size)
        for index in range(assumed.states_per_trajectory)
    )
    return TrajectoryFacts(trajectory_id, round(assumed.goal_chars), url, states)


class Gatherer:
    """Takes trajectories one by one and keeps their sizes.

    Args:
        radius, chunk: how state chunks are made; ``chunk`` is None where none are needed.
        default: size of a screenshot that cannot be opened.
    """

    def __init__(self, radius: int, chunk: ChunkSettings | None, default: Size):
        self._radius, self._chunk, self._default = radius, chunk, default
        self.found: dict[str, TrajectoryFacts] = {}
        self.chunks = ChunkCount()
        self.trees: list[str] = []
        self.texts: list[str] = []

    def add(self, trajectory: Trajectory, named_route: bool | None = None) -> None:
        """Keep the sizes of a trajectory. Its screenshots are taken to be all as large as its first."""
        size: Size | None = None
        states = []
        for state in trajectory.states:
            if state.screenshot is not None and size is None:
                size = image_size(str(state.screenshot)) or self._default
            states.append(
                StateFacts(
                    len(state.url),
                    len(state.action_annotated or ""),
                    len(state.thought or ""),
                    len(state.tree),
                    hash(state.tree),
                    size if state.screenshot is not None else None,
                )
            )
        name = trajectory.trajectory_id
        self.found[name] = TrajectoryFacts(
            name, len(trajectory.goal), len(trajectory.start_url), tuple(states), named_route
        )
        if self._chunk is not None:
            self.chunks.add(trajectory, self._radius, self._chunk)
        if len(self.trees) < _SAMPLE_TREES:
            middle = trajectory.states[len(trajectory.states) // 2]
            self.trees.append(middle.tree[:_SAMPLE_CHARS])
            self.texts += [state.thought for state in trajectory.states[:4] if state.thought]


def image_size(path: str) -> Size | None:
    """Width and height of an image file; None when it cannot be opened."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return image.size
    except (OSError, ValueError):
        return None
