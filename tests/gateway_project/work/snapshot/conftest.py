"""Snapshots, and rows that they load."""

import pytest

from accounts.services import create_user
from gateway_project.work.snapshot.records import Snapshot
from providers.services import (
    add_credential,
    create_provider,
)


@pytest.fixture
def snapshot():
    return Snapshot()


@pytest.fixture
def ann():
    return create_user(username="ann", password="a long pass phrase")


@pytest.fixture
def provider_of_accounts():
    row = create_provider(
        name="p", url="https://api.example.org/v1", format_name="openai", credential="sk-own-account", models=["m"]
    )
    add_credential(provider=row, name="second", credential="sk-second-account", weight=5)
    add_credential(provider=row, name="off", credential="sk-disabled-account", enabled=False)
    return row
