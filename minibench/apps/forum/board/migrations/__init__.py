"""Migrations of the board."""
