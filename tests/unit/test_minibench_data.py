"""The shipped data root: shape, balance, evidence, gold texts, pictures and size, checked without recording."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from lmev2.scoring import scorers
from lmev2.scoring.spec import parse_eval_function

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / "resources" / "minibench"
DOMAINS = {"shop": "web", "forum": "web", "desk": "enterprise"}
TYPES_PER_DOMAIN = {
    "static-environment": 7,
    "static-environment-abs": 3,
    "dynamic-environment": 5,
    "dynamic-environment-abs": 2,
    "procedure": 4,
    "procedure-abs": 1,
    "errors-gotchas": 2,
}
TRAJECTORIES = {"shop": 10, "forum": 8, "desk": 18}
SMALL_SHARE = {"shop": 4, "forum": 4, "desk": 8}
MAX_FOLDER_BYTES = 14_000_000


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / name).read_text(encoding="utf-8").split("\n") if line]


@pytest.fixture(scope="module")
def questions() -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in _rows("questions.jsonl")}


@pytest.fixture(scope="module")
def trajectories() -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in _rows("trajectories.jsonl")}


@pytest.fixture(scope="module")
def evidence() -> dict[str, list[list[list[Any]]]]:
    return {row["question_id"]: row["hops"] for row in _rows("evidence.jsonl")}


@pytest.fixture(scope="module")
def haystacks() -> dict[str, dict[str, list[str]]]:
    return {tier: json.loads((ROOT / "haystacks" / f"lme_v2_{tier}.json").read_text()) for tier in ("small", "medium")}


@pytest.fixture(scope="module")
def written() -> dict[str, dict[str, Any]]:
    """The question files that the shipped questions were built from, by id, each with its application."""
    found = {}
    for app in DOMAINS:
        for entry in yaml.safe_load((REPOSITORY / "minibench" / "questions" / f"{app}.yaml").read_text("utf-8")):
            found[entry["id"]] = {**entry, "app": app}
    return found


def _text(state: dict[str, Any]) -> str:
    return "\n".join((state["accessibility_tree"], state["url"], state["action"] or ""))


def test_question_counts_per_domain_and_type(questions: dict[str, dict[str, Any]]) -> None:
    for domain in ("web", "enterprise"):
        types = Counter(q["question_type"] for q in questions.values() if q["domain"] == domain)
        assert types == TYPES_PER_DOMAIN, domain


def test_scorers_fit_their_types_and_every_deterministic_one_occurs(questions: dict[str, dict[str, Any]]) -> None:
    scorers = Counter(q["eval_function"].split("|")[0] for q in questions.values())
    for question in questions.values():
        abstention = question["question_type"].endswith("-abs")
        assert abstention == question["eval_function"].startswith("llm_abstention_checker"), question["id"]
        assert (question["image"] is not None) == (question["question_type"] == "errors-gotchas"), question["id"]
    assert scorers["llm_abstention_checker"] == 12
    assert scorers["norm_phrase_set_match_ordered"] >= 3
    assert scorers["mc_choice_match"] >= 6
    assert scorers["mc_choice_set_match"] == 2
    assert scorers["llm_gotchas_checker"] >= 3


def test_shipped_questions_are_the_written_ones(
    questions: dict[str, dict[str, Any]], written: dict[str, dict[str, Any]]
) -> None:
    assert set(questions) == set(written)
    for name, entry in written.items():
        assert questions[name]["question"] == entry["question"].strip()
        assert questions[name]["answer"] == entry["answer"]
        assert questions[name]["environment"] == entry["app"]
        assert questions[name]["domain"] == DOMAINS[entry["app"]]


def test_trajectories_are_complete_and_of_the_agreed_length(trajectories: dict[str, dict[str, Any]]) -> None:
    assert Counter(t["environment"] for t in trajectories.values()) == TRAJECTORIES
    for name, trajectory in trajectories.items():
        states = trajectory["states"]
        assert 5 <= len(states) <= 14, name
        assert [s["state_index"] for s in states] == list(range(len(states)))
        assert states[0]["action"] is None and states[0]["thought"] is None
        assert all(s["action"] and s["thought"] for s in states[1:]), name
        assert all(s["screenshot"] == f"screenshots/{name}/{s['step']}.png" for s in states)
        assert trajectory["domain"] == DOMAINS[trajectory["environment"]]
        assert all(len(s["accessibility_tree"]) > 800 for s in states), name


def test_outcomes_are_balanced_in_every_application_and_small_list(
    trajectories: dict[str, dict[str, Any]], haystacks: dict[str, dict[str, list[str]]]
) -> None:
    for app in DOMAINS:
        outcomes = [t["outcome"] for t in trajectories.values() if t["environment"] == app]
        assert set(outcomes) == {"success", "failure"}
        assert 0.35 <= outcomes.count("failure") / len(outcomes) <= 0.65, app
    for names in haystacks["small"].values():
        assert {trajectories[name]["outcome"] for name in names} == {"success", "failure"}


def test_actions_name_elements_of_the_state_before(trajectories: dict[str, dict[str, Any]]) -> None:
    """Actions are stored on the state that they lead to, so their element stands in the previous tree."""
    seen = 0
    for name, trajectory in trajectories.items():
        for before, after in zip(trajectory["states"], trajectory["states"][1:], strict=False):
            match = re.match(r"(?:click|fill|hover|press|select_option)\('(\w+)'", after["action"])
            if match:
                seen += 1
                line = re.compile(rf"^\t*\[{match[1]}\] ", re.MULTILINE)
                assert line.search(before["accessibility_tree"]), (name, after["state_index"])
    assert seen > 200


def test_haystacks(
    questions: dict[str, dict[str, Any]],
    trajectories: dict[str, dict[str, Any]],
    haystacks: dict[str, dict[str, list[str]]],
) -> None:
    assert set(haystacks["small"]) == set(haystacks["medium"]) == set(questions)
    for domain in ("web", "enterprise"):
        ids = [q["id"] for q in questions.values() if q["domain"] == domain]
        small = {tuple(haystacks["small"][name]) for name in ids}
        assert len(small) == 1, "the small list is shared by the questions of a domain"
        shares = Counter(trajectories[name]["environment"] for name in small.pop())
        assert shares == {app: count for app, count in SMALL_SHARE.items() if DOMAINS[app] == domain}
        whole = sorted(name for name, t in trajectories.items() if t["domain"] == domain)
        orders = {tuple(haystacks["medium"][name]) for name in ids}
        assert all(sorted(order) == whole for order in orders)
        assert len(orders) == len(ids), "every medium haystack has its own order"


def test_every_hop_is_covered_in_small(
    questions: dict[str, dict[str, Any]],
    trajectories: dict[str, dict[str, Any]],
    evidence: dict[str, list[list[list[Any]]]],
    haystacks: dict[str, dict[str, list[str]]],
) -> None:
    assert set(evidence) == set(questions)
    assert sum(len(hops) > 1 for hops in evidence.values()) >= 6, "some questions need two hops"
    for question, hops in evidence.items():
        small = set(haystacks["small"][question])
        assert hops
        for hop in hops:
            assert any(name in small for name, _ in hop), question
            for name, index in hop:
                assert trajectories[name]["domain"] == questions[question]["domain"]
                assert 0 <= index < len(trajectories[name]["states"])


def test_gold_texts_stand_in_evidence_states_of_small(
    trajectories: dict[str, dict[str, Any]],
    evidence: dict[str, list[list[list[Any]]]],
    haystacks: dict[str, dict[str, list[str]]],
    written: dict[str, dict[str, Any]],
) -> None:
    for question, entry in written.items():
        small = set(haystacks["small"][question])
        refs = [(name, index) for hop in evidence[question] for name, index in hop if name in small]
        texts = [_text(trajectories[name]["states"][index]) for name, index in refs]
        assert entry["gold_in"], question
        for gold in entry["gold_in"]:
            assert any(gold in text for text in texts), (question, gold)


def test_phrase_golds_stand_in_the_evidence_but_not_in_the_question(
    questions: dict[str, dict[str, Any]],
    trajectories: dict[str, dict[str, Any]],
    evidence: dict[str, list[list[list[Any]]]],
) -> None:
    checked = 0
    for question in questions.values():
        name, gold = question["eval_function"].split("|")[0], question["answer"]
        if name.startswith("llm_"):
            continue
        spec = parse_eval_function(question["eval_function"])
        assert getattr(scorers, name)(gold, gold, spec), question["id"]
        if name.startswith("norm_phrase"):
            checked += 1
            refs = [(trajectory, index) for hop in evidence[question["id"]] for trajectory, index in hop]
            text = "\n".join(trajectories[t]["states"][index]["accessibility_tree"] for t, index in refs)
            assert scorers.norm_phrase_set_match(text, gold, spec), question["id"]
            assert not scorers.norm_phrase_set_match(question["question"], gold, spec), question["id"]
    assert checked >= 20


def test_evidence_is_what_the_written_substrings_select(
    trajectories: dict[str, dict[str, Any]],
    evidence: dict[str, list[list[list[Any]]]],
    written: dict[str, dict[str, Any]],
) -> None:
    for question, entry in written.items():
        for hop, alternatives in zip(evidence[question], entry["evidence"], strict=True):
            expected = {
                (a["trajectory"], s["state_index"])
                for a in alternatives
                for s in trajectories[a["trajectory"]]["states"]
                if all(text in _text(s) for text in a["contains"])
            }
            assert {(name, index) for name, index in hop} == expected, question


def test_pictures_have_one_size_and_a_small_palette(trajectories: dict[str, dict[str, Any]]) -> None:
    for trajectory in trajectories.values():
        for state in trajectory["states"]:
            with Image.open(ROOT / state["screenshot"]) as picture:
                assert picture.size == (1280, 720), state["screenshot"]
                assert picture.mode == "P"
                assert len(picture.getcolors(256) or range(257)) <= 128
    shipped = {path.relative_to(ROOT).as_posix() for path in (ROOT / "screenshots").rglob("*.png")}
    assert shipped == {s["screenshot"] for t in trajectories.values() for s in t["states"]}


def test_question_images_exist(questions: dict[str, dict[str, Any]]) -> None:
    wanted = {q["image"] for q in questions.values() if q["image"]}
    assert wanted == {path.relative_to(ROOT).as_posix() for path in (ROOT / "question_screenshots").iterdir()}
    for name in wanted:
        with Image.open(ROOT / name) as picture:
            assert picture.width >= 300 and picture.height >= 100, name


def test_checksums_cover_every_file() -> None:
    sums = {}
    for line in (ROOT / "checksums.sha256").read_text().splitlines():
        digest, name = line.split("  ", 1)
        sums[name] = digest
    files = {p.relative_to(ROOT).as_posix(): p for p in ROOT.rglob("*") if p.is_file()}
    del files["checksums.sha256"]
    assert set(sums) == set(files)
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sums[name], name


def test_the_folder_stays_small() -> None:
    assert sum(path.stat().st_size for path in ROOT.rglob("*") if path.is_file()) < MAX_FOLDER_BYTES
