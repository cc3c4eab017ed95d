"""What the rules need to know before any job runs: paths, shards, and the params that decide about reruns.

Snakemake reruns a job when its params change. Each job gets two: ``spec``, one canonical JSON string with every setting
that can change its output, and ``code``, a hash over the syntax trees of the library modules that it uses. Comments,
docstrings and formatting therefore rerun nothing; a changed function reruns what imports its module.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from lmev2.config import JUDGE_ROLE, Config, ConfigError
from lmev2.data.errors import DataError
from lmev2.data.layout import BUNDLES_FOLDER, EVIDENCE_FILE, QUESTION_IMAGES_FOLDER, QUESTIONS_FILE, haystack_file
from lmev2.data.screenshots import find_bundles
from lmev2.fingerprint import code_fingerprint
from lmev2.interchange.domains import sampled_domains
from lmev2.interchange.imports import Import, load_imports
from lmev2.job_specs import AGENT_PROMPTS, ROLES, SPECS, judge_role
from lmev2.memory.settings import POOL_TABLES, AgentMethod, PluginMethod, PoolName, RagMethod
from lmev2.models.cache import canonical_json
from lmev2.models.model_folder import CHAT_TEMPLATES, model_files
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.shards import shard_names

# Which library modules do a rule's work; `code` covers them and everything that they import.
MODULES: dict[str, tuple[str, ...]] = {
    "fetch_dataset": ("lmev2.data.fetch",),
    "prepare_screenshots": ("lmev2.data.screenshots",),
    "ingest_dataset": ("lmev2.data.ingest",),
    "select_questions": ("lmev2.data.selection", "lmev2.rows"),
    "sanitize_goals": ("lmev2.goals.table", "lmev2.goals.sanitize", "lmev2.data.store", "lmev2.shards"),
    "apply_goals": ("lmev2.goals.apply", "lmev2.goals.table"),
    "build_raw_state": ("lmev2.pools.raw_state", "lmev2.data.store", "lmev2.shards"),
    "build_center_state": ("lmev2.pools.raw_state", "lmev2.data.store", "lmev2.shards"),
    "build_state_chunk": ("lmev2.pools.state_chunk", "lmev2.data.store", "lmev2.shards"),
    "generate_note": ("lmev2.pools.note_jobs", "lmev2.data.store", "lmev2.shards"),
    "generate_event": ("lmev2.pools.event_jobs", "lmev2.data.store", "lmev2.shards"),
    "embed_pool": ("lmev2.pools.embed",),
    "index_pool": ("lmev2.index",),
    "query_memory": ("lmev2.memory.query", "lmev2.memory.families", "lmev2.shards"),
    "build_agent_pool": ("lmev2.agent.pool", "lmev2.data.store", "lmev2.shards"),
    "query_agent_memory": (
        "lmev2.memory.query",
        "lmev2.memory.agent_job",
        "lmev2.agent.inside.inspect_trajectory",
        "lmev2.agent.inside.launch",
        "lmev2.shards",
    ),
    "read_answers": ("lmev2.reader",),
    "score_answers": ("lmev2.scoring.score",),
    "judge_again": ("lmev2.scoring.verdicts",),
    "build_oracle_contexts": ("lmev2.pilots.contexts", "lmev2.models.tokens", "lmev2.shards"),
    "read_pilot_answers": ("lmev2.reader",),
    "answer_oracle_files": ("lmev2.pilots.files", "lmev2.agent.inside.launch"),
    "score_pilot_answers": ("lmev2.scoring.score",),
    "export_figure4": ("lmev2.tables.figure4",),
    "plot_figure4": ("lmev2.report.figures_figure4",),
    "collect_scores": ("lmev2.tables.database",),
    "export_table": ("lmev2.tables.export",),
    "export_table2": ("lmev2.tables.table2",),
    "export_paper_check": ("lmev2.tables.paper_check",),
    "count_tokens": ("lmev2.tables.haystack_tokens", "lmev2.models.tokens", "lmev2.data.store", "lmev2.shards"),
    "export_table1": ("lmev2.tables.table1",),
    "export_statistics": ("lmev2.tables.data_statistics",),
    "export_table6": ("lmev2.tables.table6",),
    "export_judge_agreement": ("lmev2.tables.judge_agreement",),
    "export_methods": ("lmev2.tables.methods",),
    "plot_table2": ("lmev2.report.figures_table2",),
    "plot_frontier": ("lmev2.report.figures_frontier",),
    "plot_latency": ("lmev2.report.figures_latency",),
    "plot_evidence": ("lmev2.report.figures_evidence",),
    "plot_tokens": ("lmev2.report.figures_tokens",),
    "plot_errors": ("lmev2.report.figures_errors",),
    "plot_statistics": ("lmev2.report.figures_statistics",),
    "build_report": ("lmev2.report.html.build",),
    "write_provenance": ("lmev2.provenance",),
    "check_endpoints": ("lmev2.models.preflight",),
    "select_import": ("lmev2.interchange.select",),
    "export_harness_run": ("lmev2.interchange.export",),
}
# Rules that call a model: its role, whose backend belongs to the rule's code.
_ROLES = {
    "generate_note": "controller",
    "generate_event": "controller",
    "embed_pool": "embedder",
    "read_answers": "reader",
    "score_answers": "judge",
    "score_pilot_answers": "judge",
}
_AGENT_RULES = ("query_agent_memory", "answer_oracle_files")
_BACKENDS = {
    "llama_cpp": "lmev2.models.llama",
    "openai": "lmev2.models.openai_backend",
    "scripted": "lmev2.models.scripted",
    "transformers": "lmev2.models.transformers_backend",
}
_EMBEDDERS = {
    "llama_cpp": "lmev2.models.llama_embedder",
    "openai": "lmev2.models.openai_backend",
    "scripted": "lmev2.models.scripted",
    "sentence_transformers": "lmev2.models.sentence_transformers_backend",
    "wordllama": "lmev2.models.wordllama_backend",
}

# What rewrites goals, besides rules.
_GOAL_MODES = {"model": ("lmev2.goals.model",)}
# What each coding agent runs, inside its sandbox included.
_AGENTS = {
    "search": ("lmev2.agent.search", "lmev2.agent.inside.search_agent.__main__"),
    "loop": ("lmev2.agent.loop",),
    "codex": ("lmev2.agent.codex",),
}

# Backends that run a model in this process, and those that cost nothing.
_IN_PROCESS = ("llama_cpp", "sentence_transformers", "transformers")
# Backends whose model may be a folder, and further endings of files in it that decide about answers.
_FOLDERS = {"sentence_transformers": frozenset[str](), "transformers": CHAT_TEMPLATES}
FREE = ("wordllama", "scripted", "rules")

# Settings of a model role that change how a call is made but not what comes back.
CALL_MECHANICS = {
    "timeout_s",
    "retries",
    "retry_wait_s",
    "concurrency",
    "endpoint",
    "batch_size",
    "device",
    "isolation",
    "program",
}
# Settings of the role `agent` that matter also without a model.
_RULES_OF_AGENT = ("agent", "attempt_s", "attempts", "max_states")
# Settings that may name a file on disk; its size and time of change stand for its content.
_FILE_SETTINGS = ("file", "tokenizer", "script")


class Plan:
    """The run that a checked configuration asks for.

    Args:
        config: the configuration.
        pipeline: folder of the Snakefile, for the placeholder ``{pipeline}``.
    """

    def __init__(self, config: Config, pipeline: Path):
        self.config: Config = config
        self.pipeline = pipeline
        self.results = self.path(config.results).rstrip("/")
        self._on_disk = config.data.hub is None
        self.trajectory_shards = shard_names(config.shards.trajectories)
        self.question_shards = shard_names(config.shards.questions)

    def path(self, value: str) -> str:
        """A configured path with ``{pipeline}`` filled in."""
        return value.replace("{pipeline}", str(self.pipeline))

    @property
    def data_root(self) -> Path:
        """The data root's folder, which need not exist yet when it is fetched from the hub."""
        return Path(self.path(self.config.data.root))

    @property
    def cache(self) -> Path:
        """Folder of the call cache, absolute because jobs may run in other folders."""
        return Path(self.path(self.config.cache)).absolute()

    def check_cache(self) -> None:
        """Make the call cache's folder.

        Raises:
            ConfigError: it cannot be made, or neither be written to nor read.
        """
        try:
            self.cache.mkdir(parents=True, exist_ok=True)
            # One that can only be read is warned of when a run starts: it may hold all that is needed.
            usable = os.access(self.cache, os.W_OK) or os.access(self.cache, os.R_OK | os.X_OK)
        except OSError as error:
            raise ConfigError(f"cache: cannot make {self.cache} ({error}); set `cache` to a folder of yours") from error
        if not usable:
            raise ConfigError(f"cache: no permission to use {self.cache}; set `cache` to a folder of yours")

    def data_files(self) -> list[str]:
        """Files of the data root that ingestion reads.

        Raises:
            ConfigError: the root or a file that it must hold does not exist; says what was looked up.
        """
        root = self.data_root
        names = ["questions.jsonl", "trajectories.jsonl"]
        names += [haystack_file(tier) for tier in sorted(self.config.run.tiers)]
        if not root.is_dir():
            raise ConfigError(
                f"data.root: no folder {root.absolute()} (from {self.config.data.root!r}). Give the folder of a "
                "data root, or set data.hub.revision and run the target fetch_dataset to download one."
            )
        missing = [name for name in names if not (root / name).is_file()]
        if missing:
            raise ConfigError(
                f"data.root: {root.absolute()} lacks {', '.join(missing)}; a data root holds {', '.join(names)}, "
                "screenshots/ and, if known, evidence.jsonl"
            )
        return [str(root / name) for name in names]

    def bundles(self) -> list[str]:
        """Screenshot bundles of the data root; none when it is fetched, since the fetch then stands for its files."""
        return [str(path) for path in find_bundles(self.data_root / BUNDLES_FOLDER)] if self._on_disk else []

    def evidence_files(self) -> list[str]:
        """The data root's evidence labels, if it has any; none when it is fetched."""
        path = self.data_root / EVIDENCE_FILE
        return [str(path)] if self._on_disk and path.is_file() else []

    def check_evidence(self) -> None:
        """See that the data root has evidence labels; nothing where it is still to be fetched.

        Raises:
            ConfigError: it has none.
        """
        root = self.data_root
        if (root / QUESTIONS_FILE).is_file() and not (root / EVIDENCE_FILE).is_file():
            raise ConfigError(
                f"oracle contexts (pilots.figure4) need evidence labels, but {root.absolute()} has no {EVIDENCE_FILE}: "
                "a line per question with `question_id` and `hops`, as docs/pilots.md says. Without labels, leave only "
                "no_context in pilots.figure4.contexts"
            )

    def question_images(self) -> list[str]:
        """The data root's question images; none when it is fetched."""
        folder = self.data_root / QUESTION_IMAGES_FOLDER
        return sorted(str(path) for path in folder.glob("*.*")) if self._on_disk else []

    @cached_property
    def imports(self) -> list[Import]:
        """The imported runs, in order.

        Raises:
            ConfigError: a folder of ``run.imports`` is no import folder, or does not fit the run.
        """
        folders = [Path(self.path(value)) for value in self.config.run.imports]
        own = {name: self.config.methods[name].label for name in self.config.run.methods}
        try:
            return load_imports(folders, own, self.config.run.tiers)
        except DataError as error:
            raise ConfigError(str(error)) from error

    def import_of(self, method: str, tier: str) -> Import | None:
        """The imported run of that name and tier; None for a method of the run itself."""
        key = (method, tier)
        return next((one for one in self.imports if (one.manifest.name, one.manifest.tier) == key), None)

    def cells(self) -> list[tuple[str, str]]:
        """Methods and tiers that have rows: every method of the run on every tier, then the imported runs."""
        own = [(name, str(tier)) for name in self.config.run.methods for tier in self.config.run.tiers]
        return own + [(one.manifest.name, one.manifest.tier) for one in self.imports]

    def domains(self, method: str, tier: str) -> list[str]:
        """Domains in which a method has questions in this run; all while the data root is not there yet."""
        run = self.config.run
        present = sampled_domains(self.data_root / QUESTIONS_FILE, run.questions, run.seed)
        found = self.import_of(method, tier)
        return [name for name in present if found is None or found.manifest.run_of(name) is not None]

    def pools(self) -> list[str]:
        """Index tables that the run's methods search, sorted."""
        return sorted({table for name in self.config.run.methods for table in self.method_tables(name)})

    def method_tables(self, method: str) -> list[str]:
        """Index tables that one method searches."""
        settings = self.config.methods[method]
        return settings.tables() if isinstance(settings, RagMethod) else []

    def roles(self, rule: str, method: str | None = None, reader: str = "reader") -> list[str]:
        """Model roles that a rule's job calls; those of queries depend on the method, those of pilot studies on the
        reader, and that of a further judge is given as ``reader`` too."""
        if rule in _AGENT_RULES:
            return ["agent"]
        if rule in ("read_pilot_answers", "judge_again"):
            return [reader]
        if rule == "sanitize_goals":
            return ["controller"] if self.config.goals.mode == "model" else []
        if rule != "query_memory":
            return [_ROLES[rule]] if rule in _ROLES else []
        settings = self.config.methods[str(method)]
        if not isinstance(settings, RagMethod):
            return []
        return ["embedder", "controller"] if settings.uses_controller() else ["embedder"]

    def model_threads(self, rule: str, cores: int, method: str | None = None, reader: str = "reader") -> int:
        """Threads of a rule's job: for a model in this process all ``cores`` of the run, or as configured; else one."""
        local = self.own_models(rule, method, reader)
        return (self.config.timing.local_model_threads or cores) if local else 1

    def own_models(
        self, rule: str, method: str | None = None, reader: str = "reader"
    ) -> list[ChatSettings | EmbedderSettings]:
        """Settings of the models that run in the process of a rule's job."""
        roles = [role for role in self.roles(rule, method, reader) if self._backend(role) in _IN_PROCESS]
        return [self.model_settings(role) for role in roles]

    def calls(self, rule: str, method: str | None = None, reader: str = "reader") -> int:
        """Share of the resource ``llm`` of a rule's job: 1 if it calls a model over a network or in this process."""
        return int(any(self._backend(role) not in FREE for role in self.roles(rule, method, reader)))

    def code(self, rule: str, method: str | None = None, reader: str = "reader") -> str:
        """The ``code`` param of a rule's job; covers the backends of the models that it calls."""
        modules = {self._backend_module(role) for role in self.roles(rule, method, reader)} - {None}
        agents = _AGENTS[self.config.models.agent.agent] if rule in _AGENT_RULES else ()
        goals = _GOAL_MODES.get(self.config.goals.mode, ()) if rule == "sanitize_goals" else ()
        return code_fingerprint(*MODULES[rule], *agents, *goals, *sorted(filter(None, modules)))

    def agent_code(self) -> str:
        """A hash of the code of the coding agent of the run. Codex has none here: what it does is its own program's
        work, and a change of how it is called must not pay for every question again."""
        agent = self.config.models.agent.agent
        return "" if agent == "codex" else code_fingerprint(*_AGENTS[agent])

    def agent_timing(self) -> int:
        """Share of the resource ``timing`` of a coding agent's job: 1 if it computes on this machine."""
        return int(self._backend("agent") not in ("openai",))

    def codes(self) -> dict[str, Any]:
        """The ``code`` params of all rules by name; of ``query_memory`` by method, of rules that ask one model after
        the other by that model."""
        of_queries = {method: self.code("query_memory", method) for method in self.memory_methods()}
        asked = {
            "judge_again": [judge_role(name) for name in self.config.judges],
            "read_pilot_answers": self.config.pilots.asked(),
        }
        of_models = {rule: {name: self.code(rule, reader=name) for name in names} for rule, names in asked.items()}
        # What only looks at endpoints makes no result.
        apart = {"query_memory", "check_endpoints", *asked}
        plain = {rule: self.code(rule) for rule in MODULES if rule not in apart}
        return {**plain, **of_models, "query_memory": of_queries}

    def agent_methods(self) -> list[str]:
        """Methods of the run that a coding agent answers."""
        return [name for name in self.config.run.methods if isinstance(self.config.methods[name], AgentMethod)]

    def memory_methods(self) -> list[str]:
        """Methods of the run that are asked in the job's own process."""
        return [name for name in self.config.run.methods if name not in self.agent_methods()]

    def query_rule(self, method: str) -> str:
        """The rule that asks a method."""
        return "query_agent_memory" if method in self.agent_methods() else "query_memory"

    def pilot_neighbours(self) -> list[tuple[str, str]]:
        """Methods and tiers whose rows stand beside the oracle contexts: those that the run has."""
        beside = [name for name in self.config.pilots.figure4.beside if name in self.config.run.methods]
        return [(name, str(tier)) for name in beside for tier in self.config.run.tiers]

    def used_roles(self) -> list[str]:
        """Model roles of the run: the agent only where a method has it, and further judges as ``judges.NAME``."""
        own = [role for role in ROLES if role != "agent" or self.agent_methods()]
        return own + [judge_role(name) for name in self.config.judges]

    def compares_judges(self) -> bool:
        """Whether answers get more than one verdict, which can then be compared."""
        return bool(self.config.judges) or self.config.models.judge.repeats > 1

    def plugin_folder(self, settings: PluginMethod) -> Path | None:
        """Folder that a plugin is imported from; None for the environment's packages only."""
        return None if settings.path is None else Path(self.path(settings.path)).absolute()

    def has_controller(self) -> bool:
        """Whether the controller is a model, which then needs its prompts."""
        return self.config.models.controller.backend != "rules"

    def goal_prompts(self) -> list[str]:
        """Names of the prompts that goals are rewritten with by the controller's model."""
        return ["goal"] if self.config.goals.mode == "model" else []

    def query_prompts(self, method: str) -> list[str]:
        """Names of the prompts that queries of a method send to the controller's model."""
        settings = self.config.methods[method]
        if not isinstance(settings, RagMethod) or not self.has_controller():
            return []
        names = ["query"] if settings.queries == "generated" else []
        return names + (["rerank"] if settings.rerank else [])

    def prompts(self) -> list[str]:
        """Names of all prompts that the run sends to a model."""
        names = ["reader_web", "reader_enterprise", "judge_abstention", "judge_gotchas"]
        names += self.goal_prompts()
        if self.has_controller():
            written: tuple[PoolName, ...] = ("note", "event")
            names += [pool for pool in written if set(POOL_TABLES[pool]) & set(self.pools())]
        names += list(AGENT_PROMPTS) if self.agent_methods() else []
        return names + sorted({name for method in self.config.run.methods for name in self.query_prompts(method)})

    def _backend_module(self, role: str) -> str | None:
        backends = _EMBEDDERS if role == "embedder" else _BACKENDS
        return backends.get(self._backend(role))

    def _backend(self, role: str) -> str:
        return str(self.model_settings(role).backend)

    def model_settings(self, name: str) -> ChatSettings | EmbedderSettings:
        """Settings of a model role, a further judge (``judges.NAME``), or a reader of the pilot studies: none has the
        name of a role."""
        if name.startswith(JUDGE_ROLE):
            return self.config.judges[name.removeprefix(JUDGE_ROLE)]
        found = self.config.pilots.readers.get(name)
        settings: ChatSettings | EmbedderSettings = getattr(self.config.models, name) if found is None else found
        return settings

    def role(self, name: str) -> dict[str, Any]:
        """A model role's settings without the mechanics of calling it, and a stamp of every file on disk that they
        name."""
        settings = self.model_settings(name)
        if settings.backend == "rules":
            # Nothing else matters where no model is called.
            return settings.model_dump(mode="json", include={"backend", "model", *_RULES_OF_AGENT})
        spec = settings.model_dump(mode="json", exclude={*CALL_MECHANICS, "price", "throughput", "label"})
        spec |= {name: self.path(spec[name]) for name in _FILE_SETTINGS if spec.get(name)}
        stamps = {name: _stamp(spec[name]) for name in _FILE_SETTINGS if spec.get(name) and Path(spec[name]).is_file()}
        if settings.backend in _FOLDERS and Path(str(spec["served_name"] or spec["model"])).is_dir():
            folder = Path(str(spec["served_name"] or spec["model"]))
            files = model_files(folder, _FOLDERS[settings.backend])
            stamps |= {str(path.relative_to(folder)): _stamp(str(path)) for path in files}
        return spec | ({"stamps": stamps} if stamps else {})

    def counter(self, name: str) -> dict[str, Any]:
        """What makes a role's token counter; how it answers does not matter to it."""
        names = ["backend", "model", "file", "tokenizer", "script", "images", "image_tokens", "stamps"]
        role = self.role(name)
        if role["backend"] == "transformers":
            names += ["served_name", "revision"]
        return {key: role[key] for key in names if key in role}

    def role_settings(self, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """All settings of a model role: what can change an answer from the role's ``spec``, how calls are made from the
        configuration."""
        kept = {key: value for key, value in spec.items() if key != "stamps"}
        mechanics = self.model_settings(name).model_dump(mode="json", include=CALL_MECHANICS)
        return kept | mechanics

    def spec(self, rule: str, wildcards: Mapping[str, str] | None = None) -> str:
        """The ``spec`` param of a rule's job: canonical JSON."""
        return canonical_json(SPECS[rule](self, dict(wildcards or {})))


def _stamp(path: str) -> list[int]:
    facts = Path(path).stat()
    return [facts.st_size, facts.st_mtime_ns]
