"""The configuration refuses what it does not know, and says where."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

from lmev2.cli import config_schema
from lmev2.config import ConfigError, load_config, merge_config, read_config, resolve_methods
from lmev2.memory.settings import RagMethod


@pytest.fixture
def raw(project: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((project / "config.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_default_is_valid_and_shows_every_key(raw: dict[str, Any]) -> None:
    config = load_config(raw)
    assert set(raw) == set(type(config).model_fields)
    for section in ("data", "run", "shards", "goals", "pools", "render", "errors", "timing"):
        assert set(raw[section]) == set(type(getattr(config, section)).model_fields), section


def test_methods_inherit(raw: dict[str, Any]) -> None:
    method = load_config(raw).methods["rag_slice_notes"]
    assert isinstance(method, RagMethod)
    assert method.tables() == ["procedure_note", "hint_note", "raw_state"]
    assert method.top_k.raw_state == 6
    assert method.label == "RAG: query -> slice + notes"


def test_inheriting_in_a_circle_or_from_nowhere_is_refused() -> None:
    with pytest.raises(ConfigError, match="circle: a -> b -> a"):
        resolve_methods({"a": {"inherits": "b"}, "b": {"inherits": "a"}})
    with pytest.raises(ConfigError, match=r"methods\.a inherits 'gone'.*known: \['a'\]"):
        resolve_methods({"a": {"inherits": "gone"}})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"run": {"questoins": 3}}, r"run\.questoins: Extra inputs are not permitted \(found 3\)"),
        ({"methods": {"rag_slice": {"topk": 5}}}, r"methods\.rag_slice.*topk: Extra inputs"),
        ({"run": {"methods": ["rag_slyce"]}}, r"run\.methods names \['rag_slyce'\]"),
        ({"run": {"tiers": ["large"]}}, r"run\.tiers\.0: Input should be 'small' or 'medium'"),
        ({"run": {"methods": ["rag_slice", "rag_slice"]}}, "must not name anything twice"),
        ({"shards": {"questions": 0}}, r"shards\.questions: .*greater than or equal to 1"),
        ({"models": {"reader": {"backend": "llamacpp"}}}, r"models\.reader\.backend"),
        ({"data": {"hub": {"revision": "main"}}}, r"data\.hub\.revision"),
        ({"models": {"reader": {"backend": "rules"}}}, r"models\.reader: .*rules is no model"),
        ({"models": {"reader": {"backend": "openai"}}}, r"models\.reader: .*needs `tokenizer`"),
        ({"models": {"reader": {"images": True}}}, r"models\.reader: .*reads no images"),
        ({"models": {"reader": {"context_tokens": 9000}}}, r"do not fit context_length 8192"),
        ({"models": {"judge": {"file": None}}}, r"models\.judge: .*needs `file`"),
        ({"methods": {"../escape": {"family": "none", "label": "x"}}}, r"methods\.\.\./escape"),
        ({"methods": {"rag_slice_notes": {"label": "RAG: query -> slice"}}}, "must have different labels"),
        ({"methods": {"rag_slice": {"inherits": ["no_retrieval"]}}}, r"rag_slice\.inherits must name one method"),
        ({"results": "~/results"}, "results"),
        ({"data": {"hub": {"revision": "a" * 40}}}, "would overwrite the shipped data"),
        ({"data": {"root": "x", "hub": {"repo": "a/b"}}}, "full commit id"),
        ({"methods": {"rag_slice": {"pools": ["raw_state", "raw_state"]}}}, r"named twice"),
        (
            {"methods": {"rag_slice": {"search": {"full_texts": True}}}},
            r"rag_slice\.rag\.search\.full_texts: Extra inputs",
        ),
        (
            {"methods": {"rag_slice": {"search": {"vectors": "page"}}}},
            r"search\.vectors: Input should be 'slice', 'center'",
        ),
        ({"methods": {"rag_slice": {"rerank": {"candidate": 8}}}}, r"rag_slice\.rag\.rerank\.candidate: Extra inputs"),
        ({"methods": {"rag_slice": {"queries": "written"}}}, r"queries: Input should be 'question' or 'generated'"),
        ({"methods": {"rag_slice": {"pools": ["notes"]}}}, r"pools\.0: Input should be 'note', 'event' or 'raw_state'"),
        ({"methods": {"rag_slice": None}}, r"\['rag_slice'\] are not"),
        ({"methods": {"rag_slice": {"question_type": False}}}, r"keys without effect: question_type"),
        ({"methods": {"rag_slice": {"search": {"rrf_k": 9}}}}, r"keys without effect: search\.rrf_k"),
        (
            {"methods": {"agentrunbook_r_no_raw": {"search": {"vectors": "chunk"}}}},
            r"keys without effect: search\.vectors or search\.distinct, without the pool raw_state",
        ),
        ({"methods": {"rag_slice": {"compare_with": ["rag_slice"]}}}, r"compare_with names the method itself"),
        ({"methods": {"rag_slice": {"compare_with": ["rag"]}}}, r"not defined: {.*'rag'"),
        (
            {"models": {"controller": {"model": "Qwen3.5-9B"}}},
            r"backend rules calls no model, but model is 'Qwen3.5-9B'",
        ),
        ({"models": {"embedder": {"backend": "openai"}}}, r"backend openai needs `tokenizer`"),
        ({"models": {"controller": {"modle": "x"}}}, r"models\.controller\.modle: Extra inputs"),
        ({"models": {"controller": {"label_attempts": 3}}}, r"models\.controller\.label_attempts: Extra inputs"),
        ({"models": {"controller": {"backend": "llama_cpp"}}}, r"models\.controller: .*needs `file`"),
        ({"pools": {"event": {"changed_chars": 300}}}, r"pools\.event\.changed_chars: Extra inputs"),
        ({"pools": {"note": {"reply_chars": 9999}}}, r"pools\.note\.reply_chars: .*less than or equal to 500"),
        ({"pools": {"chunk": {"chars": 200}}}, r"overlap_chars 150 is more than half of chars 200"),
    ],
)
def test_mistakes_are_named_with_their_place(raw: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(merged(raw, change))


RERANKED = {"methods": {"rag_slice": {"rerank": {"candidates": 8}}}}


def test_reranking_by_rules_is_refused_and_says_what_to_do(raw: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(merged(raw, RERANKED))
    # Rows that inherit it are named as well; both ways out are told.
    for part in ("rag_slice", "rag_slice_notes", "rag_hybrid", "models.controller.backend is rules", "leave `rerank`"):
        assert part in str(refused.value)
    assert "agentrunbook_r" not in str(refused.value).partition("rerank,")[0]


def test_reranking_takes_a_model_only_where_it_is_run(raw: dict[str, Any]) -> None:
    assert load_config(merged(raw, {**RERANKED, "run": {"methods": ["no_retrieval", "agentrunbook_r"]}}))
    model = {"backend": "scripted", "script": "replies.jsonl", "model": "m"}
    config = load_config(merged(raw, {**RERANKED, "models": {"controller": model}}))
    method = config.methods["rag_slice_notes"]
    assert isinstance(method, RagMethod) and method.rerank is not None
    assert (method.rerank.candidates, method.rerank.keep_raw_state, method.rerank.keep_other) == (8, 2, 3)


def test_goals_by_a_model_take_one(raw: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"goals\.mode is model, but models\.controller\.backend is rules"):
        load_config(merged(raw, {"goals": {"mode": "model"}}))
    model = {"backend": "scripted", "script": "replies.jsonl", "model": "m"}
    assert load_config(merged(raw, {"goals": {"mode": "model"}, "models": {"controller": model}}))
    for mode in ("rules", "check"):
        assert load_config(merged(raw, {"goals": {"mode": mode}})).goals.mode == mode
    with pytest.raises(ConfigError, match=r"goals\.mode"):
        load_config(merged(raw, {"goals": {"mode": "off"}}))


def test_the_schema_on_disk_is_the_models(project: Path) -> None:
    text = (project / "workflow" / "schemas" / "config.schema.json").read_text(encoding="utf-8")
    assert text == config_schema() + "\n", "run `make schema`"


def test_null_from_the_command_line_is_no_value(raw: dict[str, Any]) -> None:
    assert load_config(merged(raw, {"run": {"questions": "null"}})).run.questions is None


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    result = copy.deepcopy(base)
    for key, value in change.items():
        nested = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if nested else value
    return result


LEAVES = st.none() | st.booleans() | st.integers() | st.text("ab", max_size=2) | st.lists(st.integers(), max_size=2)
TREES = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(LEAVES, lambda below: st.dictionaries(st.sampled_from("abc"), below, max_size=3), max_leaves=8),
    max_size=3,
)


@given(base=TREES, over=TREES)
def test_configurations_are_merged_as_snakemake_does(base: dict[str, Any], over: dict[str, Any]) -> None:
    expected = copy.deepcopy(base)
    update_config(expected, copy.deepcopy(over))
    kept = copy.deepcopy(base)
    assert merge_config(base, over) == expected
    assert base == kept


def test_files_are_read_in_order_as_snakemake_reads_them(tmp_path: Path) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.json"
    first.write_text("a: {b: 1, c: [1, 2]}\nd: null\ne: 1e3\nf: yes\n", encoding="utf-8")
    second.write_text('{"a": {"c": [3]}, "g": "\\u00e9"}', encoding="utf-8")
    expected: dict[str, Any] = {}
    for file in (first, second):
        update_config(expected, load_configfile(str(file)))
    assert read_config([first, second]) == expected == {**expected, "a": {"b": 1, "c": [3]}, "g": "\u00e9"}
    assert read_config([]) == {}


@pytest.mark.parametrize(("text", "message"), [("- a", "at its top"), ("", "at its top"), ("a: [", "is not YAML")])
def test_a_file_without_keys_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "wrong.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_config([tmp_path / "wrong.yaml"])
    with pytest.raises(ConfigError, match=r"cannot read the configuration file .*gone\.yaml"):
        read_config([tmp_path / "gone.yaml"])


@pytest.mark.parametrize(
    "text",
    [
        "run: &a [*a]",
        "run: &a {b: *a}",
        "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
        "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]",
        "run: " + "[" * 200 + "]" * 200,
        "run: " + "[" * 5_000,
        "run: !!int ''",
        "run: !!float x",
        "run: !!bool maybe",
        "run: !!timestamp soon",
        "run: 2001-99-99",
        "cache: 0x" + "f" * 5_000,
        "run: {seed: .nan}",
    ],
)
def test_odd_yaml_is_a_config_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"odd\.yaml"):
        read_config([file])


@pytest.mark.parametrize("value", [16**5_000, float("inf"), float("nan")], ids=["huge", "infinite", "none"])
def test_numbers_that_cannot_be_kept_are_refused_with_their_place(raw: dict[str, Any], value: float) -> None:
    raw["pools"]["slice_radius"] = value
    with pytest.raises(ConfigError, match=r"pools\.slice_radius"):
        load_config(raw)


def test_rows_with_names_of_other_types_are_config_errors(raw: dict[str, Any]) -> None:
    raw["methods"] |= {1: {"inherits": "nothing"}, None: {}}
    with pytest.raises(ConfigError, match="inherits 'nothing', which is not defined"):
        load_config(raw)
    rows: dict[str, Any] = {f"m{number}": {"inherits": f"m{number + 1}"} for number in range(5_000)}
    with pytest.raises(ConfigError, match="over more than"):
        resolve_methods({**rows, "m5000": {}})
