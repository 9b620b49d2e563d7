"""The paths of monitoring, each with the function that wsgi.py calls and the view for every other server."""

from collections.abc import Callable
from typing import NamedTuple
from wsgiref.types import WSGIEnvironment

from gateway_project.api.openapi.endpoints import View
from gateway_project.server.http_delivery import Delivery
from gateway_project.status import health, metrics


class MonitoringPath(NamedTuple):
    """One path; `respond` takes the environment of WSGI and needs no middleware."""

    respond: Callable[[WSGIEnvironment], Delivery]
    view: View


MONITORING_PATHS = {
    "healthz": MonitoringPath(health.check_liveness, health.healthz),
    "readyz": MonitoringPath(health.check_readiness, health.readyz),
    "metrics": MonitoringPath(metrics.answer, metrics.metrics),
}
