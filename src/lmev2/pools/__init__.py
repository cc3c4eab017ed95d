"""Memory pools: what is kept of a trajectory, made once per trajectory."""
