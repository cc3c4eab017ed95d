"""What a run was made from."""
