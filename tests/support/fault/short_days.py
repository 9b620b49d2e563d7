"""The gateway's settings for the soak: what is kept for days is kept for half a minute."""

from gateway_project.settings import *  # noqa: F403

HALF_A_MINUTE = 0.5 / (24 * 60)
SHORT_DAYS = (
    "GATEWAY_PAYLOAD_DAYS",
    "GATEWAY_CACHE_RECORD_DAYS",
    "GATEWAY_STORED_RESPONSE_DAYS",
    "GATEWAY_SESSION_DAYS",
    "GATEWAY_KEY_DAYS",
    "GATEWAY_KEY_MAX_DAYS",
)
globals().update(dict.fromkeys(SHORT_DAYS, HALF_A_MINUTE))
