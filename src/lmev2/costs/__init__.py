"""What a run will ask of its models: calls, tokens, GPU hours and money by stage, before any job has run."""
