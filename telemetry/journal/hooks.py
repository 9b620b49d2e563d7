"""What only a process can do that serves work; a module of its own, since all commands import it."""

from collections.abc import Collection

from gateway_project.hooks import Hook

# Deletes these cached answers; False if that is not certain.
forget_cached_answers: Hook[[Collection[str]], bool] = Hook("forget_cached_answers")
# Whether the database has all that any process logged before this call; waits for it.
ship_everything: Hook[[], bool] = Hook("ship_everything")
