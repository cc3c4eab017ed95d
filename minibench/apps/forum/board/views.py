"""The board's pages where they differ from django-machina's."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.generic import TemplateView
from machina.apps.forum.views import ForumView
from machina.apps.forum_conversation.views import PostCreateView, TopicCreateView
from machina.apps.forum_member.views import TopicSubscribeView, TopicUnsubscribeView, UserPostsView
from machina.apps.forum_moderation.views import PostApproveView, PostDisapproveView, TopicLockView
from machina.core.db.models import get_model

from minibench.apps.forum.board.context import SADDLEBAG_LIMIT
from minibench.apps.forum.board.forms import SWAP_SHED, AnswerForm, LookUpForm, SealForm, ThreadForm
from minibench.apps.forum.board.models import SealReason, Setup, ThreadCard

Forum = get_model("forum", "Forum")
Post = get_model("forum_conversation", "Post")
Topic = get_model("forum_conversation", "Topic")

ORDERS = {
    "latest": ("Latest entry", "-last_post_on"),
    "answers": ("Most answers", "-posts_count"),
    "reads": ("Most reads", "-views_count"),
    "waiting": ("Longest waiting", "last_post_on"),
}
SHORTEST_WORD = 4


class RoomView(ForumView):
    """A room's threads, narrowed by bike setup or re-ordered. Each control forgets what the other one did."""

    def get_queryset(self) -> QuerySet[Any]:
        """Return the room's threads, sticky ones first."""
        threads = super().get_queryset().select_related("card")
        self.setup = self.request.GET.get("setup", "")
        self.order = self.request.GET.get("order", "latest")
        if self.setup in Setup.values:
            threads = threads.filter(card__setup=self.setup)
        _, field = ORDERS.get(self.order, ORDERS["latest"])
        return threads.order_by("-type", field)

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Add the two controls and what they are set to."""
        filled: dict[str, Any] = super().get_context_data(
            setups=Setup.choices,
            setup=self.setup,
            setup_label=dict(Setup.choices).get(self.setup, ""),
            orders=[(key, label) for key, (label, _) in ORDERS.items()],
            order=self.order,
            **context,
        )
        return filled


class ThreadCreateView(TopicCreateView):
    """Opens a thread: rehearse first, then publish."""

    post_form_class = ThreadForm

    def form_valid(self, post_form: ThreadForm, *forms: Any, **options: Any) -> HttpResponse:
        """Name the room in the message, and tell listings when they end."""
        room = self.get_forum()
        self.success_message = f"Published in {room.name}. Riders will find it under Latest entry."
        response: HttpResponse = super().form_valid(post_form, *forms, **options)
        if not self.preview and room.slug == SWAP_SHED:
            messages.warning(self.request, "Shed listings seal themselves after 21 days.")
        return response


class AnswerCreateView(PostCreateView):
    """Adds an answer to a thread."""

    post_form_class = AnswerForm
    success_message = "Answer filed at the end of the thread."
    approval_required_message = "Newcomer answers wait at the gate until a warden lets them through."


class LookUpView(LoginRequiredMixin, TemplateView):
    """Looks words up in headlines, or in all entries once the box for headlines is unticked."""

    template_name = "look_up.html"

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Return the form, the words that were left out and the entries found."""
        permissions = self.request.forum_permission_handler
        rooms = permissions.get_readable_forums(Forum.objects.filter(type=Forum.FORUM_POST), self.request.user)
        asked = "q" in self.request.GET
        data = self.request.GET if asked else None
        form = LookUpForm([(room.slug, room.name) for room in rooms], data, initial={"headlines": True})
        context |= {"form": form, "asked": asked}
        if asked and form.is_valid():
            words = re.findall(r"\w+", form.cleaned_data["q"])
            kept = [word for word in words if len(word) >= SHORTEST_WORD]
            context["dropped"] = [word for word in words if len(word) < SHORTEST_WORD]
            context["entries"] = list(self.find(rooms, kept, form.cleaned_data)) if kept else []
        filled: dict[str, Any] = super().get_context_data(**context)
        return filled

    def find(self, rooms: QuerySet[Any], words: list[str], options: dict[str, Any]) -> QuerySet[Any]:
        """Return the approved entries that hold every word; for headlines, the first entries of threads."""
        entries = Post.approved_objects.filter(topic__forum__in=rooms).select_related("topic__forum", "poster")
        if options["room"]:
            entries = entries.filter(topic__forum__slug=options["room"])
        if options["rider"]:
            entries = entries.filter(poster__username__icontains=options["rider"])
        for word in words:
            in_headline = Q(topic__subject__icontains=word)
            entries = entries.filter(in_headline if options["headlines"] else in_headline | Q(content__icontains=word))
        if options["headlines"]:
            ids = [entry.pk for entry in entries if entry.is_topic_head]
            entries = entries.filter(pk__in=ids)
        return entries.order_by("-created")


class EntriesView(UserPostsView):
    """A rider's entries, without those that wait at the gate."""

    def get_queryset(self) -> QuerySet[Any]:
        """Return the approved entries, newest first."""
        return super().get_queryset().filter(approved=True)


class PackView(TopicSubscribeView):
    """Straps a thread to the saddlebag, which carries three."""

    success_message = "Strapped on. You will find this thread in your saddlebag."

    def subscribe(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Refuse a fourth thread, after the confirmation only."""
        if request.user.topic_subscriptions.count() < SADDLEBAG_LIMIT:
            response: HttpResponse = super().subscribe(request, *args, **kwargs)
            return response
        self.object = self.get_object()
        messages.error(request, f"Not strapped on: a saddlebag carries {SADDLEBAG_LIMIT} threads. Unpack one first.")
        return HttpResponseRedirect(self.get_success_url())


class UnpackView(TopicUnsubscribeView):
    """Takes a thread out of the saddlebag."""

    success_message = "Unpacked. There is room for another thread."


class SealView(TopicLockView):
    """Seals a thread with a reason, unless entries of it still wait at the gate."""

    success_message = "Sealed. Riders see the reason above the first entry."

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """Add the form with the reasons."""
        filled: dict[str, Any] = super().get_context_data(form=self.get_form(), **context)
        return filled

    def get_form(self) -> SealForm:
        """Return the form, bound on submission."""
        return SealForm(self.request.POST if self.request.method == "POST" else None)

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Seal the thread and keep the reason on its card."""
        self.object = self.get_object()
        form = self.get_form()
        if not form.is_valid():
            again: HttpResponse = self.render_to_response(self.get_context_data())
            return again
        waiting = self.object.posts.filter(approved=False).count()
        if waiting:
            messages.error(request, f"Not sealed: entries of this thread still wait at the gate ({waiting}).")
            return HttpResponseRedirect(self.get_success_url())
        reason = SealReason(form.cleaned_data["reason"])
        ThreadCard.objects.filter(topic=self.object).update(seal_reason=reason)
        sealed: HttpResponse = self.lock(request, *args, **kwargs)
        return sealed


class LetThroughView(PostApproveView):
    """Lets an entry through the gate."""

    success_message = "Let through. The entry stands in its thread now."


class TurnAwayView(PostDisapproveView):
    """Erases an entry that waited at the gate."""

    success_message = "Turned away. The entry is erased."
