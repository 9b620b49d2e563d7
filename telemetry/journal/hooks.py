"""What only a process that serves work can do. All commands import this module, so it loads nothing else."""

from collections.abc import Collection

from gateway_project.hooks import Hook

# Deletes these cached answers; False if that is not certain.
forget_cached_answers: Hook[[Collection[str]], bool] = Hook("forget_cached_answers")
# Whether the database has all that any process logged before this call; waits for it.
ship_everything: Hook[[], bool] = Hook("ship_everything")
