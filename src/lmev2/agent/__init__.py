"""Coding agents as memories: sandboxes, the agents in them, and what they hand in (paper, Tables 8, 10, 11)."""
