"""The limit of open files, and what it leaves for connections."""

import resource
import subprocess
import sys

import pytest

from gateway_project.server.connections.descriptors import most_connections

RAISED = "from gateway_project.server.connections.descriptors import raise_limit; print(raise_limit())"


def test_the_limit_becomes_the_highest():
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 400))

    command = [sys.executable, "-c", RAISED]
    process = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=lower)
    assert process.stdout == "400\n"


@pytest.mark.parametrize(("files", "connections"), [(10_000, 4950), (1024, 462), (50, 1)])
def test_each_connection_may_need_one_to_a_provider(files, connections):
    assert most_connections(files) == connections
