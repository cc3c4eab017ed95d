"""Application configuration of the board."""

from __future__ import annotations

from django.apps import AppConfig


class BoardConfig(AppConfig):
    """Names the application; its models live under the label ``board``."""

    name = "minibench.apps.forum.board"
    label = "board"
