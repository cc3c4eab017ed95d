"""``lmev2 ask``: evidence and answers of a small finished run, what it lacks, and what a terminal is given."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from unit.askworld import ANSWER, METHODS, AskWorld, make_world
from unit.dataroot import make_id, write_png

from lmev2.ask_run import default_method, making_command, open_plan, stale_settings
from lmev2.cli import main
from lmev2.data.store import StateStore
from lmev2.memory.families import Tools, open_indexes, open_memory
from lmev2.memory.query import query_of
from lmev2.models.cache import CallCache
from lmev2.models.factory import make_embedder
from lmev2.models.settings import EmbedderSettings
from lmev2.tables.methods import write_methods
from lmev2.terminal import display_width

QUESTION = "Which code does the page of record 2 show?"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> AskWorld:
    return make_world(tmp_path_factory.mktemp("ask"))


@pytest.fixture
def world(shared: AskWorld) -> Iterator[AskWorld]:
    """The run with its plain configuration; tests may write another and add files that they name here."""
    shared.configure()
    yield shared
    for name in ("methods.yaml", "provenance.json"):
        (shared.results / name).unlink(missing_ok=True)


def asked(
    world: AskWorld, capsys: pytest.CaptureFixture[str], *more: str, question: str = QUESTION, status: int = 0
) -> tuple[str, str]:
    """What was printed."""
    assert main(["ask", question, *world.arguments(*more)]) == status
    return capsys.readouterr()


def value_of(world: AskWorld, capsys: pytest.CaptureFixture[str], *more: str, question: str = QUESTION) -> Any:
    return json.loads(asked(world, capsys, "--json", *more, question=question)[0])


@pytest.mark.parametrize("method", METHODS)
def test_every_family_answers(world: AskWorld, capsys: pytest.CaptureFixture[str], method: str) -> None:
    out, err = asked(world, capsys, "--method", method)
    assert f"Question   {QUESTION}\n" in out and "Answer     the reader's answer\n" in out
    assert "Haystack   8 trajectories of the run (4 enterprise, 4 web), 32 states\n" in out
    assert re.search(r"^Retrieval  \d+\.\d\d s", out, re.MULTILINE)
    assert "Retrieving …\n" in err and "Reading with scripted-reader …\n" in err and "…\n" not in out[:200]
    value = value_of(world, capsys, "--method", method)
    assert value["method"] == method and value["answer"]["parsed"] == "the reader's answer"
    assert value["answer"]["reply"] == ANSWER and value["answer"]["replayed"] in (True, False)
    assert bool(value["evidence"]) == (method != "none") == ("Evidence: none" not in out)


def test_the_evidence_is_what_the_method_finds(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    value = value_of(world, capsys, "--method", "rag", "--no-answer")
    plan = open_plan([world.overlay], None)
    spec = json.loads(plan.spec("query_memory", {"method": "rag", "tier": "small", "qshard": "0of1"}))
    settings = EmbedderSettings.model_validate(plan.role_settings("embedder", spec["embedder"]))
    folder = world.results / "index"
    tables = plan.method_tables("rag")
    indexes = open_indexes([folder / f"{name}.lance" for name in tables], [folder / f"{name}.json" for name in tables])
    goals = world.results / "goals"
    with StateStore(goals / "states.parquet", goals / "trajectories.parquet") as store:
        tools = Tools(
            indexes, store, lambda: make_embedder(settings, CallCache(plan.cache), 1), lambda: None, plan.path
        )
        row = {"question_id": "q", "question": QUESTION, "question_type": None, "image": None}
        context = open_memory(spec, tools).query(query_of(row, {"q": store.trajectory_ids}, spec))
        urls = {
            (name, one.state_index): one.url for name in store.trajectory_ids for one in store.trajectory(name).states
        }
    assert value["queries"] == context.queries
    texts = [item for item in context.items if item.type == "text"]
    assert [one["text"] for one in value["evidence"]] == [item.value for item in texts]
    assert [one["similarity"] for one in value["evidence"]] == pytest.approx([item.score for item in texts])
    images = [item.value for item in context.items if item.type == "image"]
    assert [path for one in value["evidence"] for path in one["images"]] == images
    assert sum(len(one["items"]) for one in value["evidence"]) == len(context.items)
    for one in value["evidence"]:
        for page in one["pages"]:
            assert page["state_index"] in one["states"]
            assert page["url"] == urls[one["trajectory_id"], page["state_index"]]
    assert {one["pool"] for one in value["evidence"]} == {"procedure_note", "hint_note", "raw_state"}


def test_an_event_names_its_two_states(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    question = "What appears after I click the link Next page 1?"
    value = value_of(world, capsys, "--method", "runbook", "--no-answer", question=question)
    events = [one for one in value["evidence"] if one["pool"] == "event"]
    assert events
    for one in events:
        pre, post = one["states"]
        assert post == pre + 1 and f"states {pre} -> {post})" in one["text"]
        assert [page["state_index"] for page in one["pages"]] == [post] and one["excerpt"]
    assert value["query_origin"] == "rules" and set(value["queries"]) == {"note", "event", "raw_state"}


def test_a_domain_a_question_and_a_tier_choose_the_haystack(
    world: AskWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {run["id"]: run["domain"] for run in world.root.trajectories}
    web = value_of(world, capsys, "--domain", "web", "--no-answer")
    assert web["haystack"] == {"trajectories": 4, "states": 16, "domains": {"web": 4}, "like": None, "tier": None}
    assert {runs[one["trajectory_id"]] for one in web["evidence"]} == {"web"}
    question = world.root.questions[1]
    for tier, more in (("small", []), ("small", ["--tier", "small"]), ("medium", ["--tier", "medium"])):
        value = value_of(world, capsys, "--like", question["id"], *more, "--no-answer")
        ids = world.root.haystacks(tier)[question["id"]]
        assert value["haystack"] == {
            "trajectories": len(ids),
            "states": 4 * len(ids),
            "domains": {question["domain"]: len(ids)},
            "like": question["id"],
            "tier": tier,
        }
        assert {one["trajectory_id"] for one in value["evidence"]} <= set(ids)


@pytest.mark.parametrize("domain", ["web", "enterprise"])
def test_the_readers_prompt_is_the_domains(world: AskWorld, capsys: pytest.CaptureFixture[str], domain: str) -> None:
    mixed = value_of(world, capsys)
    first = next(one["trajectory_id"] for one in mixed["evidence"])
    runs = {run["id"]: run["domain"] for run in world.root.trajectories}
    assert mixed["answer"]["prompt_domain"] == runs[first]
    assert value_of(world, capsys, "--domain", domain)["answer"]["prompt_domain"] == domain
    assert value_of(world, capsys, "--domain", domain, "--method", "none")["answer"]["prompt_domain"] == domain


def test_an_image_reaches_memory_and_reader(
    world: AskWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_png(tmp_path / "asked.png", 3)
    value = value_of(world, capsys, "--image", str(tmp_path / "asked.png"))
    assert value["image"] == str(tmp_path / "asked.png")
    plain = value_of(world, capsys)
    assert value["answer"]["images_left_out"] == plain["answer"]["images_left_out"] + 1  # a reader without images


def test_without_a_method_the_first_retrieval_row_is_asked(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Method     Slices and notes (rag)\n" in asked(world, capsys)[0]
    plan = open_plan([world.overlay], None)
    assert default_method(plan) == "rag"
    plan.config.run.methods[:] = ["none", "own"]
    assert default_method(plan) == "none"


def test_no_answer_calls_no_reader(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.configure(reader={"script": str(world.folder / "nowhere.jsonl")})
    out, err = asked(world, capsys, "--no-answer")
    assert "Answer" not in out and "Reading" not in out + err and "Retrieval  " in out
    _, err = asked(world, capsys, status=1)
    assert "rag could not answer: " in err and "nowhere.jsonl" in err


def test_a_failed_reader_is_told_and_the_evidence_still_shown(
    world: AskWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    script = world.folder / "failing.jsonl"
    script.write_text(json.dumps({"match": "### Question", "text": "cut", "finish_reason": "length"}) + "\n")
    world.configure(reader={"script": str(script), "model": "failing"})
    out, _ = asked(world, capsys, status=1)
    assert "Answer     none: length, " in out and "similarity" in out


def test_how_much_is_shown(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(value_of(world, capsys, "--no-answer")["evidence"])
    heads = re.compile(r"^ *\d+\. (?:procedure_note|hint_note|raw_state), similarity", re.MULTILINE)
    assert count > 5
    for shown, more in ((5, []), (2, ["--show", "2"]), (count, ["--show", "0"]), (count, ["--show", "99"])):
        out, _ = asked(world, capsys, "--no-answer", *more)
        assert len(heads.findall(out)) == shown
        assert (f"{shown} shown (--show 0: all)" in out) == (shown < count)


def test_no_pool_hides_the_others(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    question = "What appears after I click the link Next page 1?"
    value = value_of(world, capsys, "--method", "runbook", "--no-answer", question=question)
    first = {one["pool"]: one["rank"] for one in reversed(value["evidence"])}
    out, _ = asked(world, capsys, "--method", "runbook", "--no-answer", "--show", str(len(first)), question=question)
    shown = re.findall(r"^ *(\d+)\. (\w+), similarity", out, re.MULTILINE)
    assert shown == [(str(rank), pool) for pool, rank in sorted(first.items(), key=lambda pair: pair[1])]
    assert len(first) == 4


def test_what_the_reader_was_not_shown_is_marked(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.configure(reader={"context_tokens": 60})
    out, _ = asked(world, capsys, "--show", "0")
    value = value_of(world, capsys)
    dropped = value["answer"]["items_dropped"]
    kept = value["answer"]["items_before"] - dropped
    assert dropped > 0
    unseen = sum(one["items"][0] >= kept for one in value["evidence"])
    assert out.count("not shown to the") + out.count("not shown to\n") >= unseen > 0
    assert f"{dropped} of {value['answer']['items_before']} items left out" in " ".join(out.split())


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("method", METHODS)
def test_the_text_fits_the_terminal(
    world: AskWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, method: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for shown in ("0", "1"):
        out, _ = asked(world, capsys, "--method", method, "--show", shown, question="word " * 60 + "x" * 200)
        assert max(map(display_width, out.split("\n"))) <= columns


def test_what_pages_wrote_cannot_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = "code record \x1b]0;title\x07 \x9b2J \u202e 宽" + "宽" * 90

    def spoil(root: Any) -> None:
        for number in range(1, 9):
            tree = f"RootWebArea 'A{evil}'\n\t[1] heading 'Record {evil}'\n\t[2] link '{evil}', clickable"
            changes = {"url": evil, "thought": evil, "accessibility_tree": tree}

            def change(run: Any, changes: Any = changes) -> None:
                run.update(goal=evil)
                for state in run["states"]:
                    state.update(changes, action=evil if state["state_index"] else None)

            root.edit_line("trajectories.jsonl", number, change)

    world = make_world(tmp_path, spoil)
    monkeypatch.setenv("COLUMNS", "80")
    for method in METHODS:
        for more in ([], ["--json"]):
            out, err = asked(world, capsys, "--method", method, "--show", "0", *more, question=f"Which {evil}?")
            assert not CONTROL.search(out + err), method
            assert more or max(map(display_width, out.split("\n"))) <= 80


def test_an_unknown_method_names_the_known_ones(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["ask", QUESTION, *world.arguments("--method", "rog")])
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert "unknown method 'rog'" in err and all(name in err for name in METHODS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([" "], "the question is empty"),
        ([QUESTION, "--tier", "small"], "--like QUESTION_ID"),
        ([QUESTION, "--tier", "large", "--like", "x"], "invalid choice"),
        ([QUESTION, "--domain", "web", "--like", "x"], "not allowed with"),
        ([QUESTION, "--show", "-1"], "--show"),
        ([QUESTION, "--image", "/nowhere/x.png"], "found no file /nowhere/x.png"),
        ([QUESTION, "--configfile", "/nowhere/x.yaml"], "cannot read the configuration file /nowhere/x.yaml"),
        ([], "QUESTION"),
    ],
)
def test_wrong_commands_end_with_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["ask", *arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_file_that_is_no_whole_image_ends_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_png(tmp_path / "whole.png", 3)
    whole = (tmp_path / "whole.png").read_bytes()
    contents = {"cfg.yaml": b"run: {}\n", "empty.png": b"", "cut.png": whole[:-30], "text.jpg": b"no image"}
    contents["page.eps"] = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SystemExit) as stopped:
            main(["ask", QUESTION, "--image", str(tmp_path / name)])
        assert stopped.value.code == 2, name
        said = " ".join(capsys.readouterr().err.split())
        assert f"argument --image: {tmp_path / name} is not a whole image (PNG, JPEG, GIF, WEBP): " in said, name


def test_a_wrong_configuration_ends_with_2(world: AskWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("run: {tears: [small]}\n", encoding="utf-8")
    with pytest.raises(SystemExit) as stopped:
        main(["ask", QUESTION, *world.arguments("--configfile", str(wrong))])
    assert stopped.value.code == 2
    assert "run.tears: Extra inputs are not permitted" in capsys.readouterr().err


def test_what_is_missing_is_named_with_the_command_that_makes_it(
    world: AskWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(world.results, copy)
    shutil.rmtree(copy / "index" / "raw_state.lance")
    out, err = asked(world, capsys, "--method", "rag", "--results", str(copy), status=1)
    assert out == ""
    lines = err.splitlines()
    assert lines[0] == f"rag cannot be asked: the run in {copy} lacks {copy}/index/raw_state.lance."
    words = shlex.split(lines[-1])
    assert words[:4] == ["snakemake", "--cores", "all", f"{copy}/index/raw_state.lance"]
    assert words[words.index("--config") + 1] == f"results={copy}"
    assert words[-2:] == ["--configfile", str(world.overlay)]
    asked(world, capsys, "--method", "none", "--results", str(copy))  # which needs no index
    shutil.rmtree(copy / "agent")
    _, err = asked(world, capsys, "--method", "coding", "--results", str(copy), status=1)
    assert f"{copy}/agent/pool/0of1 " in err and f"{copy}/agent/pool/0of1.jsonl" in err
    (tmp_path / "empty").mkdir()
    _, err = asked(world, capsys, "--method", "none", "--results", str(tmp_path / "empty"), status=1)
    assert f"{tmp_path}/empty/goals/states.parquet" in err


def test_the_command_adds_a_row_that_the_run_lacks(world: AskWorld, project: Path) -> None:
    plan = open_plan([world.overlay], None)
    command = making_command(plan, "rag_hybrid", ["x"], [world.overlay])
    assert shlex.split(command)[-4:] == (
        ["--config", 'run={"methods": ["rag_hybrid"]}', "--configfile", str(world.overlay)]
    )
    assert "--config " not in making_command(plan, "rag", ["x"], [world.overlay])


def test_a_damaged_index_and_another_embedder_are_told(
    world: AskWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.configure(embedder={"dimension": 32})
    _, err = asked(world, capsys, "--method", "rag", status=1)
    assert "has 64 dimensions, the embedder scripted-embedder 32" in err
    world.configure()
    copy = tmp_path / "damaged"
    shutil.copytree(world.results, copy)
    (copy / "index" / "hint_note.json").write_text("{", encoding="utf-8")
    _, err = asked(world, capsys, "--method", "rag", "--results", str(copy), status=1)
    assert f"cannot open the index {copy}/index/hint_note.lance" in err


def test_an_unknown_question_or_tier_is_told(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    name = make_id("question", 1)
    _, err = asked(world, capsys, "--like", name[:-1], status=1)
    assert f"no question '{name[:-1]}' among the 14 of the run; closest: {name}" in err


def test_settings_that_changed_since_the_run_are_warned_of(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    plan = open_plan([world.overlay], None)
    assert stale_settings(plan, "rag") == []  # nothing tells how the run was made
    rows = {name: plan.config.methods[name].model_dump(mode="json") for name in METHODS}
    render = plan.config.render.model_dump(mode="json")
    write_methods(world.results / "methods.yaml", rows, render)
    provenance = {
        "models": {"embedder": {"settings": plan.role("embedder")}},
        "settings": {"pools": plan.config.pools.model_dump(mode="json")},
    }
    (world.results / "provenance.json").write_text(json.dumps(provenance), encoding="utf-8")
    assert all(stale_settings(plan, name) == [] for name in METHODS)
    overlay = yaml.safe_load(world.overlay.read_text(encoding="utf-8"))
    overlay["methods"]["rag"] |= {"top_k": {"raw_state": 2, "note": 1}, "label": "Another name"}
    overlay["render"] = {"slice_chars": 333}
    overlay["pools"] = {"slice_radius": 2}
    overlay["models"]["embedder"]["model"] = "another-embedder"
    world.overlay.write_text(yaml.safe_dump(overlay), encoding="utf-8")
    value = value_of(world, capsys, "--method", "rag", "--no-answer")
    told = [
        "other settings of the row rag (top_k)",
        "other settings of the rendering (slice_chars)",
        "other settings of the embedder (model)",
        "other settings of the pools (slice_radius)",
    ]
    assert len(value["warnings"]) == len(told)
    for warning, part in zip(value["warnings"], told, strict=True):
        assert part in warning
    _, err = asked(world, capsys, "--method", "rag", "--no-answer")
    assert err.count("Warning: ") == len(told)
    assert "no row rag_slice" in stale_settings(open_plan([world.overlay], None), "rag_slice")[0]


def test_what_a_plugin_prints_is_no_part_of_the_output(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = asked(world, capsys, "--method", "own", "--json")
    assert json.loads(out)["evidence"][0]["text"].startswith("8 runs\n")
    assert "chatter of a plugin" in err


def test_a_second_answer_comes_from_the_cache(world: AskWorld, capsys: pytest.CaptureFixture[str]) -> None:
    question = "A question that nobody asked before?"
    before = sum(path.is_file() for path in (world.folder / "cache").rglob("*.json"))
    out, _ = asked(world, capsys, question=question)
    assert "to load the reader" in out
    once = sum(path.is_file() for path in (world.folder / "cache").rglob("*.json"))
    out, _ = asked(world, capsys, question=question)
    assert "here from the cache" in out and value_of(world, capsys, question=question)["answer"]["replayed"] is True
    assert once == before + 1 == sum(path.is_file() for path in (world.folder / "cache").rglob("*.json"))
