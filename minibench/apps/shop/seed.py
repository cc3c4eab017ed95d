"""Seeds the freshly migrated shop: ``python -m minibench.apps.shop.seed``."""

from __future__ import annotations

import os

import django


def main() -> None:
    """Set Django up and fill the shop; models can only be imported in between."""
    os.environ["MINIBENCH_SEEDING"] = "1"  # index once at the end, not at every save
    django.setup()
    from minibench.apps.shop import content

    content.fill()


if __name__ == "__main__":
    main()
