"""Keys and tokens by their form, with the checksum or the entropy that real ones have."""

from gateway_project.work.guardrails.detectors.kinds.checks import (
    Check,
    base62_crc32,
    check_if,
    grafana_crc32,
    is_bech32,
    is_discord_token,
    is_jwt,
    is_random,
)
from gateway_project.work.guardrails.detectors.kinds.scanner import Kind
from keys import secrets as gateway_keys

_RANDOM = is_random(3.0)
_HEX = is_random(2.8)
# A name, an assignment and perhaps a quote; then the value is the match.
_ASSIGNED = r"[\"']{0,1}\s{0,3}(?:[:=]|=>|:=)\s{0,3}[\"'`]{0,1}"


def _token(name: str, prefix: str, rest: str, check: Check = _RANDOM) -> Kind:
    """A kind whose prefix says which it is."""
    return Kind(name, prefix + rest, prefix, check)


SECRET_KINDS = (
    _token(
        "gateway_key",
        "svc_",
        r"[0-9A-Za-z]{10}_[0-9A-Za-z]{49}\b",
        check_if(lambda text: gateway_keys.parse_key(text) is not None),
    ),
    _token("aws_access_key", "(?:AKIA|ASIA|ABIA|ACCA)", r"[A-Z2-7]{16}\b"),
    Kind(
        "aws_secret_key",
        rf"(?i:secret_?(?:access_?)?key){_ASSIGNED}([A-Za-z0-9/+]{{40}})",
        r"(?i:secret_?(?:access_?)?key)",
        is_random(3.5),
    ),
    _token("github_token", "gh[opsru]_", r"[0-9A-Za-z]{36}\b", check_if(base62_crc32)),
    _token("github_pat", "github_pat_", r"[0-9A-Za-z]{22}_[0-9A-Za-z]{59}\b"),
    _token("gitlab_token", "gl(?:pat|dt|rt|ptt|agent|ft|soat|cbt|imt)-", r"[\w-]{20,64}(?:\.[\w.]{2,20})?"),
    _token("npm_token", "npm_", r"[0-9A-Za-z]{36}\b", check_if(base62_crc32)),
    _token("pypi_token", "pypi-AgE", r"[\w-]{50,250}"),
    _token("rubygems_key", "rubygems_", r"[0-9a-f]{48}\b", _HEX),
    _token("docker_token", "dckr_(?:pat|oat)_", r"[\w-]{27,40}"),
    _token("slack_token", r"xox[abeoprs]-", r"[0-9A-Za-z-]{20,120}"),
    _token("slack_app_token", r"xapp-\d-", r"[0-9A-Z]{8,14}-\d{8,16}-[0-9a-f]{60,64}", _HEX),
    _token("slack_webhook", r"https://hooks\.slack\.com/", r"(?:services|workflows|triggers)/[0-9A-Za-z/+]{30,80}"),
    _token("discord_webhook", r"https://discord(?:app)?\.com/api/webhooks/", r"\d{17,20}/[\w-]{60,80}"),
    Kind(
        "discord_token",
        r"[MNO][\w-]{22,27}\.[\w-]{6}\.[\w-]{27,40}",
        r"[MNO][\w-]{22,27}\.[\w-]{6}\.",
        check_if(is_discord_token),
    ),
    Kind("telegram_token", r"\d{8,10}:AA[\w-]{33}", r"\d{8,10}:AA", _RANDOM),
    _token("stripe_key", "(?:sk|rk)_(?:live|test)_", r"[0-9A-Za-z]{16,120}\b"),
    _token("webhook_secret", "whsec_", r"[0-9A-Za-z/+]{24,64}={0,2}"),
    _token("square_token", "sq0(?:atp|csp)-", r"[\w-]{22,43}"),
    _token("shopify_token", "shp(?:at|ca|pa|ss)_", r"[0-9a-fA-F]{32}\b", _HEX),
    _token("anthropic_key", "sk-ant-", r"(?:api|admin|sid)\d{2}-[\w-]{80,120}"),
    _token("openai_key", "sk-", r"(?:proj-|svcacct-|admin-|None-)?[\w-]{16,160}T3BlbkFJ[\w-]{16,160}"),
    _token("openrouter_key", "sk-or-v1-", r"[0-9a-f]{64}\b", _HEX),
    _token("google_api_key", "AIza", r"[\w-]{35}"),
    _token("google_oauth_secret", "GOCSPX-", r"[\w-]{28}"),
    _token("google_oauth_token", r"ya29\.", r"[\w-]{30,300}"),
    _token("huggingface_token", "hf_", r"[A-Za-z]{34}\b"),
    _token("groq_key", "gsk_", r"[0-9A-Za-z]{52}\b"),
    _token("xai_key", "xai-", r"[0-9A-Za-z]{70,90}\b"),
    _token("perplexity_key", "pplx-", r"[0-9A-Za-z]{40,64}\b"),
    _token("replicate_token", "r8_", r"[0-9A-Za-z]{37}\b"),
    _token("sendgrid_key", r"SG\.", r"[\w-]{22}\.[\w-]{43}"),
    _token("twilio_key", r"SK[0-9a-f]{4}", r"[0-9a-f]{28}\b", _HEX),
    _token("mailgun_key", r"key-[0-9a-f]{4}", r"[0-9a-f]{28}\b", _HEX),
    Kind("mailchimp_key", r"[0-9a-f]{32}-us\d{1,2}\b", r"[0-9a-f]{32}-us", _HEX),
    _token("digitalocean_token", "do[opr]_v1_", r"[0-9a-f]{64}\b", _HEX),
    _token("heroku_key", "HRKU-AA", r"[\w-]{58}"),
    _token("azure_storage_key", "AccountKey=", r"[0-9A-Za-z/+]{86}=="),
    Kind("azure_client_secret", r"[\w~.]{3}\dQ~[\w~.-]{31,34}", r"[\w~.]{3}\dQ~", _RANDOM),
    _token("vault_token", r"hv[sbr]\.", r"[\w-]{24,200}"),
    Kind("terraform_token", r"[0-9A-Za-z]{14}\.atlasv1\.[\w-]{60,70}", r"[0-9A-Za-z]{14}\.atlasv1\.", _RANDOM),
    _token("databricks_token", "dapi[0-9a-f]{4}", r"[0-9a-f]{28}(?:-\d)?\b", _HEX),
    _token("linear_key", "lin_api_", r"[0-9A-Za-z]{40}\b"),
    _token("notion_token", "ntn_", r"[0-9A-Za-z]{43,50}\b"),
    _token("figma_token", "figd_", r"[\w-]{38,60}"),
    _token("doppler_token", r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"(?:[\w-]{2,35}\.)?[0-9A-Za-z]{40,44}\b"),
    _token("grafana_token", "glsa_", r"[0-9A-Za-z]{32}_[0-9a-f]{8}\b", check_if(grafana_crc32)),
    _token("grafana_cloud_token", "glc_eyJ", r"[0-9A-Za-z/+]{40,400}={0,2}"),
    _token("newrelic_key", "NRAK-", r"[0-9A-Z]{27}\b"),
    _token("sentry_token", "sntry[su]_", r"[\w+/=-]{60,300}"),
    _token("atlassian_token", "ATATT3", r"[\w=-]{60,220}"),
    _token("age_key", "AGE-SECRET-KEY-1", "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}", check_if(is_bech32)),
    _token("jwt", "eyJ", r"[\w-]{10,}\.[\w-]{10,}\.[\w-]{20,}", check_if(is_jwt)),
    Kind(
        "private_key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nrt])*[0-9A-Za-z+/=]{4}"
        r"(?:[0-9A-Za-z+/=:,.\s\\]|-[0-9A-Za-z])*(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        r"-----BEGIN ",
        begins_word=False,
    ),
    Kind(
        "connection_string",
        r"[a-z][a-z0-9+]{1,20}://[^\s:/@\"'<>]{0,64}:[^\s/@\"'<>]{3,128}@[\w.-]{1,253}",
        r"[a-z][a-z0-9+]{1,20}://[^\s:/@\"'<>]*:[^\s/@\"'<>]+@",
        is_random(2.0),
    ),
    Kind(
        "password",
        rf"(?i:(?:passwo?r?d|passphrase|secret|token|api[_-]?key)){_ASSIGNED}([^\s\"'`,;<>(){{}}\[\]]{{8,128}})",
        rf"(?i:(?:passwo?r?d|passphrase|secret|token|api[_-]?key)){_ASSIGNED}[^\s\"'`]",
        is_random(2.75),
    ),
)
