"""What making memories asks of models: goals, notes, events, and the vectors of every pool."""

from __future__ import annotations

from collections.abc import Iterator

from lmev2.costs.facts import TrajectoryFacts
from lmev2.costs.setting import Setting
from lmev2.costs.stages import Stage, Work
from lmev2.memory.settings import POOL_TABLES
from lmev2.models.factory import UNCACHED_EMBEDDERS
from lmev2.pools.note import NOTE_POOLS
from lmev2.pools.raw_state import CENTER_STATE_POOL, RAW_STATE_POOL
from lmev2.pools.state_chunk import STATE_CHUNK_POOL

_OUTCOME = 7  # characters of `success`
_BLOCK = 60  # labels of a state in a prompt
_CHUNK_SHARE = 0.6  # of a tree's characters that chunks keep: what the minibench's pages have


def memory_stages(setting: Setting, with_notes: bool) -> Iterator[Stage]:
    """Stages that make memories, once per trajectory.

    Args:
        with_notes: something besides the methods' pools needs notes.
    """
    if setting.plan.config.goals.mode == "model":
        yield _goals(setting)
    tables = setting.plan.pools()
    if setting.plan.has_controller():
        if with_notes or set(POOL_TABLES["note"]) & set(tables):
            yield _notes(setting)
        if set(POOL_TABLES["event"]) & set(tables):
            yield _events(setting)
    if tables:
        yield _vectors(setting, tables)


def _goals(setting: Setting) -> Stage:
    role = setting.controller()
    stage = Stage("Goals", "controller", role.settings)
    template = setting.template("goal")
    reply = role.reply(setting.assumed.goal_tokens, setting.assumed.thinking_tokens)
    for trajectory in setting.facts.trajectories.values():
        share = setting.assumed.goals_with_route if trajectory.named_route is None else float(trajectory.named_route)
        prompt = role.prompt(role.tokens(template + 2 * trajectory.goal))
        stage.part("goals").add(share * prompt, share * reply, share)
    return stage


def _notes(setting: Setting) -> Stage:
    stage = Stage("Notes", "controller", setting.controller().settings)
    for trajectory in setting.facts.trajectories.values():
        _add(stage.part("both notes"), note_work(setting, trajectory))
    return stage


def _events(setting: Setting) -> Stage:
    stage = Stage("Events", "controller", setting.controller().settings)
    for trajectory in setting.facts.trajectories.values():
        _add(stage.part("events"), event_work(setting, trajectory))
    return stage


def _add(work: Work, more: Work) -> None:
    work.add(more.prompt, more.completion, more.calls, more.cached)


def note_work(setting: Setting, trajectory: TrajectoryFacts) -> Work:
    """Both notes of a trajectory: one call."""
    role, assumed = setting.controller(), setting.assumed
    chars = setting.template("note") + trajectory.goal + trajectory.start_url + _OUTCOME
    chars += sum(state.url + state.action + state.thought + _BLOCK for state in trajectory.states)
    images = sum(role.image(state.image) for state in trajectory.states)
    text = assumed.note_tokens
    limit = setting.plan.config.pools.note.reply_chars
    if limit is not None:  # two notes of three texts
        text = min(text, 6 * limit / role.ratio.prose)
    reply = role.reply(text, assumed.thinking_tokens)
    return Work(1, role.prompt(role.tokens(chars) + images), 0, reply)


def event_work(setting: Setting, trajectory: TrajectoryFacts) -> Work:
    """The events of a trajectory: one call per pair of adjacent states, with thinking switched off.

    Where the trees do not fit the model's window, the prompt with cut trees is counted; the one that is refused before
    costs nothing.
    """
    role, settings, assumed = setting.controller(), setting.plan.config.pools.event, setting.assumed
    text = assumed.event_tokens
    if settings.reply_chars is not None:
        text = min(text, 2 * settings.reply_chars / role.ratio.prose)
    reply = role.reply(text, assumed.thinking_tokens, switched_off=True)
    fixed = setting.template("event") + trajectory.goal + _OUTCOME + trajectory.trace
    room = role.settings.context_length - role.settings.sampling.max_tokens
    work = Work()
    for pair in zip(trajectory.states, trajectory.states[1:], strict=False):
        chars = fixed + sum(state.url + state.thought + state.action + 2 * _BLOCK for state in pair)
        base = role.tokens(chars) + sum(role.image(state.image) for state in pair)
        prompt = base + role.tokens(tree=sum(state.tree for state in pair))
        if prompt > room:
            prompt = base + role.tokens(tree=sum(min(state.tree, settings.retry_tree_chars) for state in pair))
        work.add(role.prompt(prompt), reply)
    return work


def _vectors(setting: Setting, tables: list[str]) -> Stage:
    stage = Stage("Embedding of pools", "embedder", setting.embedder)
    for table in tables:
        if table in (RAW_STATE_POOL, CENTER_STATE_POOL):
            stage.parts[table] = _slices(setting, table == CENTER_STATE_POOL)
        elif table == STATE_CHUNK_POOL:
            stage.parts[table] = _chunks(setting)
        elif table in NOTE_POOLS:
            count = len(setting.facts.trajectories)
            stage.parts[table] = Work(count, count * setting.embedded(setting.assumed.note_tokens / 2))
        else:
            count = setting.facts.transitions
            stage.parts[table] = Work(count, count * setting.embedded(setting.assumed.event_tokens))
    return stage


def _slices(setting: Setting, center_first: bool) -> Work:
    radius, settings = setting.plan.config.pools.slice_radius, setting.embedder
    work, seen = Work(), set()
    for trajectory in setting.facts.trajectories.values():
        states = trajectory.states
        for center in range(len(states)):
            window = list(range(max(0, center - radius), min(len(states), center + radius + 1)))
            if center_first:
                window.sort(key=lambda index: index != center)
            if settings.backend not in UNCACHED_EMBEDDERS and setting.facts.known:
                key = tuple((index, states[index].digest) for index in window)
                if key in seen:
                    continue
                seen.add(key)
            chars = min(sum(states[index].tree + 10 for index in window), settings.max_chars)
            work.add(setting.embedded(chars / setting.embedder_ratio.tree))
    return work


def _chunks(setting: Setting) -> Work:
    facts, chunk = setting.facts, setting.plan.config.pools.chunk
    if facts.chunks.states:
        scale = facts.states / facts.chunks.states
        count, chars = len(facts.chunks.texts) * scale, facts.chunks.chars * scale
    else:
        step = chunk.chars - chunk.overlap_chars
        trees = [state.tree for trajectory in facts.trajectories.values() for state in trajectory.states]
        count = sum(max(1.0, tree * _CHUNK_SHARE / step) for tree in trees)
        chars = count * chunk.chars
    return Work(count, chars / setting.embedder_ratio.prose)
