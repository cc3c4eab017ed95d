"""The command ``ask``: a free question to a configured method, on the indexes of a run."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from lmev2.config import ConfigError, Tier
from lmev2.data.schema import DOMAINS
from lmev2.terminal import display_width, fields, one_line, plain, shorten, shorten_middle, terminal_width, wrap

if TYPE_CHECKING:  # what opens memories takes a second to import, and the other commands need none of it
    from lmev2.ask import Answer, Reply, Request
    from lmev2.ask_evidence import Evidence
    from lmev2.plan import Plan

_TIERS: tuple[str, ...] = get_args(Tier)
_SHOWN = 5
_LABEL = len("Retrieval")
_INDENT = "    "
_BAR = "│ "
_ENTRY_LINES = 8
_IMAGE_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def add_commands(commands: Any) -> None:
    """Add the command to the parser's (what ``add_subparsers`` returned)."""
    parser = commands.add_parser(
        "ask",
        help="ask a method a question of your own",
        description="Ask a configured method a question of your own, on the indexes that a run left, and show the "
        "evidence that it finds and what the reader answers from it. Nothing is written but the call cache. Exit "
        "status: 0; 1 when the run lacks something or a model fails; 2 for a wrong command or configuration.",
    )
    parser.add_argument("question", type=_question, metavar="QUESTION", help="its text, in quotes")
    parser.add_argument("--method", metavar="M", help="a row of `methods` (default: the run's first retrieval row)")
    parser.add_argument(
        "--results", type=Path, metavar="DIR", help="results of the run (default: those of the configuration, results)"
    )
    parser.add_argument(
        "--configfile",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a configuration file over config.yaml, as for snakemake; more than one: the last wins",
    )
    about = parser.add_mutually_exclusive_group()
    about.add_argument("--domain", choices=DOMAINS, help="ask about this domain's trajectories (default: about all)")
    about.add_argument("--like", metavar="QUESTION_ID", help="ask about the haystack of this question")
    parser.add_argument("--tier", choices=_TIERS, help="with --like: which haystack (default: the run's first tier)")
    parser.add_argument("--image", type=_image, metavar="FILE", help="an image that belongs to the question")
    parser.add_argument("--no-answer", action="store_true", help="retrieve only, without the reader")
    parser.add_argument(
        "--show", type=_count, default=_SHOWN, metavar="N", help=f"show so much evidence (default: {_SHOWN}; 0: all)"
    )
    parser.add_argument("--json", action="store_true", help="print an object instead of text")
    parser.set_defaults(run=lambda options: _ask(options, parser))


def _question(value: str) -> str:
    if not value.strip():
        raise argparse.ArgumentTypeError("the question is empty")
    return value


def _image(value: str) -> Path:
    from PIL import Image

    if not Path(value).is_file():
        raise argparse.ArgumentTypeError(f"found no file {value}")
    try:
        with Image.open(value, formats=_IMAGE_FORMATS) as image:
            image.load()
    except Exception as error:  # a decoder raises whatever it meets in a broken file
        kinds = ", ".join(_IMAGE_FORMATS)
        raise argparse.ArgumentTypeError(f"{value} is not a whole image ({kinds}): {error}") from error
    return Path(value)


def _count(value: str) -> int:
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f"{value!r} is not a number from 0")
    return int(value)


def _ask(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    from lmev2 import ask, ask_run

    if options.tier is not None and options.like is None:
        parser.error("--tier says which haystack of a question is meant; give --like QUESTION_ID with it")
    try:
        plan = ask_run.open_plan(options.configfile, options.results)
        method = options.method or ask_run.default_method(plan)
        ask_run.check_method(plan, method)
    except (ConfigError, ask_run.UnknownMethod) as error:
        parser.error(str(error))
    missing = ask_run.missing_files(plan, method)
    if missing:
        print(f"{method} cannot be asked: the run in {plan.results} lacks {', '.join(missing)}.", file=sys.stderr)
        print("Make it with:", file=sys.stderr)
        print(f"  {ask_run.making_command(plan, method, missing, options.configfile)}", file=sys.stderr)
        return 1
    warnings = ask_run.stale_settings(plan, method)
    for warning in warnings:
        print(f"Warning: {plain(warning)}", file=sys.stderr)
    request = ask.Request(
        options.question, method, options.image, options.domain, options.like, options.tier, not options.no_answer
    )
    try:
        with _ended_cleanly(), contextlib.redirect_stdout(sys.stderr):  # a plugin may print what it likes
            reply = ask.ask(plan, request, _say)
    except ask.AskError as error:
        print(f"{method} could not answer: {plain(str(error))}", file=sys.stderr)
        return 1
    text = _as_json(plan, request, reply, warnings) if options.json else _as_text(plan, request, reply, options.show)
    print(plain(text))
    return 1 if reply.answer is not None and reply.answer.row["error"] is not None else 0


def _say(text: str) -> None:
    print(f"{plain(text)} …", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _ended_cleanly() -> Iterator[None]:
    """Let SIGTERM end the work as an exception does, so that a coding agent and its sandbox end with it."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _as_json(plan: Plan, request: Request, reply: Reply, warnings: Sequence[str]) -> str:
    method = plan.config.methods[request.method]
    value = {
        "question": request.question,
        "image": None if request.image is None else str(request.image),
        "method": request.method,
        "label": method.label,
        "family": method.family,
        "results": plan.results,
        "warnings": list(warnings),
        "haystack": {
            "trajectories": len(reply.haystack.ids),
            "states": reply.haystack.states,
            "domains": dict(reply.haystack.domains),
            "like": request.like,
            "tier": reply.haystack.tier,
        },
        "queries": reply.context.queries,
        "query_origin": reply.context.query_origin,
        "rerank_origin": reply.context.rerank_origin,
        "evidence": [asdict(one) for one in reply.evidence],
        "answer": None if reply.answer is None else _answer_value(reply.answer),
        "times": {
            "loading_s": reply.loading_s,
            "retrieval_s": reply.retrieval.honest_s,
            "retrieval_elapsed_s": reply.retrieval.elapsed_s,
            "waited_s": reply.retrieval.waited_s,
            "reader_s": None if reply.answer is None else reply.answer.row["wall_s"],
            "reader_elapsed_s": None if reply.answer is None else reply.answer.seconds,
        },
    }
    return json.dumps(value, indent=1)


def _answer_value(answer: Answer) -> dict[str, Any]:
    left_out = ("question_id", "method", "tier")
    row = {name: value for name, value in answer.row.items() if name not in left_out}
    return row | {"prompt_domain": answer.domain, "replayed": answer.replayed}


def _as_text(plan: Plan, request: Request, reply: Reply, limit: int) -> str:
    width = terminal_width()
    facts = [
        ("Question", one_line(request.question)),
        *([("Image", one_line(str(request.image)))] if request.image is not None else []),
        ("Method", one_line(f"{plan.config.methods[request.method].label} ({request.method})")),
        ("Haystack", _haystack_text(request, reply)),
        *_query_facts(request.question, reply),
    ]
    parts = [_facts_text(facts, width), _evidence_text(reply, limit, width)]
    if reply.answer is not None:
        parts.append(_facts_text(_answer_facts(reply.answer), width))
    parts.append(_facts_text(_time_facts(reply), width))
    return "\n\n".join(parts)


def _facts_text(facts: Sequence[tuple[str, str]], width: int) -> str:
    return fields([(label.ljust(_LABEL), text) for label, text in facts], width)


def _haystack_text(request: Request, reply: Reply) -> str:
    haystack = reply.haystack
    domains = ", ".join(f"{count} {name}" for name, count in haystack.domains.items())
    of = f"of question {one_line(request.like)}, tier {haystack.tier}" if request.like else "of the run"
    return f"{len(haystack.ids)} trajectories {of} ({domains}), {haystack.states} states"


def _query_facts(question: str, reply: Reply) -> list[tuple[str, str]]:
    """What was searched for, by pool; pools with equal queries together."""
    context = reply.context
    if not context.queries:
        return []
    pools: dict[tuple[str, ...], list[str]] = {}
    for pool, queries in context.queries.items():
        if queries:
            pools.setdefault(tuple(queries), []).append(pool)
    if list(pools) == [(question,)]:
        return [("Searched", f"the question's text, in {', '.join(pools[(question,)])}")]
    rows = [f"queries by {one_line(context.query_origin)}"] if context.query_origin else []
    for texts, names in pools.items():
        rows += [f"{', '.join(names)}: “{one_line(text)}”" for text in texts]
    facts = [("" if number else "Searched", row) for number, row in enumerate(rows)] or [("Searched", "nothing")]
    return [*facts, *([("Chosen by", context.rerank_origin)] if context.rerank_origin else [])]


def _evidence_text(reply: Reply, limit: int, width: int) -> str:
    if not reply.evidence:
        return "Evidence: none"
    shown = _chosen(reply.evidence, limit)
    count = len(reply.evidence)
    items = len(reply.context.items)
    head = f"Evidence: {count} {'entry' if count == 1 else 'entries'} ({items} context item{'s' if items > 1 else ''})"
    if len(shown) < count:
        head += f", {len(shown)} shown (--show 0: all)"
    kept = items if reply.answer is None else items - int(reply.answer.row["items_dropped"])
    return "\n\n".join(["\n".join(wrap(head, width)), *(_entry_text(one, kept, width) for one in shown)])


def _chosen(evidence: Sequence[Evidence], limit: int) -> list[Evidence]:
    """So many entries (0: all), in the context's order: the first of each pool, then the second of each, and so on, so
    that no pool hides the others."""
    turns: dict[str | None, int] = {}
    ranked = []
    for one in evidence:
        turns[one.pool] = turns.get(one.pool, 0) + 1
        ranked.append((turns[one.pool], one.rank, one))
    taken = [one for _, _, one in sorted(ranked, key=lambda entry: entry[:2])[: limit or None]]
    return sorted(taken, key=lambda one: one.rank)


def _entry_text(one: Evidence, kept: int, width: int) -> str:
    """An entry: where it comes from, its pages, and the lines that bear on the question.

    Args:
        kept: items of the context that the reader was given.
    """
    number = f"{one.rank:>2}. "
    source = [one_line(one.pool or ("text" if one.text else "image"))]
    source += [f"similarity {one.similarity:.3f}"] if one.similarity is not None else []
    source += [f"trajectory {one_line(one.trajectory_id)}"] if one.trajectory_id is not None else []
    source += [_states_text(one)] if one.states else []
    source += ["not shown to the reader"] if one.items[0] >= kept else []
    head = wrap(", ".join(source), width - len(number))
    lines = [(number if not place else " " * len(number)) + line for place, line in enumerate(head)]
    room = _ENTRY_LINES
    before = None
    for page in one.pages:
        excerpt = _excerpt_lines(page.excerpt or "", width, room)
        if page.excerpt is not None and not excerpt:
            continue
        here = one_line(page.title or "untitled"), one_line(page.url)
        lines.append(shorten(f"{_INDENT}state {page.state_index}: {here[0]}", width))
        if before is None or here[1] != before:
            lines.append(f"{_INDENT}{shorten_middle(here[1], width - len(_INDENT))}")
        lines += excerpt
        before = here[1]
        room -= len(excerpt)
    lines += _excerpt_lines(one.excerpt, width, room)
    lines += [f"{_INDENT}{shorten_middle('image ' + one_line(path), width - len(_INDENT))}" for path in one.images]
    return "\n".join(lines)


def _states_text(one: Evidence) -> str:
    first, last = one.states[0], one.states[-1]
    if len(one.states) == 1:
        return f"state {first}"
    consecutive = one.states == tuple(range(first, last + 1))
    return f"states {first}-{last}" if consecutive else f"states {', '.join(map(str, one.states))}"


def _excerpt_lines(text: str, width: int, most: int) -> list[str]:
    """Lines of an excerpt behind a bar, at most so many: indented lines are cut, others wrapped. What an excerpt leaves
    out is not marked, and a page's title, which stands above, not repeated."""
    room = width - len(_INDENT) - len(_BAR)
    lines: list[str] = []
    for line in plain(text).replace("\t", "  ").split("\n"):
        words = line.strip()
        if words.strip("-… ") and not words.startswith("RootWebArea "):
            lines += [shorten(line, room)] if line.startswith(" ") else _wrapped(line, room)
    return [f"{_INDENT}{_BAR}{line}" for line in lines[:most]]


def _wrapped(line: str, room: int) -> list[str]:
    head, *rest = wrap(line, room - 2)
    return [line] if display_width(line) <= room else [head, *(f"  {more}" for more in rest)]


def _answer_facts(answer: Answer) -> list[tuple[str, str]]:
    row = answer.row
    if row["error"] is not None:
        facts = [("Answer", f"none: {row['error']}, {one_line(str(row['error_detail']))}")]
    else:
        facts = [("Answer", one_line(row["parsed"]))]
    reply = one_line(row["reply"])
    if reply and reply != facts[0][1]:
        facts.append(("Reply", reply))
    context = f"{row['context_tokens']:,} context tokens"
    if row["items_dropped"]:
        context += f" of {row['context_tokens_before']:,}"
        context += f"; {row['items_dropped']} of {row['items_before']} items left out"
    if row["images_left_out"]:
        context += f"; {row['images_left_out']} images not seen"
    facts.append(("Reader", one_line(f"{row['model']}, prompt for {answer.domain}, {context}")))
    return facts


def _time_facts(reply: Reply) -> list[tuple[str, str]]:
    retrieval = f"{reply.retrieval.honest_s:.2f} s"
    if reply.retrieval.counted_s > reply.retrieval.spent_s + 0.05:
        retrieval += f" with its model calls, which came from the cache (here {reply.retrieval.elapsed_s:.2f} s)"
    if reply.retrieval.waited_s >= 0.05:
        retrieval += f"; {reply.retrieval.waited_s:.1f} s of waits apart"
    facts = [("Retrieval", retrieval)]
    if reply.answer is not None:
        answer = reply.answer
        reading = f"{answer.row['wall_s']:.1f} s"
        if answer.replayed:
            reading += f", when it was first asked; here from the cache in {answer.seconds:.1f} s"
        else:
            reading += f", and {max(answer.seconds - answer.row['wall_s'], 0):.1f} s to load the reader"
        facts.append(("Reading", reading))
    return [*facts, ("Loading", f"{reply.loading_s:.1f} s for libraries, tables, indexes and what the method prepares")]
