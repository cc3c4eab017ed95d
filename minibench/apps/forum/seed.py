"""Fills the forum's database: ``python -m minibench.apps.forum.seed``, after ``migrate`` and with its settings."""

from __future__ import annotations

import django


def main() -> None:
    """Set Django up and seed; the seeding module imports models, which only exist from then on."""
    django.setup()
    from minibench.apps.forum.board.seeding import seed_all

    seed_all()


if __name__ == "__main__":
    main()
