"""A reader of the change feed, as each process of the gateway is one."""

from django.db import connection

from gateway_project.change_feed.feed import ChangeFeed
from gateway_project.change_feed.triggers import KINDS

EVERYTHING = {kind: {0} for kind in KINDS}


class Reader:
    """A process that keeps a copy: news() is what it learns since it last asked."""

    def __init__(self, on=connection):
        self.feed = ChangeFeed(on)
        self.position = self.feed.position()

    def news(self):
        changes, self.position = self.feed.read_since(self.position)
        return changes


def execute(sql, *params, on=connection):
    with on.cursor() as cursor:
        cursor.execute(sql, params)
