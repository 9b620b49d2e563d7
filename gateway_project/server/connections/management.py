"""The share of the request threads and of the interpreter that management requests may take: work needs the others."""

from django.conf import settings

from gateway_project.server.connections.addresses import Places
from gateway_project.server.connections.turns import Turns

SHARE = 4  # of the threads, a quarter; of these, one address may take half
FEW_THREADS = 32  # a quarter of few threads would be less than two browsers open connections
BROWSER_CONNECTIONS = 6  # on which one browser loads a page and what belongs to it
TOO_MANY = "Too many requests of the management API and the console are in progress. Try again in a few seconds."


def management_places(threads: int) -> Places:
    """The places of a process with so many request threads."""
    total = max(threads // SHARE, min(FEW_THREADS, threads // 2), min(BROWSER_CONNECTIONS + 2, threads - 1), 1)
    return Places(total, max(total // 2, min(BROWSER_CONNECTIONS, total)), TOO_MANY)


# Of this process: all that Django answers, and lists of models.
MANAGEMENT = management_places(settings.GATEWAY_THREADS)
# Of those that Django answers. A view that waits, for a provider or a long query, keeps its turn for so long.
TURNS = Turns(total=1, seconds=0.1)
