"""Measurements of speed and memory. No part of the pipeline: nothing in it imports this."""
