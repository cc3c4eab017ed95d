"""Fennimore Trading: a customised django-oscar shop with its staff dashboard, the "Backroom"."""
