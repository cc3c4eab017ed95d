"""Interchange with the public harness: run folders written and read, and leaderboard packages."""
