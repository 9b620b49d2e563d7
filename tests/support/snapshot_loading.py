"""Snapshots for the tests of what they load."""

from gateway_project.work.limits.kinds import Subject
from gateway_project.work.snapshot import loading
from gateway_project.work.snapshot.records import Snapshot


def loaded(kind="key"):
    snapshot = Snapshot()
    loading.load_rows(snapshot, kind, {0})
    return snapshot


def amounts(limits, kind, subject_id):
    checks = limits.checks_for(Subject(kind, subject_id))
    return {f"{check.limit.measure} a {check.limit.window}": check.amount for check in checks}
