"""Goal sanitisation (paper, Table 3): goals that spell out the route to take are rewritten without it.

Goals of WorkArena++ tasks name applications, modules and menu paths and number the steps, which would give away the
answers of procedure questions. :func:`lmev2.goals.sanitize.sanitize` rewrites a goal by rules,
:mod:`lmev2.goals.model` by a model, :func:`lmev2.goals.check.check` judges either result without knowing how it was
made, and :func:`lmev2.goals.trees.rewrite_tree` rewrites the copies of a goal that pages show.
"""
