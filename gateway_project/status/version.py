"""GET /version: which code this process runs, asked of git or of the file REVISION once."""

import subprocess
from functools import lru_cache
from pathlib import Path

from django.conf import settings
from rest_framework import serializers
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
        help_text="true or false by the release feed (GATEWAY_RELEASE_FEED); unknown without one, or while it fails."
    )


class VersionAnswer(serializers.Serializer):
    """The version record as it goes out."""

    data = VersionRecord()


class VersionViewSet(ApiViewSet):
    """The version record; needs no authentication."""

    resource_name = "version"
    authentication_classes = ()
    response_specs = {"list": ResponseSpec((VersionAnswer,))}

    def list(self, request, **kwargs) -> Response:
        self.filter_values()
        return Response(Plain(data=version()))


def version() -> dict[str, str]:
    """The version record. Only a release feed that was configured says whether there is an update."""
    branch, commit = revision(settings.BASE_DIR)
    return {
        "branch": branch,
        "git": commit,
        "productVersion": PRODUCT_VERSION,
        "updateAvailable": update_available(),
    }


@lru_cache(maxsize=1)
def revision(directory: Path) -> tuple[str, str]:
    """(branch, commit): the two words in the file REVISION, which images are built with, else git's; or empty."""
    try:
        branch, commit = (directory / "REVISION").read_text().split()
    except (OSError, ValueError):
        branch, commit = _git(directory, "rev-parse", "--abbrev-ref", "HEAD"), _git(directory, "rev-parse", "HEAD")
    return branch, commit


def _git(directory: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
