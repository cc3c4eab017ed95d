"""Template context of every page: what the navigation bar and the strip below show."""

from __future__ import annotations

from django.http import HttpRequest
from machina.core.db.models import get_model

SADDLEBAG_LIMIT = 3
FRESH_THREADS = 8


def navigation(request: HttpRequest) -> dict[str, object]:
    """Return the saddlebag's load, the freshest threads and, for wardens, how many entries wait at the gate."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    posts = get_model("forum_conversation", "Post").objects
    threads = get_model("forum_conversation", "Topic").objects.filter(approved=True)
    fresh = threads.select_related("forum", "last_post__poster").order_by("-last_post_on", "-pk")
    return {
        "fresh_threads": fresh[:FRESH_THREADS],
        "saddlebag_load": user.topic_subscriptions.count(),
        "saddlebag_limit": SADDLEBAG_LIMIT,
        "is_warden": user.is_staff,
        "gate_count": posts.filter(approved=False).count() if user.is_staff else 0,
    }
