"""Lanternwheel, a customised django-machina board for bicycle touring and repair."""
