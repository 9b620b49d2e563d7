"""A copy of what a state knows of limits, for reading: nothing is taken, and no window begins."""

from typing import NamedTuple


class Figures(NamedTuple):
    """What has been counted of one check.

    Of a count: what is used and reserved, since when it has been counted (None if it has not begun), whether what was
    used before is lost, when its limit was set (ms), and what the log will tell too. Of leases and uses: how many are
    live, whether the check's member has one, and when the first of them ends.
    """

    usage: int = 0
    reserved: int = 0
    since: float | None = None
    is_lost: bool = False
    set_at: int = 0
    early: int = 0
    is_member: bool = False
    ends_at: float = 0.0
