"""Two cards that hold what the board knows about a thread and an entry beyond django-machina's own fields."""

from __future__ import annotations

from django.db import models


class Setup(models.TextChoices):
    """The bike that a thread is about."""

    STEEL = "steel", "Steel tourer"
    GRAVEL = "gravel", "Gravel rig"
    FOLDING = "folding", "Folding bike"
    LONGTAIL = "longtail", "Long-tail"
    TANDEM = "tandem", "Tandem"
    NONE = "none", "No bike in particular"


class Season(models.TextChoices):
    """When a thread's question matters."""

    DRY = "dry", "Dry months"
    WET = "wet", "Wet months"
    FROST = "frost", "Frost"
    YEAR = "year", "All year"


class Sureness(models.TextChoices):
    """How an answer's rider knows what it says."""

    DONE = "done", "Done it myself"
    WATCHED = "watched", "Watched it done"
    READ = "read", "Read it somewhere"
    HUNCH = "hunch", "Only a hunch"


class SealReason(models.TextChoices):
    """Why a thread takes no more answers."""

    ANSWERED = "answered", "Answered"
    STALE = "stale", "Gone stale"
    HEATED = "heated", "Overheated"
    SOLD = "sold", "Changed hands"


class ThreadCard(models.Model):
    """Setup, season, asking price (Swap Shed only) and, once sealed, the reason."""

    topic = models.OneToOneField("forum_conversation.Topic", models.CASCADE, related_name="card")
    setup = models.CharField(max_length=10, choices=Setup.choices)
    season = models.CharField(max_length=10, choices=Season.choices)
    price = models.CharField(max_length=20, blank=True)
    seal_reason = models.CharField(max_length=10, choices=SealReason.choices, blank=True)


class AnswerCard(models.Model):
    """How sure the rider of an answer is."""

    post = models.OneToOneField("forum_conversation.Post", models.CASCADE, related_name="card")
    sureness = models.CharField(max_length=10, choices=Sureness.choices)
