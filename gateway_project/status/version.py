"""GET /version: which code this process runs, read once from git or from the file REVISION."""

import subprocess
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from django.db.models import Model
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_project import PRODUCT_VERSION
from gateway_project.api.documents import Plain
from gateway_project.api.response_specs import ResponseSpec
from gateway_project.api.viewsets import ApiViewSet
from gateway_project.work.runtime import update_available


class VersionRecord(serializers.Serializer):
    """Which code runs."""

    branch = serializers.CharField()
    git = serializers.CharField()
    product_version = serializers.CharField()
    update_available = serializers.CharField(
        help_text="true or false as the release feed (GATEWAY_RELEASE_FEED) says; unknown without a feed, or while it "
        "fails."
    )


class VersionAnswer(serializers.Serializer):
    """The body of the response."""

    data = VersionRecord()  # type: ignore[assignment]  # DRF has a property of this name, which a field replaces


class VersionViewSet(ApiViewSet[Model]):
    """The version record; needs no authentication."""

    resource_name = "version"
    authentication_classes = ()
    response_specs = {"list": ResponseSpec((VersionAnswer,))}

    def list(self, request: Request, **kwargs: str) -> Response:
        self.filter_values()
        return Response(Plain(data=version()))


def version() -> dict[str, str]:
    """The version record. Only a configured release feed says whether an update is available."""
    branch, commit = revision(settings.BASE_DIR)
    return {
        "branch": branch,
        "git": commit,
        "productVersion": PRODUCT_VERSION,
        "updateAvailable": update_available(),
    }


@lru_cache(maxsize=1)
def revision(directory: Path) -> tuple[str, str]:
    """(branch, commit) from the file REVISION, which images contain, or else from git; empty if both fail."""
    try:
        branch, commit = (directory / "REVISION").read_text().split()
    except (OSError, ValueError):
        branch, commit = _git(directory, "rev-parse", "--abbrev-ref", "HEAD"), _git(directory, "rev-parse", "HEAD")
    return branch, commit


def _git(directory: Path, *arguments: str) -> str:
    try:
        git = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return git.stdout.strip()
