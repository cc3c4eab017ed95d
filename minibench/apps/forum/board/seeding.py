"""Creates riders, rooms and threads from ``seed.yaml``. Import it once Django is set up."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sites.models import Site
from django.db import transaction
from machina.core.db.models import get_model

from minibench.apps.forum.board.models import AnswerCard, ThreadCard
from minibench.clock import TODAY

Forum = get_model("forum", "Forum")
Topic = get_model("forum_conversation", "Topic")
Post = get_model("forum_conversation", "Post")
Permission = get_model("forum_permission", "ForumPermission")
UserPermission = get_model("forum_permission", "UserForumPermission")

SEED = Path(__file__).resolve().parents[1] / "seed.yaml"
PASSWORD = "lantern-oil-7"
# django-machina's defaults for riders end where a user has permissions of their own, so wardens get both
WARDEN_PERMISSIONS = (
    *settings.MACHINA_DEFAULT_AUTHENTICATED_USER_FORUM_PERMISSIONS,
    "can_lock_topics",
    "can_approve_posts",
)


def seed_riders(names: list[str], wardens: list[str]) -> dict[str, User]:
    """Create the users; wardens are staff with the moderation permissions."""
    users = {
        name: User.objects.create_user(name, f"{name}@riders.example", PASSWORD, is_staff=name in wardens)
        for name in [*names, *wardens]
    }
    for warden in wardens:
        for codename in WARDEN_PERMISSIONS:
            permission = Permission.objects.get(codename=codename)
            UserPermission.objects.create(permission=permission, user=users[warden], has_perm=True)
    return users


def seed_rooms(areas: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Create the areas and their rooms; return the rooms by name."""
    rooms = {}
    for area, members in areas.items():
        parent = Forum.objects.create(name=area, type=Forum.FORUM_CAT)
        for name, description in members.items():
            rooms[name] = Forum.objects.create(name=name, description=description, type=Forum.FORUM_POST, parent=parent)
    return rooms


def add_entry(topic: Any, rider: User, day: int, text: str, *, approved: bool = True) -> Any:
    """Create an entry dated `day` days before today."""
    subject = topic.subject if topic.posts.count() == 0 else f"On: {topic.subject}"
    post = Post.objects.create(topic=topic, poster=rider, subject=subject, content=text, approved=approved)
    moment = TODAY - timedelta(days=day, hours=-2)
    Post.objects.filter(pk=post.pk).update(created=moment, updated=moment)
    return post


def seed_thread(thread: dict[str, Any], users: dict[str, User], rooms: dict[str, Any]) -> Any:
    """Create one thread with its card and answers."""
    topic = Topic.objects.create(
        forum=rooms[thread["room"]],
        poster=users[thread["by"]],
        subject=thread["headline"],
        type=Topic.TOPIC_STICKY if thread.get("sticky") else Topic.TOPIC_POST,
        status=Topic.TOPIC_LOCKED if thread.get("seal") else Topic.TOPIC_UNLOCKED,
    )
    ThreadCard.objects.create(
        topic=topic,
        setup=thread["setup"],
        season=thread["season"],
        price=thread.get("price", ""),
        seal_reason=thread.get("seal", ""),
    )
    add_entry(topic, users[thread["by"]], thread["day"], thread["story"])
    for number, (rider, sureness, text, *gate) in enumerate(thread["answers"], start=1):
        post = add_entry(topic, users[rider], max(thread["day"] - number, 1), text, approved=not gate)
        AnswerCard.objects.create(post=post, sureness=sureness)
    topic.refresh_from_db()
    topic.update_trackers()
    moment = TODAY - timedelta(days=thread["day"], hours=-2)
    Topic.objects.filter(pk=topic.pk).update(created=moment, views_count=thread["reads"])
    return topic


@transaction.atomic
def seed_all() -> None:
    """Seed everything."""
    content = yaml.safe_load(SEED.read_text(encoding="utf-8"))
    Site.objects.update_or_create(pk=1, defaults={"domain": "127.0.0.1:8102", "name": "Lanternwheel"})
    users = seed_riders(content["riders"], content["wardens"])
    rooms = seed_rooms(content["rooms"])
    topics = {thread["headline"]: seed_thread(thread, users, rooms) for thread in content["threads"]}
    for rider, headlines in content["saddlebags"].items():
        for headline in headlines:
            topics[headline].subscribers.add(users[rider])
