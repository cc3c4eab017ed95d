"""The HTML report of a run: a folder of static pages that need no network."""
