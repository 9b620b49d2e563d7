"""The files that the process may have open: each connection is one."""

import contextlib
import errno
import resource
import sys

# accept() fails with one of these while the process, or the machine, can have no more.
OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
RESERVED = 100  # for the database, Redis, the journal and logs


def raise_limit() -> int:
    """Let the process open as many as it may at most, and return their number: usual limits are far lower."""
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def most_connections(files: int) -> int:
    """How many clients may be connected, each of which may need a connection to a provider as well."""
    return max((files - RESERVED) // 2, 1)
