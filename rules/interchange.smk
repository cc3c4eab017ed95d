"""Run folders of the public harness, and leaderboard packages."""
