"""Chat and embedding backends behind one interface, with cache, retry and typed failures."""
