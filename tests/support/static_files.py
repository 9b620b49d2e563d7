"""Finds the static files once a process: Django makes the middleware anew for each client, which looks for 200."""

from typing import Any

from whitenoise.middleware import WhiteNoiseMiddleware


def find_static_files_once() -> None:
    """From now on, clients of this process share what the first one has found."""
    find, files = WhiteNoiseMiddleware.add_files_from_finders, dict[str, Any]()

    def add_files(middleware: WhiteNoiseMiddleware) -> None:
        if not files:
            find(middleware)
            files.update(middleware.files)
        middleware.files.update(files)

    WhiteNoiseMiddleware.add_files_from_finders = add_files
