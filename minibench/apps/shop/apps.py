"""Application configuration: applies the shop's changed forms and rules once Oscar is loaded."""

from __future__ import annotations

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Last in INSTALLED_APPS, so that Oscar's classes are there to be changed."""

    name = "minibench.apps.shop"
    label = "fennimore"

    def ready(self) -> None:
        """Change Oscar's classes, which all exist by now."""
        from minibench.apps.shop import rules

        rules.apply()
