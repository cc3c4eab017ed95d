"""``lmev2 plan``: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from dataroot import SHARED_DATA, DataRoot, make_data_root

from lmev2.cli import main
from lmev2.cli_plan import compact
from lmev2.terminal import display_width

OFFICIAL = SHARED_DATA / "lme_v2_official"
MODEL = {"backend": "openai", "file": None, "quantize": None, "sampling": {"max_tokens": 4096}}
PRICE = {"price": {"input": 2.0, "cached_input": 0.5, "output": 8.0}}
RATE = {"throughput": {"prompt": 5000, "completion": 500, "gpus": 2}}


@pytest.fixture
def root(tmp_path: Path) -> DataRoot:
    return make_data_root(tmp_path / "root")


def write(path: Path, value: Any) -> Path:
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    return path


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A configuration with a priced judge, a served controller, and a reader of which nothing is known."""
    models = {
        "reader": {**MODEL, "model": "reader", "tokenizer": "some/reader", "reply_format": "free"},
        "judge": {**MODEL, **PRICE, "model": "judge"},
        "controller": {**MODEL, **RATE, "model": "writer"},
    }
    run = {"methods": ["rag_slice_notes", "agentrunbook_r"], "tiers": ["small"], "questions": None}
    return write(tmp_path / "served.yaml", {"models": models, "run": run})


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main(["plan", *map(str, arguments), "--json"]) == 0
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def run_text(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["plan", *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_hours_and_money_are_summed_where_they_are_known(
    capsys: pytest.CaptureFixture[str], root: DataRoot, served: Path
) -> None:
    value = run_json(capsys, "--data-root", root.path, "--configfile", served)
    stages = {stage["stage"]: stage for stage in value["stages"]}
    events = stages["Events"]
    seconds = events["prompt_tokens"] / 5000 + events["completion_tokens"] / 500
    assert events["gpu_hours"] == pytest.approx(2 * seconds / 3600, rel=0.01) and events["money"] == 0
    judge = stages["Judge"]
    cost = (judge["prompt_tokens"] * 2 + judge["completion_tokens"] * 8) / 1e6
    assert judge["money"] == pytest.approx(cost, rel=0.01) and judge["gpu_hours"] == 0
    assert (stages["Reader"]["gpu_hours"], stages["Reader"]["money"]) == (None, None)
    total = value["total"]
    assert total["money"] == {"USD": pytest.approx(judge["money"])}
    assert total["money_unknown_for"] == total["gpu_hours_unknown_for"] == ["Reader"]
    assert total["calls"] == sum(stage["calls"] for stage in value["stages"])
    for stage in value["stages"]:
        assert stage["calls"] == sum(part["calls"] for part in stage["parts"].values())


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_text_fits_the_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    root: DataRoot,
    served: Path,
    columns: int,
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    text = run_text(capsys, "--data-root", root.path, "--configfile", served, "--details")
    wide = [line for line in text.splitlines() if display_width(line) > max(columns, 72)]
    assert wide == []


def test_the_text_says_what_is_unknown_and_what_is_assumed(
    capsys: pytest.CaptureFixture[str], root: DataRoot, served: Path
) -> None:
    text = run_text(capsys, "--data-root", root.path, "--configfile", served, "--assume", "event_tokens=99")
    words = " ".join(text.split())
    assert "GPU hours: unknown (?) without models.reader.throughput; not in the total." in words
    assert "Money: unknown (?) without models.reader.price; not in the total." in words
    assert "event_tokens" in words and "99: as given (default 250: reply with one event" in words
    assert "5,000 tokens/s read and 500 written by 2 GPUs (as configured)" in words
    assert "2.0 in, 0.5 cached, 8.0 out per million tokens, USD (as configured)" in words
    assert "Memory is made once per trajectory" in words
    # What the data tells is not assumed, and what is not asked is not either.
    assert "states_per_trajectory" not in words and "agent_requests" not in words and "oracle_states" not in words
    (row,) = [line for line in text.splitlines() if line.startswith("Reader ")]
    assert row.split()[-2:] == ["?", "?"]


def test_unknown_prices_are_named_by_their_keys(
    capsys: pytest.CaptureFixture[str], root: DataRoot, served: Path, tmp_path: Path
) -> None:
    reader = {**MODEL, "model": "third", "tokenizer": "some/reader", "context_tokens": 1000}
    pilots = {"readers": {"third": reader}, "table6": {"readers": ["third"]}}
    further = write(tmp_path / "further.yaml", {"judges": {"second": {**MODEL, "model": "m"}}, "pilots": pilots})
    text = run_text(capsys, "--data-root", root.path, "--configfile", served, "--configfile", further)
    words = " ".join(text.split())
    assert "without models.reader.price, pilots.readers.third.price, judges.second.price; not in the total" in words


def test_a_total_of_nothing_is_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    free = {"backend": "scripted", "file": None, "quantize": None, "script": "replies.jsonl", "model": "m"}
    models = {"reader": {**free, "reply_format": "free"}, "judge": free}
    file = write(tmp_path / "free.yaml", {"models": models})
    lines = run_text(capsys, "--configfile", file).splitlines()
    stages = [line for line in lines if line.startswith(("Embedding", "Query", "Reader", "Judge", "Total"))]
    assert len(stages) == 5 and all(line.split()[-2:] == ["-", "-"] for line in stages)


@pytest.mark.parametrize(
    ("tokenizer", "text"), [("a/b/c", "'a/b/c' is neither a file nor a hub id"), ("no/such.json", "no tokenizer file")]
)
def test_a_tokenizer_that_is_none_leaves_the_assumption(
    capsys: pytest.CaptureFixture[str], root: DataRoot, served: Path, tmp_path: Path, tokenizer: str, text: str
) -> None:
    other = write(tmp_path / "other.yaml", {"models": {"reader": {"tokenizer": tokenizer}}})
    arguments = "--data-root", root.path, "--configfile", served, "--configfile", other
    words = " ".join(run_text(capsys, *arguments).split())
    assert f"models.reader: characters per token are assumed, for lack of a tokenizer: {text}" in words
    ratio = run_json(capsys, *arguments)["chars_per_token"]["reader"]
    assert ratio["prose"] == 4.2 and ratio["measured"] == [] and text in ratio["fault"]


def test_without_trajectories_the_assumptions_say_so(
    capsys: pytest.CaptureFixture[str], root: DataRoot, served: Path
) -> None:
    (root.path / "trajectories.jsonl").unlink()
    text = run_text(capsys, "--data-root", root.path, "--configfile", served, "--states-per-trajectory", "5")
    words = " ".join(text.split())
    assert "which has no trajectories" in words and "6 trajectories with 30 states (assumed)" in words
    assert "states_per_trajectory 5: as given (default 27" in words
    value = run_json(capsys, "--data-root", root.path, "--configfile", served, "--tree-chars", "9000")
    assert value["assumptions"]["tree_chars"]["value"] == 9000 and value["assumptions"]["tree_chars"]["used"]
    assert not value["data"]["trajectories_known"]


def test_the_default_run_has_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    value = run_json(capsys)
    assert value["data"]["trajectories_known"] and value["data"]["questions"] == 16
    assert {stage["stage"] for stage in value["stages"]} == {
        "Embedding of pools",
        "Query embedding",
        "Reader",
        "Judge",
    }
    # The embedded reader's tokenizer ships with it.
    assert value["chars_per_token"]["reader"]["measured"] == ["prose", "tree"]


def test_the_paper_on_the_official_questions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    if not OFFICIAL.is_dir():
        pytest.skip("needs ../shared/data/lme_v2_official, which lies beside a development checkout only")
    value = run_json(capsys, "--data-root", OFFICIAL, "--configfile", project / "config" / "paper.yaml")
    assert value["data"] | {"source": ""} == {
        "source": "",
        "trajectories_known": False,
        "questions": 451,
        "judged_questions": 156,
        "trajectories": 1473,
        "states": 27 * 1473,
    }
    calls = {stage["stage"]: stage["calls"] for stage in value["stages"]}
    assert calls["Notes"] == 1473 and calls["Events"] == 26 * 1473
    assert calls["Query generation"] == 4 * 2 * 451
    assert calls["Reader"] == 451 + 11 * 2 * 451
    assert calls["Judge"] == 156 + 11 * 2 * 156
    # docs/cost.md shows this plan.
    text = run_text(capsys, "--data-root", OFFICIAL, "--configfile", project / "config" / "paper.yaml")
    shown = (project / "docs" / "cost.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("Stage"))
    for line in lines[start : next(n for n, line in enumerate(lines) if line.startswith("Total")) + 1]:
        assert f"    {line}\n" in shown


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--assume", "nothing=1"], "there is no assumption nothing"),
        (["--assume", "nothing"], "'nothing' is not NAME=VALUE"),
        (["--tree-chars", "0"], "tree_chars=0"),
        (["--assume", "agent_requests=inf"], "agent_requests=inf"),
        (["--assume", "thinking_tokens=1e300"], "thinking_tokens=1e300"),
        (["--assume", "chars_per_token=1e-320"], "chars_per_token=1e-320"),
        (["--assume", "agent_cached_share=nan"], "agent_cached_share=nan"),
        (["--states-per-trajectory", "many"], "states_per_trajectory=many"),
        (["--configfile", "nowhere.yaml"], "cannot read the configuration file nowhere.yaml"),
        (["--nothing"], "unrecognized arguments: --nothing"),
    ],
)
def test_wrong_commands_end_with_2(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plan", *arguments])
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_unknown_keys_of_the_configuration_end_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = write(tmp_path / "wrong.yaml", {"models": {"judge": {"prize": {"input": 1}}}})
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--configfile", str(file)])
    assert ended.value.code == 2
    assert "models.judge.prize" in capsys.readouterr().err


def test_missing_or_bad_data_ends_with_1(capsys: pytest.CaptureFixture[str], root: DataRoot, tmp_path: Path) -> None:
    assert main(["plan", "--data-root", str(tmp_path / "nowhere")]) == 1
    assert "found no data root" in capsys.readouterr().err
    root.replace_line("questions.jsonl", 2, b"{\n")
    assert main(["plan", "--data-root", str(root.path)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "questions.jsonl, line 2" in err


def test_nothing_is_written(
    root: DataRoot, served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    run_json(capsys, "--data-root", root.path, "--configfile", served)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1234, "1.23K"), (45_600_000, "45.6M"), (1.5e9, "1.50B"), (183e9, "183B")],
)
def test_numbers_are_short(number: float, text: str) -> None:
    assert compact(number) == text
