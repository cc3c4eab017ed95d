"""minibench: records the shipped data root from three customised open-source web applications.

Runs in its own environment (``minibench/requirements.lock``), never in the project's. See ``minibench/README.md``.
"""
