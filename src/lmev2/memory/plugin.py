"""Memories of the user's own: any class with ``insert(trajectory)`` and ``query(query, query_image)``.

Classes that were written for the benchmark's public harness run unchanged, its optional hooks included. A plugin sees
what every memory may see and nothing else of a question: its text, its image and its haystack.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import logging
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lmev2.data.store import StateStore
from lmev2.files import StorageError
from lmev2.memory.base import ContextItem, Memory, MemoryContext, MemoryQuery
from lmev2.memory.plugin_guard import STOPS, described, kept_folder, readable
from lmev2.memory.plugin_items import ItemError, context_items, plain_items
from lmev2.memory.plugin_source import PluginError, find_source
from lmev2.memory.settings import PluginMethod
from lmev2.models.stopwatch import account, collect
from lmev2.models.types import ErrorKind, ModelCallError, ModelSetupError
from lmev2.trajectory import Trajectory

WORKSPACE = "{workspace}"

# What ends the job, also out of the user's code: a cache that takes no more would fail every question.
_ENDS: Final = (ModelSetupError, StorageError, *STOPS)

_log = logging.getLogger(__name__)


def open_plugin(method: PluginMethod, folder: Path | None, store: StateStore) -> Memory:
    """The memory that a method's row of family ``plugin`` names.

    Args:
        method: the row.
        folder: folder of the row's key ``path``, None without one.
        store: states of the trajectories.

    Raises:
        ModelSetupError: the class cannot be found or imported, or lacks ``insert`` or ``query``.
    """
    return PluginMemory(_load_class(method.class_, folder), method.options, store)


def trajectory_object(trajectory: Trajectory) -> dict[str, Any]:
    """A trajectory as the object that the official data set holds, made anew at each call.

    Actions are the raw ones and stand, as there, on the state that they led to; screenshots are absolute paths.
    """
    return {
        "id": trajectory.trajectory_id,
        "domain": trajectory.domain,
        "environment": trajectory.environment,
        "goal": trajectory.goal,
        "outcome": trajectory.outcome,
        "start_url": trajectory.start_url,
        "states": [
            {
                "state_index": state.state_index,
                "step": state.step,
                "url": state.url,
                "action": state.action,
                "thought": state.thought,
                "accessibility_tree": state.tree,
                "screenshot": None if state.screenshot is None else str(state.screenshot.absolute()),
            }
            for state in trajectory.states
        ],
    }


@dataclass(frozen=True)
class _Instance:
    """An object of the user's class that holds one haystack.

    Attributes:
        haystack: ids of the trajectories that were inserted.
        memory: the object.
        workspace: a folder of its own, removed with it.
        state_counts: number of states of each trajectory that was inserted.
    """

    haystack: tuple[str, ...]
    memory: Any
    workspace: tempfile.TemporaryDirectory[str]
    state_counts: dict[str, int]


class PluginMemory:
    """Asks a class of the user's; one instance of it per distinct haystack, the latest kept.

    Args:
        kind: the class.
        options: its keyword arguments; in texts, ``{workspace}`` stands for an empty folder of the instance.
        store: states of the trajectories.
    """

    def __init__(self, kind: type, options: Mapping[str, Any], store: StateStore):
        self._kind, self._options, self._store = kind, options, store
        self._instance: _Instance | None = None
        self._failed: dict[tuple[str, ...], tuple[ErrorKind, str]] = {}

    def prepare(self, haystack: tuple[str, ...]) -> None:
        """Make an instance and insert the haystack's trajectories in order, unless the latest one holds them.

        Raises:
            ModelCallError: an insertion failed; remembered, so that it is not tried again for every question.
            ModelSetupError: the class refuses its options.
            StorageError: the disk takes no more.
        """
        self._prepared(haystack)

    def query(self, query: MemoryQuery) -> MemoryContext:
        """What the plugin returns for a question. Its ``query`` alone counts as the time that this takes.

        Raises:
            ModelCallError: it failed, a hook of it failed, or it returned something else than a list of items.
            ModelSetupError: as :meth:`prepare`.
        """
        with _untimed():
            instance = self._prepared(query.haystack)
            invocation = uuid.uuid4().hex
            image = _copy_image(query.image, Path(instance.workspace.name), invocation)
        with self._query_context(instance, _context_hints(query, image, invocation)):
            with self._failures("query"):
                returned = _ask(instance.memory.query, query.text, image)
            with _untimed():
                items = self._items(returned, instance, {image: str(query.image)} if image else {})
                with self._failures("query"):
                    plain = plain_items(returned)
                self._hook(
                    instance.memory, "post_query_hook", query=query.text, query_image=image, memory_context=plain
                )
        return MemoryContext(items)

    def _items(self, returned: Any, instance: _Instance, copies: Mapping[str, str]) -> list[ContextItem]:
        with self._failures("query"):  # objects of the user's classes may do anything when looked at
            try:
                return context_items(returned, instance.state_counts, Path(instance.workspace.name), copies)
            except ItemError as error:
                raise ModelCallError("memory_error", f"{self._kind.__name__}.query returned {error}") from error

    def _prepared(self, haystack: tuple[str, ...]) -> _Instance:
        if self._instance is not None and self._instance.haystack == haystack:
            return self._instance
        if haystack in self._failed:
            raise ModelCallError(*self._failed[haystack])
        self._drop()
        try:
            self._instance = self._make(haystack)
        except ModelCallError as error:
            self._failed[haystack] = (error.kind, error.detail)
            raise
        return self._instance

    def _drop(self) -> None:
        """Let go of the instance before the next one is made: of two haystacks, only one fits into memory."""
        if self._instance is not None:
            self._instance.workspace.cleanup()
            self._instance = None
            gc.collect()  # objects that refer to each other would stay until some later collection

    def _make(self, haystack: tuple[str, ...]) -> _Instance:
        workspace = tempfile.TemporaryDirectory(prefix="lmev2-plugin-", ignore_cleanup_errors=True)
        options = _fill_in(self._options, workspace.name)
        try:
            with kept_folder():
                memory = self._kind(**options)
        except (ModelCallError, *_ENDS):
            raise
        except BaseException as error:
            raise ModelSetupError(
                f"{self._kind.__name__} could not be made with the options {sorted(options)}: "
                f"{described(error)}; see the method's keys `class` and `options`"
            ) from error
        self._hook(
            memory,
            "configure_runtime",
            query_trace_dir=Path(workspace.name) / "query_traces",
            generation_temperature=None,
            generation_top_p=None,
            cancel_event=threading.Event(),
        )
        started = time.perf_counter()
        counts: dict[str, int] = {}
        for trajectory_id in haystack:
            trajectory = trajectory_object(self._store.trajectory(trajectory_id))
            counts[trajectory_id] = len(trajectory["states"])
            with self._failures("insert", f" of trajectory {trajectory_id}"):
                memory.insert(trajectory)
        seconds = time.perf_counter() - started
        _log.info("%s: %d trajectories inserted in %.1f s", self._kind.__name__, len(haystack), seconds)
        return _Instance(haystack, memory, workspace, counts)

    @contextmanager
    def _query_context(self, instance: _Instance, hints: Mapping[str, Any]) -> Iterator[None]:
        """Tell the plugin about the query for its duration, also if it fails."""
        try:
            with _untimed():
                self._hook(instance.memory, "set_query_context", **hints)
            yield
        except BaseException:
            with suppress(ModelCallError):  # what failed first is what the row reports
                self._hook(instance.memory, "clear_query_context")
            raise
        with _untimed():
            self._hook(instance.memory, "clear_query_context")

    def _hook(self, memory: Any, name: str, **offered: Any) -> None:
        """Call an optional method, if there is one, with those of the arguments that it takes."""
        with self._failures(name):
            hook = getattr(memory, name, None)
            if hook is not None:
                hook(**_accepted(hook, offered))

    @contextmanager
    def _failures(self, call: str, where: str = "") -> Iterator[None]:
        """Turn what the user's code raises into a failed memory; ``sys.exit`` and a cancelled task too, which would end
        the job. The working directory is afterwards what it was."""
        name = f"{self._kind.__name__}.{call}"
        try:
            with kept_folder():
                yield
        except ModelCallError as error:
            if (detail := readable(str(error.detail))) != error.detail:
                raise ModelCallError(error.kind, detail) from error
            raise
        except _ENDS:
            raise
        except BaseException as error:
            _log.warning("%s%s failed", name, where, exc_info=error)
            raise ModelCallError("memory_error", f"{name}{where}: {described(error)}") from error


def _load_class(class_name: str, folder: Path | None) -> type:
    try:
        source = find_source(class_name, folder)
    except PluginError as error:
        raise ModelSetupError(str(error)) from error
    module_name, _, attribute = class_name.partition(":")
    if folder is not None and str(folder.absolute()) not in sys.path:
        sys.path.insert(0, str(folder.absolute()))  # and stays: the plugin may import more while it runs
    importlib.invalidate_caches()
    try:
        with kept_folder():
            module = importlib.import_module(module_name)
    except STOPS:
        raise
    except BaseException as error:
        raise ModelSetupError(
            f"plugin {class_name!r}: importing {source} failed: {described(error)}; correct the module, "
            "or install what it needs into the environment of the run"
        ) from error
    loaded = getattr(module, "__file__", None)
    if loaded is None or Path(loaded).resolve() != source.resolve():
        raise ModelSetupError(
            f"plugin {class_name!r}: expected module {module_name!r} from {source}, but the name belongs to "
            f"{loaded or 'a module without a file'}, which was imported before; give the plugin another name"
        )
    kind = getattr(module, attribute, None)
    if not isinstance(kind, type):
        raise ModelSetupError(f"plugin {class_name!r}: {source} has no class {attribute!r}; see the key `class`")
    missing = [name for name in ("insert", "query") if not callable(getattr(kind, name, None))]
    if missing:
        raise ModelSetupError(
            f"plugin {class_name!r}: the class in {source} lacks {' and '.join(missing)}; a memory has "
            "insert(trajectory) and query(query, query_image)"
        )
    return kind


def _context_hints(query: MemoryQuery, image: str | None, invocation: str) -> dict[str, Any]:
    """Keyword arguments of ``set_query_context`` in the public harness, with nothing in them that a memory may not see.

    The question's id is replaced by a random one and its type by None; what its first release passed as the
    question's whole record, gold answer included, is cut down to text and image.
    """
    question = query.text if image is None else {"text": query.text, "image": image}
    return {
        "query_invocation_id": invocation,
        "question_id": invocation,
        "question_type": None,
        "question_item": {"question": question},
        "haystack": list(query.haystack),
    }


def _ask(query: Callable[..., Any], text: str, image: str | None) -> Any:
    """Call ``query`` as the public harness does; a class that names its second parameter otherwise gets it by place."""
    try:
        parameters = list(inspect.signature(query).parameters.values())
    except (TypeError, ValueError):
        return query(text, query_image=image)
    by_name = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if "query_image" not in by_name and len(by_place) > 1:
        default = by_place[1].default
        if default is None or default is inspect.Parameter.empty:  # not a number of results and the like
            return query(text, image)
    return query(text, query_image=image)


def _accepted(hook: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of the offered arguments that a hook takes."""
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):
        return offered
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return offered
    names = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return {name: value for name, value in offered.items() if name in names}


def _copy_image(image: Path | None, workspace: Path, name: str) -> str | None:
    """A question's image under a name that tells nothing: the data set names it after the question."""
    if image is None:
        return None
    copy = workspace / f"{name}{image.suffix}"
    shutil.copyfile(image, copy)
    return str(copy)


def _fill_in(value: Any, workspace: str) -> Any:
    """A copy of nested options with the workspace's folder in the place of ``{workspace}``."""
    if isinstance(value, Mapping):
        return {key: _fill_in(item, workspace) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill_in(item, workspace) for item in value]
    return value.replace(WORKSPACE, workspace) if isinstance(value, str) else value


@contextmanager
def _untimed() -> Iterator[None]:
    """Work inside a measured query that does not belong to its latency."""
    with collect() as aside:
        yield
    account(0.0, -aside.honest_s)  # `collect` has told the outer ledger that it counts in full
