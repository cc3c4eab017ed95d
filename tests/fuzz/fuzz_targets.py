"""What must hold for any bytes: one function a parser, which raises where something does not.

The tests feed them with examples of Hypothesis, ``coverage_fuzz.py`` with bytes that a coverage-guided fuzzer makes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic
from fuzz import slow_reference

from lmev2 import actions
from lmev2.actions import annotate_actions, element_ids, parse_action
from lmev2.agent.codex_events import parse_events
from lmev2.agent.output import OutputError, read_answer, read_memory
from lmev2.agent.types import ANSWER_FILE, MEMORY_FILE
from lmev2.data.errors import ProblemCount
from lmev2.data.haystacks import read_haystacks
from lmev2.data.jsonl import JsonLinesFile
from lmev2.data.layout import haystack_file
from lmev2.data.schema import EvidenceRecord, QuestionRecord, Record, TrajectoryRecord, parse_record
from lmev2.data.trajectories import order_faults, state_rows
from lmev2.goals.sanitize import only_check, sanitize
from lmev2.interchange.jsonfiles import RecordLines, load_json
from lmev2.models.cache import CallCache, canonical_json
from lmev2.models.json_reply import JsonReplyError, find_json_objects, parse_json_object
from lmev2.models.openai_backend import parse_completion, parse_embeddings
from lmev2.models.retry import PassingFault
from lmev2.scoring.boxed import last_boxed, parse_prediction
from lmev2.scoring.judge import JudgeReplyError, parse_label
from lmev2.scoring.scorers import DETERMINISTIC_SCORERS, gold_phrases, normalize_phrase, score_prediction
from lmev2.scoring.spec import JUDGE_SCORERS, SCORER_NAMES, ScorerSpec, ScorerSpecError, parse_eval_function
from lmev2.trajectory import State
from lmev2.tree import Tree

STATES = {"t1": 4, "t2": 1, "": 2}
MAX_STATES = 5
_SCRATCH = Path(tempfile.mkdtemp(prefix="fuzz-"))
_SCHEMA = {
    "type": "object",
    "properties": {"label": {"enum": [0, 1]}, "reason": {"type": "string"}},
    "required": ["label"],
    "additionalProperties": False,
}


class _Note(pydantic.BaseModel):
    label: int
    reason: str = ""


def text_of(data: bytes) -> str:
    """Bytes as text; what is no UTF-8 becomes lone surrogates, which pages and models' replies may hold."""
    return data.decode("utf-8", "surrogateescape")


def storable(value: Any) -> None:
    """Fails for a value whose texts cannot be written as UTF-8; however deeply it is nested."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            one.encode("utf-8")
        elif isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one


def data_lines(data: bytes) -> None:
    """Lines of a data root: each bad one is a problem with file and number, never an exception."""
    models: tuple[tuple[str, str, type[Record]], ...] = (
        ("question", "id", QuestionRecord),
        ("trajectory", "id", TrajectoryRecord),
        ("question", "question_id", EvidenceRecord),
    )
    for kind, key, model in models:
        problems = ProblemCount(Path("root"), None)
        file = JsonLinesFile(Path("root"), "some.jsonl", kind, key, problems, lambda count: None)
        for number, raw in enumerate(data.splitlines(keepends=True), start=1):
            line = file.parse(number, raw) if raw.strip() else None
            record = parse_record(model, line, problems) if line is not None else None
            if line is not None:
                storable(line.value)
            if isinstance(record, TrajectoryRecord) and not order_faults(record):
                storable(state_rows(record, [None] * len(record.states)))
        for problem in problems.kept:
            assert problem.file == "some.jsonl" and problem.line and problem.text
            str(problem).encode("utf-8")


def record_lines(data: bytes) -> None:
    """Lines of an imported run, and its files."""
    problems = ProblemCount(Path("root"), None)
    file = RecordLines(Path("root"), "some.jsonl", "question", "question_id", problems, lambda count: None)
    for number, raw in enumerate(data.splitlines(keepends=True), start=1):
        line = file.parse(number, raw)
        if line is not None:
            storable(line.value)
    try:
        value = load_json(data.decode("utf-8"))
    except (ValueError, RecursionError):
        return
    storable(value)
    canonical_json(value)


def haystack_lists(data: bytes) -> None:
    """A file of haystacks."""
    path = _SCRATCH / haystack_file("small")
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    problems = ProblemCount(_SCRATCH, None)
    question = QuestionRecord(
        id="q1",
        domain="web",
        environment="e",
        question_type="procedure",
        question="?",
        image=None,
        answer="a",
        eval_function="mc_choice_match",
    )
    haystacks, _ = read_haystacks(_SCRATCH, "small", {"q1": question}, problems)
    assert ("q1" in haystacks.lists) or len(problems)
    for problem in problems.kept:
        assert problem.file == haystack_file("small")
        str(problem).encode("utf-8", "backslashreplace")


def tree_text(data: bytes) -> None:
    """A tree of any text: its shape as by the plain definition, and every question that may be asked of it."""
    text = text_of(data)
    tree = Tree(text)
    if len(tree) <= 200:
        assert list(zip(tree.parents, tree.ends, strict=True)) == slow_reference.tree_shape(text)
    lines = text.split("\n")
    for node in tree.nodes:
        line = lines[node.line]
        assert line.startswith("\t" * node.depth) and not line[node.depth :].startswith("\t")
        assert all(isinstance(value, str) for value in node.properties.values())
        assert isinstance(node.flag("checked"), bool) and isinstance(node.required, bool)
        # What the parser tells apart stands in the line.
        assert node.rest in line and node.role in line and (node.bid is None or f"[{node.bid}]" in line)
    for position in range(min(len(tree), 30)):
        for ask in (tree.text, tree.tab_text, tree.selected, tree.options, tree.required, tree.cells, tree.ancestors):
            ask(position)
    for told in (tree.messages, tree.headings, tree.column_headers, tree.titles, tree.main_title, tree.title):
        told()
    State("t", 0, None, "", None, None, None, text, None).title  # noqa: B018


def action_text(data: bytes) -> None:
    """An action of any text: parsed without an exception, annotated by adding only."""
    text = text_of(data)
    calls = parse_action(text)
    names = element_ids(text)
    assert set(names) == {name for call in calls for name in call.elements}
    repr(calls).encode("utf-8", "surrogatepass")
    tree = f"[a1] button 'x'\n\t{text}\n[{names[0] if names else ''}] link ''"
    assert annotate_actions([None, text], [tree, tree])[1].startswith(text)  # type: ignore[union-attr]
    assert actions._parse_loosely(text) is not None


def box(data: bytes) -> None:
    """The last box, as by the plain definition; its content, boxed again, is itself unless its braces are unbalanced."""
    text = text_of(data)
    found = last_boxed(text)
    assert found == slow_reference.boxed(text)
    assert parse_prediction(text) == (found or text.strip())
    if found is not None and "}" in text and found.count("{") == found.count("}"):
        assert last_boxed(f"\\boxed{{{found}}}") == found


def reply_object(data: bytes) -> None:
    """A model's reply: an object that is found is one piece of the reply's text, and fits its schema."""
    text = text_of(data)
    for value in find_json_objects(text):
        assert isinstance(value, dict)
        json.dumps(value, allow_nan=False)
    for schema in (None, _SCHEMA, _Note):
        try:
            value = parse_json_object(text, schema)  # type: ignore[arg-type]
        except JsonReplyError as error:
            assert str(error)
            continue
        assert isinstance(value, dict)
        if schema is _SCHEMA:
            assert value["label"] in (0, 1) and set(value) <= {"label", "reason"}
        if schema is _Note:
            assert type(value["label"]) is int
        storable_or_surrogates(value)


def storable_or_surrogates(value: Any) -> None:
    """Fails for a value that is no JSON; lone surrogates are replaced where it is used."""
    json.dumps(value).encode("ascii")


def judge_label(data: bytes) -> None:
    """A judge's reply: a label that the text holds as such, or the documented error."""
    text = text_of(data)
    try:
        label, reason = parse_label(text)
    except JudgeReplyError as error:
        assert str(error)
        return
    assert type(label) is int and label in (0, 1)
    reason.encode("utf-8")
    start, end = text.index("{"), text.rindex("}")
    assert '"label"' in text or "\\u" in text
    assert str(label) in text[start : end + 1]


def completion(data: bytes) -> None:
    """An endpoint's answer: texts and whole numbers, or a fault that says what is missing."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(answer, dict):
        return
    for thinking in (False, True):
        try:
            fields = parse_completion(answer, "model", thinking)
        except PassingFault:
            continue
        assert {type(fields[name]) for name in ("text", "finish_reason", "model", "thinking")} == {str}
        assert {type(fields[name]) for name in ("prompt_tokens", "completion_tokens")} == {int}
        assert fields["prompt_tokens"] >= 0 and fields["completion_tokens"] >= 0
        canonical_json(fields)
        assert fields["finish_reason"] and fields["model"]
    try:
        vectors = parse_embeddings(answer, 2)
    except PassingFault:
        return
    assert vectors.shape[0] == 2


def memory_output(data: bytes) -> None:
    """An agent's files: usable spans as by the plain definition, or the documented error."""
    for name in (MEMORY_FILE, ANSWER_FILE):
        (_SCRATCH / name).write_bytes(data)
    try:
        output = read_memory(_SCRATCH, STATES, MAX_STATES)
    except OutputError as error:
        str(error).encode("utf-8")
    else:
        output.markdown.encode("utf-8")
        written = json.loads(data.decode("utf-8-sig"))["trajectory_spans"]
        assert slow_reference.listed(output.spans) == slow_reference.span_states(written[:1000], STATES)
        assert output.states <= MAX_STATES and (output.markdown.strip() or output.spans)
        for dropped in output.dropped:
            dropped.written.encode("utf-8")
    try:
        read_answer(_SCRATCH).encode("utf-8")
    except OutputError as error:
        str(error).encode("utf-8")


def agent_events(data: bytes) -> None:
    """What the Codex CLI printed: counted and cleaned, never an exception."""
    trace = parse_events(data.splitlines(keepends=True))
    assert trace.commands >= 0 and trace.skipped >= 0
    storable([dict(event) for event in trace.events])
    storable(trace.failure)


def scorer_spec(data: bytes) -> None:
    """A scorer's spec: parsed again from what was parsed, it is the same; else the error names spec and choices."""
    text = text_of(data)
    try:
        spec = parse_eval_function(text)
    except ScorerSpecError as error:
        assert repr(text)[:40] in str(error)
        return
    assert spec.name in SCORER_NAMES and spec.separators
    assert parse_eval_function(written_spec(spec)) == spec


def written_spec(spec: ScorerSpec) -> str:
    """A spec in full, as questions give it."""
    options = [f"require_non_empty={spec.require_non_empty}"]
    if spec.is_phrase:
        flags = ("lower", "normalize_hyphen", "strip_punct")
        options += [f"{name}={str(getattr(spec, name)).lower()}" for name in flags]
        options.append(f"separators={spec.separators}")
    return "|".join([spec.name, *options])


def score(data: bytes) -> None:
    """Three texts, separated by line ends: a spec, a gold and a prediction, graded twice with the same result."""
    head, gold, prediction, *_ = [*text_of(data).split("\n", 2), "", ""]
    names = [name for name in SCORER_NAMES if name not in JUDGE_SCORERS]
    try:
        spec = parse_eval_function(head)
    except ScorerSpecError:
        spec = ScorerSpec(names[len(head) % len(names)])
    if spec.name in JUDGE_SCORERS:
        return
    verdict = score_prediction(prediction, gold, spec)
    assert verdict is score_prediction(prediction, gold, spec)
    if spec.is_phrase and len(prediction) < 500:
        phrases, text = gold_phrases(gold, spec), normalize_phrase(prediction, spec)
        each = all(slow_reference.occurs(phrase, text) for phrase in phrases)
        if verdict:
            assert each
        if spec.name == "norm_phrase_set_match" and text and phrases and prediction.strip().upper() != "UNKNOWN":
            assert verdict is each
        for phrase in phrases:
            assert normalize_phrase(phrase, spec) == phrase
    if DETERMINISTIC_SCORERS[spec.name](gold, gold, spec) is False:
        assert spec.name != "mc_choice_set_match" or not any(c.isalpha() for c in gold) or spec.require_non_empty


def cache_file(data: bytes) -> None:
    """A file of the call cache with any content: treated as absent unless it is whole."""
    cache = CallCache(_SCRATCH / "cache")
    path = cache.path_of("fuzz", "key")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    value = cache.get_json("fuzz", "key")
    if value is not None:
        assert json.loads(data)["value"] == value
    for left in path.parent.iterdir():
        left.unlink()


def goal_text(data: bytes) -> None:
    """A goal: sanitised a second time, it stays as it is, and every removed route stood in it."""
    text = text_of(data)
    for domain in ("enterprise", "web"):
        once = sanitize(text, domain)
        again = sanitize(once.text, domain)
        assert again.text == once.text, (text, once.text, again.text)
        only_check(text, domain)


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (
        data_lines,
        record_lines,
        haystack_lists,
        tree_text,
        action_text,
        box,
        reply_object,
        judge_label,
        completion,
        memory_output,
        agent_events,
        scorer_spec,
        score,
        cache_file,
        goal_text,
    )
}
