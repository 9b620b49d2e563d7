"""Dates as the API writes them, sortable and the same everywhere; all times are UTC, and say so."""

DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = r"Y-m-d H:i (\U\T\C)"
TIME_FORMAT = "H:i"
