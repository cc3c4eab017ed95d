"""Forms of the board: threads, answers, look-up and sealing."""

from __future__ import annotations

import re
from typing import Any

from django import forms
from machina.apps.forum_conversation.forms import PostForm, TopicForm

from minibench.apps.forum.board.models import AnswerCard, SealReason, Season, Setup, Sureness, ThreadCard

SWAP_SHED = "swap-shed"
WORKSHOP = "the-workshop"
SHORTEST_STORY = 40
NEWCOMER_ENTRIES = 3
_SHED_PRICE = re.compile(r"[A-Z]{3}:[1-9][0-9]*")


def with_placeholder(choices: list[tuple[str, str]], placeholder: str) -> list[tuple[str, str]]:
    """Put an empty choice that says what to pick before the real ones."""
    return [("", placeholder), *choices]


class ThreadForm(TopicForm):
    """Opens a thread. Rooms of the Workshop want a question, the Swap Shed a listing with a shed price."""

    setup = forms.ChoiceField(
        label="Bike setup",
        choices=with_placeholder(Setup.choices, "Pick a setup"),
        error_messages={"required": "Pick the bike setup this thread is about."},
    )
    season = forms.ChoiceField(
        label="Season",
        choices=with_placeholder(Season.choices, "Pick a season"),
        error_messages={"required": "Pick the season in which this matters."},
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["subject"].label = "Headline"
        self.fields["subject"].widget.attrs["placeholder"] = "One line that other riders will recognise"
        self.fields["content"].label = "Story"
        self.fields["content"].widget.attrs.update({"placeholder": "What happened, on which bike, where", "rows": 4})
        for unused in ("topic_type", "enable_signature"):
            self.fields.pop(unused, None)
        if self.in_shed:
            self.fields["price"] = forms.CharField(label="Asking price", required=False)
            self.order_fields(["subject", "content", "price", "setup", "season"])

    @property
    def in_shed(self) -> bool:
        """Whether the thread goes to the Swap Shed."""
        return self.forum is not None and self.forum.slug == SWAP_SHED

    def clean_subject(self) -> str:
        """Check the headline against the room's rule."""
        headline = str(self.cleaned_data["subject"]).strip()
        room = self.forum.parent
        if room is not None and room.slug == WORKSHOP and not headline.endswith("?"):
            raise forms.ValidationError("Workshop headlines must be a question: end with a question mark.")
        if self.in_shed and not headline.startswith(("Offer:", "Wanted:")):
            raise forms.ValidationError("Shed headlines start with Offer: or Wanted:")
        return headline

    def clean_content(self) -> Any:
        """Refuse stories that are too short to be answered."""
        story = self.cleaned_data["content"]
        if len(str(story).strip()) < SHORTEST_STORY:
            raise forms.ValidationError(f"Stories under {SHORTEST_STORY} characters are sent back.")
        return story

    def clean_price(self) -> str:
        """Accept shed prices only; the house notice, not the message, says what they look like."""
        price = str(self.cleaned_data["price"])
        if not _SHED_PRICE.fullmatch(price):
            raise forms.ValidationError("That is not a shed price.")
        return price

    def create_post(self) -> Any:
        """Build the first entry; machina would read the signature field that the board leaves out."""
        self.cleaned_data["enable_signature"] = False
        return super().create_post()

    def create_topic(self) -> Any:
        """Build the topic as an ordinary thread."""
        self.cleaned_data["topic_type"] = ""
        return super().create_topic()

    def save(self, commit: bool = True) -> Any:
        """Save topic, first entry and card."""
        post = super().save(commit)
        data = self.cleaned_data
        ThreadCard.objects.create(
            topic=post.topic, setup=data["setup"], season=data["season"], price=data.get("price", "")
        )
        return post


class AnswerForm(PostForm):
    """Adds an answer; answers of newcomers wait at the gate."""

    sureness = forms.ChoiceField(
        label="How sure are you?",
        choices=with_placeholder(Sureness.choices, "Say how you know"),
        error_messages={"required": "Say how sure you are before you send."},
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for unused in ("subject", "enable_signature", "lock_topic"):
            self.fields.pop(unused, None)
        self.fields["content"].label = "Your answer"
        self.fields["content"].widget.attrs.update({"placeholder": "Write to the rider who asked", "rows": 5})

    def create_post(self) -> Any:
        """Build the entry under the thread's headline, approved unless its rider is a newcomer."""
        self.cleaned_data |= {"subject": f"On: {self.topic.subject}", "enable_signature": False}
        post = super().create_post()
        entries = self.user.posts.filter(approved=True).count()
        post.approved = self.user.is_staff or entries >= NEWCOMER_ENTRIES
        return post

    def save(self, commit: bool = True) -> Any:
        """Save the entry and its card."""
        post = super().save(commit)
        AnswerCard.objects.create(post=post, sureness=self.cleaned_data["sureness"])
        return post


class LookUpForm(forms.Form):
    """The full look-up. The box for headlines comes ticked."""

    q = forms.CharField(label="Words", required=False)
    headlines = forms.BooleanField(label="Headlines only", required=False)
    rider = forms.CharField(label="Written by", required=False)
    room = forms.ChoiceField(label="Room", required=False)

    def __init__(self, rooms: list[tuple[str, str]], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["room"].choices = with_placeholder(rooms, "All rooms")


class SealForm(forms.Form):
    """Seals a thread with a reason that riders see."""

    reason = forms.ChoiceField(
        label="Reason shown to riders",
        choices=with_placeholder(SealReason.choices, "Pick a reason"),
        error_messages={"required": "A seal needs a reason."},
    )
