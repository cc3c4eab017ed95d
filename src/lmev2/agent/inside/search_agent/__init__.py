"""The rule-based agent: looks for a question's evidence in a sandbox's files as a coding agent would, without a model.

The folder is shown to the sandbox as it is and run there by ``python -m search_agent``: standard library and relative
imports only. What it does depends on nothing but the files that it finds.
"""
