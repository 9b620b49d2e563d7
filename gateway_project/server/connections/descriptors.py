"""The files and connections that the process may have open."""

import contextlib
import errno
import resource

# accept() fails with one of these while the process, or the machine, can have no more.
OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def raise_limit() -> None:
    """Let the process open as many as it may at most: usual limits are a quarter of the connections that it accepts."""
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
