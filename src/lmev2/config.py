"""The configuration, checked before the DAG exists: unknown keys, unknown names and impossible values are errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from lmev2.agent.settings import AgentSettings
from lmev2.data.errors import shown
from lmev2.memory.settings import Method, RenderSettings
from lmev2.models.settings import ControllerSettings, EmbedderSettings, JudgeSettings, ReaderSettings
from lmev2.pilots.settings import FILES, PilotSettings
from lmev2.pools.settings import ChunkSettings, EventSettings, NoteSettings
from lmev2.settings import Settings

Tier = Literal["small", "medium"]
OWN_JUDGE = "judge"  # name of the run's own judge beside further ones
JUDGE_ROLE = "judges."  # and a name: the role of a further judge


class HubSettings(Settings):
    """A data set on the Hugging Face hub, fetched into ``data.root`` by the target ``fetch_dataset``."""

    repo: str = "xiaowu0162/longmemeval-v2"
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None


_SHIPPED = "{pipeline}/resources"


class DataSettings(Settings):
    """Where the data root lies. ``{pipeline}`` stands for the folder of the Snakefile; other relative paths are
    relative to the working directory (Snakemake's ``--directory``)."""

    root: str
    hub: HubSettings | None = None

    @model_validator(mode="after")
    def _own_folder(self) -> DataSettings:
        if self.hub is not None and self.hub.revision is None:
            raise ValueError("hub.revision must be the full commit id (40 hex digits) of the dataset repository")
        if self.hub is not None and self.root.startswith(_SHIPPED):
            raise ValueError(f"a fetch would overwrite the shipped data below {_SHIPPED}; set root to another folder")
        return self


class RunSettings(Settings):
    """What is evaluated: rows and tiers of the table, how many questions (null: all), import folders (runs of the
    public harness, as further rows), and remarks under the tables by the reader's model name."""

    methods: Annotated[list[str], Field(min_length=1)]
    tiers: Annotated[list[Tier], Field(min_length=1)]
    questions: Annotated[int, Field(ge=1)] | None = None
    seed: int = 0
    imports: list[str] = Field(default_factory=list)
    notes: dict[str, str] = Field(default_factory=dict)


class ShardSettings(Settings):
    """Units of work: trajectories and questions are spread over so many hash buckets."""

    trajectories: Annotated[int, Field(ge=1, le=999)] = 2
    questions: Annotated[int, Field(ge=1, le=999)] = 2


class PoolSettings(Settings):
    """How pools are made: radius of a raw-state slice in states, state chunks, notes, events."""

    slice_radius: Annotated[int, Field(ge=0)] = 1
    chunk: ChunkSettings = ChunkSettings()
    note: NoteSettings = NoteSettings()
    event: EventSettings = EventSettings()


class GoalSettings(Settings):
    """What is done to goals that spell out their route: they are rewritten by rules, or by the controller's model with
    rules where its reply is no use, or only checked."""

    mode: Literal["rules", "model", "check"] = "rules"


class ModelRoles(Settings):
    """The models by role."""

    reader: ReaderSettings
    judge: JudgeSettings
    controller: ControllerSettings = ControllerSettings()
    embedder: EmbedderSettings
    agent: AgentSettings = AgentSettings()


class StatisticsSettings(Settings):
    """The paired bootstrap over questions (the paper states only its name and p < 0.05).

    Attributes:
        resamples, seed: draws of questions with replacement.
        level: of the intervals.
        alpha: a difference is marked when it is positive and its two-sided p-value is below.
    """

    resamples: Annotated[int, Field(ge=100)] = 10_000
    seed: int = 0
    level: Annotated[float, Field(gt=0, lt=1)] = 0.95
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05


class ErrorSettings(Settings):
    """Rows with an error kind that a job lets through before it fails."""

    allow: Annotated[int, Field(ge=0)] = 0


class InterchangeSettings(Settings):
    """Run folders of the public harness: whether records repeat what the reader was sent, context included."""

    prompt_messages: bool = True


class TimingSettings(Settings):
    """Cores of a job that runs a model in this process. Null: all cores of the run, so that two such jobs never share
    them; together they would be many times slower."""

    local_model_threads: Annotated[int, Field(ge=1)] | None = None


class ClusterSettings(Settings):
    """What a job whose model runs in its own process asks of a cluster's queue; a run on one machine takes none of it.

    Attributes:
        model_threads: cores, where ``timing.local_model_threads`` is null.
        model_mem_mb: memory for the model, beside the job's own.
        gpus: GPUs where the model computes on one: backends of PyTorch whose ``device`` is not ``cpu``.
        llama_cpp_gpu: llama.cpp was built for GPUs, so that its jobs get them, too.
    """

    model_threads: Annotated[int, Field(ge=1)] = 8
    model_mem_mb: Annotated[int, Field(ge=0)] = 8_000
    gpus: Annotated[int, Field(ge=0)] = 1
    llama_cpp_gpu: bool = False


class Config(Settings):
    """The whole configuration.

    Attributes:
        preflight: a run looks at the endpoints that it calls before any job.
        judges: further judges by name. Their verdicts are compared with those of ``models.judge`` and change no score.
    """

    data: DataSettings
    results: Annotated[str, Field(pattern=r"^(\{pipeline\}/)?[^{}~]+$")] = "results"
    cache: str = ".cache"
    preflight: bool = True
    run: RunSettings
    shards: ShardSettings = ShardSettings()
    goals: GoalSettings = GoalSettings()
    pools: PoolSettings = PoolSettings()
    methods: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")], Method]
    render: RenderSettings = RenderSettings()
    models: ModelRoles
    judges: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")], JudgeSettings] = Field(
        default_factory=dict
    )
    pilots: PilotSettings = PilotSettings()
    statistics: StatisticsSettings = StatisticsSettings()
    errors: ErrorSettings = ErrorSettings()
    interchange: InterchangeSettings = InterchangeSettings()
    timing: TimingSettings = TimingSettings()
    cluster: ClusterSettings = ClusterSettings()

    @model_validator(mode="after")
    def _known_methods(self) -> Config:
        missing = [name for name in self.run.methods if name not in self.methods]
        if missing:
            raise ValueError(f"run.methods names {missing}, but methods defines only {sorted(self.methods)}")
        if len(set(self.run.methods)) != len(self.run.methods) or len(set(self.run.tiers)) != len(self.run.tiers):
            raise ValueError("run.methods and run.tiers must not name anything twice")
        strangers = {
            name: sorted(partner for partner in row.compare_with if partner == name or partner not in self.methods)
            for name, row in self.methods.items()
        }
        if any(strangers.values()):
            named = {name: partners for name, partners in strangers.items() if partners}
            raise ValueError(f"compare_with names the method itself or methods that are not defined: {named}")
        reranking = [name for name in self.run.methods if getattr(self.methods[name], "rerank", None) is not None]
        if reranking and self.models.controller.backend == "rules":
            raise ValueError(
                f"{reranking} rerank, which takes a model, but models.controller.backend is rules; set it to a model "
                "or leave `rerank` out"
            )
        if self.goals.mode == "model" and self.models.controller.backend == "rules":
            raise ValueError(
                "goals.mode is model, but models.controller.backend is rules; set it to a model, or goals.mode to rules"
            )
        efforts = [
            name for name in self.run.methods if getattr(self.methods[name], "reasoning_effort", None) is not None
        ]
        if efforts and self.models.agent.backend == "rules":
            raise ValueError(f"{efforts} set reasoning_effort, which has no effect: models.agent works without a model")
        unknown = [name for name in self.pilots.figure4.beside if name not in self.methods]
        if unknown:
            raise ValueError(f"pilots.figure4.beside names {unknown}, but methods defines only {sorted(self.methods)}")
        if FILES in self.pilots.figure4.contexts and self.models.agent.backend == "rules":
            raise ValueError(
                f"pilots.figure4.contexts names {FILES}, which a coding agent answers, but models.agent is "
                f"{self.models.agent.agent!r}, works without a model and cannot answer; set models.agent.agent to loop "
                "or codex with a model, or leave that context out"
            )
        if OWN_JUDGE in self.judges:
            raise ValueError(
                f"judges names {OWN_JUDGE!r}, which is the run's own judge (models.judge); choose another name"
            )
        mistaken = [name for name in self.pilots.readers if name.startswith(JUDGE_ROLE)]
        if mistaken:
            raise ValueError(f"pilots.readers names {mistaken}, which would be taken for further judges; rename them")
        labels = [self.methods[name].label for name in self.run.methods]
        if len(set(labels)) != len(labels):
            raise ValueError(f"methods of the run must have different labels, found {labels}")
        return self


_DEEPEST = 50  # far more than any configuration is nested
_MOST_VALUES = 100_000


class ConfigError(ValueError):
    """A configuration that cannot be used; the message lists every problem with its place."""


def resolve_methods(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Fill in ``inherits``: a row starts from the named row's keys and replaces whole values.

    Raises:
        ConfigError: the named row does not exist, or rows inherit in a circle.
    """

    def resolve(name: str, chain: tuple[str, ...]) -> dict[str, Any]:
        if name not in rows:
            known = sorted(map(str, rows))
            raise ConfigError(f"methods.{chain[-1]} inherits {name!r}, which is not defined; known: {known}")
        if name in chain:
            raise ConfigError(f"methods inherit in a circle: {' -> '.join(map(str, (*chain, name)))}")
        if len(chain) > _DEEPEST:
            raise ConfigError(f"methods.{chain[0]} inherits over more than {_DEEPEST} rows")
        row = dict(rows[name])
        parent = row.pop("inherits", None)
        if parent is not None and not isinstance(parent, str):
            raise ConfigError(f"methods.{name}.inherits must name one method, found {parent!r}")
        return {**resolve(parent, (*chain, name)), **row} if parent else row

    return {name: resolve(name, ()) for name in rows}


def _nulls(value: Any) -> Any:
    """Nested values of Snakemake's ``--config`` arrive as text; ``null`` there means no value.

    Raises:
        ConfigError: the value holds itself, or far more than a configuration does: YAML can repeat what stands once. Or
            a number is none, or beyond what settings, which are kept as JSON, can hold.
    """
    count = 0

    def plain(value: Any, *path: Any) -> Any:
        nonlocal count
        count += 1
        if len(path) > _DEEPEST or count > _MOST_VALUES:
            raise ConfigError(
                f"the configuration is nested more than {_DEEPEST} times or holds more than {_MOST_VALUES:,} values, "
                "counting what YAML's aliases repeat"
            )
        if isinstance(value, Mapping):
            return {key: plain(item, *path, key) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item, *path, number) for number, item in enumerate(value)]
        if isinstance(value, int | float) and not abs(value) < 2**63:  # NaN is less than nothing
            place = ".".join(map(str, path))
            raise ConfigError(f"{place}: expected a number of at most 63 bits, found {shown(value, 80)}")
        return None if isinstance(value, str) and value == "null" else value

    return plain(value)


def merge_config(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration with another one over it, as Snakemake merges configuration files: mappings key by key,
    everything else replaced as a whole."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping):
            below = merged.get(key, {})
            # An empty mapping says nothing, so that what is below stays, whatever it is.
            merged[key] = merge_config(below if isinstance(below, Mapping) else {}, value) if value else below
        else:
            merged[key] = value
    return merged


def read_config(files: Sequence[Path]) -> dict[str, Any]:
    """Configuration files (YAML, of which JSON is a part) merged into one mapping, the last one on top.

    Raises:
        ConfigError: a file is missing, is not YAML, or does not hold keys at its top.
    """
    merged: dict[str, Any] = {}
    for file in files:
        try:
            value = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the configuration file {file} ({error})") from error
        except Exception as error:  # for values that do not fit their tags, PyYAML raises whatever comes of it
            kind = "" if isinstance(error, yaml.YAMLError) else f"{type(error).__name__}: "
            raise ConfigError(f"{file} is not YAML: {kind}{' '.join(str(error).split())}") from error
        if not isinstance(value, Mapping):
            raise ConfigError(f"{file} must hold keys such as `run` and `models` at its top, found {shown(value, 80)}")
        try:
            _nulls(value)  # refuses what could not be merged
        except ConfigError as error:
            raise ConfigError(f"{file}: {error}") from None
        merged = merge_config(merged, value)
    return merged


def load_config(raw: Mapping[str, Any]) -> Config:
    """Check a configuration mapping, as Snakemake merged it.

    Raises:
        ConfigError: lists each problem as ``place: what is wrong (found …)``.
    """
    data: dict[str, Any] = _nulls(dict(raw))
    methods = data.get("methods")
    if isinstance(methods, Mapping):
        empty = sorted(str(name) for name, row in methods.items() if not isinstance(row, Mapping))
        if empty:
            raise ConfigError(f"methods must be rows with keys such as family and label; {empty} are not")
        data["methods"] = resolve_methods(methods)
    try:
        return TypeAdapter(Config).validate_python(data)
    except ValidationError as error:
        lines = [
            f"  {'.'.join(map(str, item['loc'])) or 'config'}: {item['msg']} (found {shown(item['input'], 80)})"
            for item in error.errors()
        ]
        raise ConfigError("the configuration has problems:\n" + "\n".join(lines)) from error
