"""Memory systems: from a question's text and image to a memory context."""
