"""Scripted policies, one module per application, each exporting ``SCENARIOS``, ``LOGINS`` and ``SMALL``."""
