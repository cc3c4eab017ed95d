"""Reference pipeline for LongMemEval-V2: long-term memory of web agents, from raw trajectories to tables."""

__version__ = "0.1.0"
