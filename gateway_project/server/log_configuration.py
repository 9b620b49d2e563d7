"""What the server writes to its output, for the setting LOGGING of Django; the filters are in logs.py."""

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# Loggers of "gateway.<name>", and of PostgreSQL's pool, that may write a line for each request of anybody.
LOGGED_ONCE_PER_MINUTE = ("hosts", "journal", "pool", "connections", "malformed")


def logging_configuration(level: str) -> dict[str, object]:
    """The configuration for logging.config.dictConfig(); `level`, of LOG_LEVELS, is that of the gateway's loggers."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "{asctime} {levelname} {name}[{process}]: {message}", "style": "{"}},
        "filters": {
            "refusals": {"()": "gateway_project.server.logs.SkipUnavailable"},
            **{name: {"()": "gateway_project.server.logs.OncePerMinute"} for name in LOGGED_ONCE_PER_MINUTE},
            **{name: {"()": "gateway_project.server.logs.EachOncePerMinute"} for name in ("sso", "login", "security")},
        },
        "handlers": {
            "console": {"class": "logging.StreamHandler", "formatter": "plain"},
            "security": {"class": "logging.StreamHandler", "formatter": "plain", "filters": ["security"]},
        },
        "root": {"handlers": ["console"], "level": "WARNING"},
        "loggers": {
            "gateway": {"level": level},
            # Refused requests are in the request log already.
            "django.request": {"level": "ERROR", "filters": ["refusals"]},
            # Django logs a traceback for each such request, which anyone can send; error_views.py logs one line.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
            # Its loggers write a line, or a traceback, for each forged or malformed form. A filter of the handler sees
            # the records of all of them.
            "django.security": {"handlers": ["security"], "propagate": False},
            "gateway.sso": {"filters": ["sso"]},
            "gateway.login": {"filters": ["login"]},
            "gateway.hosts": {"filters": ["hosts"]},
            "gateway.connections": {"filters": ["connections"]},
            "gateway.malformed": {"filters": ["malformed"]},
            # It logs a line for each refused request.
            "gateway.journal": {"filters": ["journal"]},
            # Several lines a second while PostgreSQL is away; the snapshot says when it went and when it is back.
            "psycopg.pool": {"filters": ["pool"]},
        },
    }
