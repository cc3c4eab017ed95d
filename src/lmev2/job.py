"""What every rule's script needs: its settings, the call cache, models, a log file and progress lines.

Settings that can change an output come from the params (``spec``), which decide about reruns. How calls are made
(timeouts, retries, concurrency, the names of the variables with address and key, the cache's folder) comes from the
configuration, which does not.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from lmev2.config import Config, load_config
from lmev2.models.cache import CallCache
from lmev2.models.factory import make_chat, make_embedder
from lmev2.models.fault_counts import FAULTS
from lmev2.models.settings import ChatSettings, EmbedderSettings
from lmev2.models.types import ChatBackend, EmbeddingBackend
from lmev2.plan import Plan
from lmev2.progress import Progress
from lmev2.run_lock import end_with_run

_log = logging.getLogger("lmev2")
_Chat = TypeVar("_Chat", bound=ChatSettings)


class Job:
    """One job of a rule; use as a context manager, so that a failure's traceback reaches the log file.

    Args:
        snakemake: the object that Snakemake gives to a script.
    """

    def __init__(self, snakemake: Any):
        self.spec: dict[str, Any] = json.loads(snakemake.params.spec)
        self._rule = str(snakemake.rule)
        self._wildcards = dict(snakemake.wildcards.items())
        self._threads = int(snakemake.threads)
        self._log_file = Path(str(snakemake.log[0]))
        self.config: Config = load_config(snakemake.config)
        self._plan = Plan(self.config, Path(snakemake.scriptdir).resolve().parents[1])
        self._cache: CallCache | None = None

    def __enter__(self) -> Self:
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(self._log_file, mode="w", encoding="utf-8")
        logging.basicConfig(
            handlers=[handler], level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s", force=True
        )
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # would write the endpoint's address for every call
        _log.info("%s %s", self._rule, self._wildcards)
        FAULTS.clear()
        end_with_run()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cache is not None:
            _log.info("faults of model calls: %s", FAULTS.line())
        if error is not None:
            _log.error("%s failed", self.name, exc_info=(type(error), error, trace))
        elif self._cache is not None:
            _log.info("call cache: %s", self._cache.counts())

    @property
    def name(self) -> str:
        """The rule and its wildcards, for messages."""
        return "/".join([self._rule, *self._wildcards.values()])

    @property
    def data_root(self) -> Path:
        """The data root's folder."""
        return self._plan.data_root

    @property
    def pipeline(self) -> Path:
        """Folder of the Snakefile."""
        return self._plan.pipeline

    def agent_code(self) -> str:
        """A hash of the code of the coding agent."""
        return self._plan.agent_code()

    def path(self, value: str) -> str:
        """A configured path with ``{pipeline}`` filled in."""
        return self._plan.path(value)

    @property
    def cache(self) -> CallCache:
        """The call cache of the run."""
        if self._cache is None:
            self._cache = CallCache(self._plan.cache)
        return self._cache

    def progress(self, unit: str = "rows") -> Progress:
        """Progress lines titled with the job's name."""
        return Progress(self.name, unit)

    def settings(self, role: str, kind: type[_Chat]) -> _Chat:
        """A chat role's settings: what can change an answer from ``spec``, how to call from the configuration."""
        name = self.spec.get("pilot", role) if role == "reader" else role
        name = self.spec.get("role", name) if role == "judge" else name
        return kind.model_validate(self._plan.role_settings(name, self.spec[role]))

    def chat(self, settings: ChatSettings) -> ChatBackend:
        """A chat model behind the call cache, with the job's threads."""
        return make_chat(settings, self.cache, self._threads)

    def embedder(self) -> EmbeddingBackend:
        """The embedding model of ``spec``."""
        settings = EmbedderSettings.model_validate(self._plan.role_settings("embedder", self.spec["embedder"]))
        return make_embedder(settings, self.cache, self._threads)
