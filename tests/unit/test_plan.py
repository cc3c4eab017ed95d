"""Params that decide about reruns: canonical specs, and fingerprints that see code but not comments."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmev2 import plan as plan_module
from lmev2.config import ConfigError, load_config
from lmev2.plan import MODULES, Plan, code_fingerprint


def make_plan(project: Path, **changes: Any) -> Plan:
    raw = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if isinstance(value, dict) else value
    return Plan(load_config(raw), project)


WILDCARDS = {"shard": "0of2", "qshard": "0of1", "pool": "raw_state", "method": "rag_slice", "tier": "small"}


def test_every_rule_with_a_spec_has_a_module(project: Path) -> None:
    plan = make_plan(project)
    for rule in MODULES:
        assert len(plan.code(rule)) == 16
        json.loads(plan.spec(rule, WILDCARDS))


def specs(plan: Plan) -> dict[str, str]:
    return {rule: plan.spec(rule, WILDCARDS) for rule in MODULES}


def changed(before: Plan, after: Plan) -> set[str]:
    old, new = specs(before), specs(after)
    rules = {rule for rule in MODULES if old[rule] != new[rule]}
    # The database keeps all settings of the run, so it is written anew whenever one of them changes.
    return rules - {"collect_scores"}


def test_a_setting_reaches_only_the_rules_that_it_can_change(project: Path) -> None:
    base = make_plan(project)
    models = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))["models"]

    def with_model(role: str, **values: Any) -> Plan:
        return make_plan(project, models={role: {**models[role], **values}})

    assert changed(base, make_plan(project, run={"questions": 12})) == {"select_questions"}
    assert changed(base, make_plan(project, pools={"slice_radius": 2})) == {"build_raw_state"}
    assert changed(base, make_plan(project, render={"slice_chars": 700})) == {"query_memory"}
    assert changed(base, with_model("judge", label_attempts=5)) == {"score_answers"}
    assert changed(base, with_model("reader", context_tokens=99)) == {"read_answers"}
    assert changed(base, with_model("embedder", query_instruction="Find it.")) == {"query_memory"}
    assert changed(base, with_model("embedder", max_tokens=99)) == {"embed_pool", "query_memory"}
    # How calls are made changes no output.
    assert changed(base, with_model("reader", concurrency=9, retries=9, timeout_s=9, endpoint="OTHER")) == set()
    assert changed(base, make_plan(project, cache="elsewhere")) == set()
    elsewhere, fewer = make_plan(project, cache="elsewhere"), make_plan(project, run={"questions": 12})
    assert base.spec("collect_scores") == elsewhere.spec("collect_scores") != fewer.spec("collect_scores")
    assert changed(base, make_plan(project, errors={"allow": 3})) == {"query_memory", "read_answers", "score_answers"}
    assert changed(base, with_model("embedder", batch_size=3)) == set()


def test_a_rules_code_covers_the_backend_that_it_calls(project: Path) -> None:
    models = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))["models"]
    other = {**models["judge"], "backend": "openai", "file": None}
    base, hosted = make_plan(project), make_plan(project, models={"judge": other})
    assert {rule for rule in MODULES if base.code(rule) != hosted.code(rule)} == {"score_answers"}


def test_an_outline_is_the_same_on_every_python() -> None:
    source = 'def f[T](x: T) -> T:\n    """Doc."""\n    return x\n' if sys.version_info >= (3, 12) else ""
    plain = "def f(x):\n    return x + 1\n"
    expected = (
        "Module(body=[FunctionDef(name='f',args=arguments(args=[arg(arg='x')]),"
        "body=[Return(value=BinOp(left=Name(id='x',ctx=Load()),op=Add(),right=Constant(value=1)))])])"
    )
    assert plan_module._outline(ast.parse(plain)) == expected
    assert "type_params" in plan_module._outline(ast.parse(source)) or not source


def test_a_changed_model_file_changes_the_spec(project: Path, tmp_path: Path) -> None:
    models = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))["models"]
    file = tmp_path / "model.gguf"
    file.write_bytes(b"one")
    first = make_plan(project, models={"reader": {**models["reader"], "file": str(file)}})
    before = first.spec("read_answers", WILDCARDS)
    file.write_bytes(b"another")
    assert first.spec("read_answers", WILDCARDS) != before


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small package in place of the library: a imports b inside a function, b imports nothing, c stands alone."""
    files = {
        "__init__.py": '"""Package."""\n',
        "a.py": '"""A."""\n\n\ndef f():\n    from lmev2.b import g\n\n    return g()\n',
        "b.py": "def g():\n    return 1\n",
        "c.py": "X = 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(plan_module, "_SOURCE", tmp_path)
    return tmp_path


def fingerprint(module: str) -> str:
    for cached in (plan_module._tree, plan_module._syntax_digest, plan_module._direct_imports):
        cached.cache_clear()
    return code_fingerprint(module)


def test_fingerprints_follow_imports_and_ignore_comments(package: Path) -> None:
    a, c = fingerprint("lmev2.a"), fingerprint("lmev2.c")
    (package / "b.py").write_text('"""Doc."""\n# why\ndef g():\n    """Doc."""\n    return  (1)\n', encoding="utf-8")
    assert fingerprint("lmev2.a") == a
    (package / "b.py").write_text("def g():\n    return 2\n", encoding="utf-8")
    assert fingerprint("lmev2.a") != a
    assert fingerprint("lmev2.c") == c
    with pytest.raises(ModuleNotFoundError, match=r"lmev2\.gone"):
        fingerprint("lmev2.gone")


@pytest.fixture(autouse=True)
def _forget_trees() -> Any:
    yield
    for cached in (plan_module._tree, plan_module._syntax_digest, plan_module._direct_imports):
        cached.cache_clear()


def test_a_missing_data_root_or_file_is_named(project: Path, tmp_path: Path) -> None:
    plan = make_plan(project, data={"root": str(tmp_path / "nothing")})
    with pytest.raises(ConfigError, match=r"no folder .*nothing"):
        plan.data_files()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "questions.jsonl").touch()
    with pytest.raises(ConfigError, match=r"half lacks trajectories\.jsonl, haystacks/lme_v2_small\.json"):
        make_plan(project, data={"root": str(tmp_path / "half")}).data_files()
