"""How the class of a memory of the user's own is found and made, and what of its code decides about reruns."""

from __future__ import annotations

import hashlib
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugin_world import World, open_world

from lmev2.memory.base import MemoryQuery
from lmev2.memory.plugin import open_plugin
from lmev2.memory.plugin_source import PluginError, find_source, source_stamp
from lmev2.memory.settings import PluginMethod
from lmev2.models.types import ModelSetupError


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with open_world(tmp_path_factory.mktemp("plugins")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _leave_no_imports() -> Iterator[None]:
    """Modules that a test made are forgotten, so that the next may use their names."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and "pytest-" in str(sys.modules[name].__file__):
            del sys.modules[name]


def module(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


EXISTING = """
    from .base import Memory

    class Store(Memory):
        memory_type = "store"

        def __init__(self, memory_params):
            super().__init__(memory_params)
            self.runs = []

        def insert(self, trajectory):
            self.runs.append(trajectory["id"])

        def query(self, query, query_image=None):
            number = len(self.runs)
            return [{"type": "text", "value": f"{number} runs, {self.memory_params['k']}, {self.context is not None}"}]
"""
BASE = """
    class Memory:
        def __init__(self, memory_params):
            self.memory_params = dict(memory_params)
            self.context = None

        def configure_runtime(self, **kwargs):
            return None

        def set_query_context(self, **kwargs):
            self.context = dict(kwargs)

        def clear_query_context(self):
            self.context = None

        def post_query_hook(self, *, query, query_image, memory_context):
            return None
"""
SIMPLE = """
    class Simple:
        def insert(self, trajectory): pass
        def query(self, query, query_image=None): return []
"""


def method_of(class_name: str, **more: Any) -> PluginMethod:
    return PluginMethod.model_validate({"family": "plugin", "label": "Mine", "class": class_name, **more})


def test_a_class_of_the_public_harness_runs_unchanged(world: World, tmp_path: Path) -> None:
    module(tmp_path / "public_style" / "__init__.py", "")
    module(tmp_path / "public_style" / "base.py", BASE)
    module(tmp_path / "public_style" / "store.py", EXISTING)
    method = method_of("public_style.store:Store", options={"memory_params": {"k": 4}})
    memory = open_plugin(method, tmp_path, world.store)
    memory.prepare(world.web)
    assert [item.value for item in memory.query(MemoryQuery("?", None, world.web)).items] == ["3 runs, 4, True"]


def test_a_class_of_the_environment_needs_no_folder(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path / "site" / "installed_memory" / "deep" / "mine.py", SIMPLE)
    module(tmp_path / "site" / "installed_memory" / "__init__.py", "")
    module(tmp_path / "site" / "installed_memory" / "deep" / "__init__.py", "")
    module(tmp_path / "site" / "lone_memory.py", SIMPLE)
    (tmp_path / "empty").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for folder in (None, tmp_path / "empty"):
        for name in ("installed_memory.deep.mine", "lone_memory"):
            path = tmp_path.joinpath("site", *name.split(".")).with_suffix(".py")
            assert find_source(f"{name}:Simple", folder) == path
            open_plugin(method_of(f"{name}:Simple"), folder, world.store).prepare(world.web)
    assert find_source("installed_memory.deep:X", None).name == "__init__.py"


def test_the_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("site", "own"):
        module(tmp_path / place / "shadowed_memory.py", SIMPLE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert find_source("shadowed_memory:Simple", None) == tmp_path / "site" / "shadowed_memory.py"
    assert find_source("shadowed_memory:Simple", tmp_path / "own") == tmp_path / "own" / "shadowed_memory.py"


def test_finding_the_source_runs_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path / "explosive" / "__init__.py", "raise RuntimeError('imported')")
    source = module(tmp_path / "explosive" / "part.py", "raise RuntimeError('imported')")
    assert find_source("explosive.part:X", tmp_path) == source
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_source("explosive.part:X", None) == source
    assert len(source_stamp("explosive.part:X", None)["sha256"]) == 64


def test_code_that_is_not_there_says_what_was_looked_up(world: World, tmp_path: Path) -> None:
    module(tmp_path / "half_package" / "__init__.py", "")
    cases: list[tuple[str, Path | None, str]] = [
        ("no_such_memory:X", None, "found no module 'no_such_memory'; tried the environment. Give the folder"),
        ("no_such_memory:X", tmp_path, f"{tmp_path / 'no_such_memory.py'} and the environment"),
        ("half_package.gone:X", tmp_path, f"{tmp_path / 'half_package' / 'gone.py'} and the environment"),
        ("json.no_such_part:X", None, "no_such_part.py and the environment"),
        ("sys:X", None, "found no module 'sys'"),
        ("whatever:X", tmp_path / "gone", f"its path {tmp_path / 'gone'} is no folder; correct the key `path`"),
    ]
    for name, folder, message in cases:
        with pytest.raises(PluginError) as caught:
            find_source(name, folder)
        assert message in str(caught.value) and repr(name) in str(caught.value)
        with pytest.raises(ModelSetupError) as wrapped:
            open_plugin(method_of(name), folder, world.store)
        assert str(wrapped.value) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_library", r"importing .*broken_memory.py failed: ModuleNotFoundError: .*no_such_library"),
        ("class Simple", "failed: SyntaxError"),
        ("raise SystemExit(0)", "failed: SystemExit: 0"),
        ("Other = 1", "broken_memory.py has no class 'Simple'"),
        ("Simple = 1", "broken_memory.py has no class 'Simple'"),
        ("class Simple: pass", r"lacks insert and query; a memory has insert\(trajectory\) and query"),
        ("class Simple:\n    query = 3\n    def insert(self, t): pass", "lacks query;"),
    ],
)
def test_a_class_that_cannot_be_used_ends_the_job(world: World, tmp_path: Path, text: str, message: str) -> None:
    module(tmp_path / "broken_memory.py", text)
    with pytest.raises(ModelSetupError, match=message):
        open_plugin(method_of("broken_memory:Simple"), tmp_path, world.store)


def test_a_name_that_another_module_has_is_refused(world: World, tmp_path: Path) -> None:
    module(tmp_path / "textwrap.py", SIMPLE)
    with pytest.raises(ModelSetupError, match=r"expected module 'textwrap' from .*give the plugin another name"):
        open_plugin(method_of("textwrap:Simple"), tmp_path, world.store)


# What decides about reruns.


def test_the_stamp_follows_every_python_file_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "stamped"
    module(package / "__init__.py", "")
    module(package / "inner" / "__init__.py", "")
    module(package / "inner" / "mine.py", SIMPLE)
    helper = module(package / "helper.py", "x = 1")
    outside = module(tmp_path / "outside.py", "x = 1")
    name = "stamped.inner.mine:Simple"
    first = source_stamp(name, tmp_path)
    assert first["file"] == "stamped.inner.mine" and json.dumps(first)
    assert source_stamp("stamped:Simple", tmp_path)["sha256"] == first["sha256"]
    outside.write_text("x = 2", encoding="utf-8")
    (package / "notes.txt").write_text("no code", encoding="utf-8")
    assert source_stamp(name, tmp_path) == first
    helper.write_text("x = 2", encoding="utf-8")
    second = source_stamp(name, tmp_path)
    assert second != first
    helper.rename(package / "renamed.py")
    third = source_stamp(name, tmp_path)
    assert third not in (first, second)
    module(package / "inner" / "more.py", "")
    assert source_stamp(name, tmp_path) not in (first, second, third)


def test_a_module_of_its_own_is_stamped_alone(tmp_path: Path) -> None:
    source = module(tmp_path / "single_memory.py", SIMPLE)
    module(tmp_path / "other.py", "x = 1")
    stamp = source_stamp("single_memory:Simple", tmp_path)
    content = source.read_bytes()
    head = f"single_memory.py\n{len(content)}\n".encode()
    assert stamp == {"file": "single_memory", "sha256": hashlib.sha256(head + content).hexdigest()}
    module(tmp_path / "other.py", "x = 2")
    assert source_stamp("single_memory:Simple", tmp_path) == stamp
    source.write_bytes(content + b"\n")
    assert source_stamp("single_memory:Simple", tmp_path) != stamp


def test_the_stamp_does_not_depend_on_the_place(tmp_path: Path) -> None:
    stamps = []
    for place in ("one", "two"):
        module(tmp_path / place / "moved" / "__init__.py", "")
        module(tmp_path / place / "moved" / "mine.py", SIMPLE)
        stamps.append(source_stamp("moved.mine:Simple", tmp_path / place))
    assert stamps[0] == stamps[1]
    with pytest.raises(PluginError):
        source_stamp("moved.gone:Simple", tmp_path / "one")
