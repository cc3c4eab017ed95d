"""Scoring: scorer specs, answer extraction, the deterministic scorers, the two LLM judges and the score rows."""
