"""Every setting once. Names in the environment are the names here; docs/settings.md lists them for operators."""

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from gateway_project.console import theme
from gateway_project.env import Env, InvalidSetting
from gateway_project.key_file import KeyFile, local_secret
from gateway_project.server.log_configuration import LOG_LEVELS, logging_configuration

env = Env(collect_problems=True)  # one error names all invalid variables
BASE_DIR = Path(__file__).resolve().parent.parent
CENTURY = 36_500 * 86_400  # in seconds: Python has no dates after the year 9999
VAR_DIR = Path(env.text("GATEWAY_VAR_DIR", str(BASE_DIR / "var")))

# -- What kind of instance this is ------------------------------------------------------------------
# "production" demands real secrets; "local" makes and keeps its own under VAR_DIR, for one machine.
GATEWAY_MODE = env.choice("GATEWAY_MODE", ("local", "production"), "local")
DEBUG = env.flag("DEBUG", False)
HOST = env.host("HOST", "127.0.0.1")
PORT = env.integer("PORT", 8000, minimum=1, maximum=65535)
WEB_CONCURRENCY = env.integer("WEB_CONCURRENCY", 1, minimum=1, maximum=256)
GATEWAY_WORKER_CLASS = env.choice("GATEWAY_WORKER_CLASS", ("thread", "gevent"), "thread")
GATEWAY_THREADS = env.integer("GATEWAY_THREADS", 1200, minimum=1, maximum=4000)
GATEWAY_DEMO_PORT = env.integer("GATEWAY_DEMO_PORT", PORT + 1 if PORT < 65535 else 8001, minimum=1, maximum=65535)
GATEWAY_BASE_URL = env.address("GATEWAY_BASE_URL", f"http://{HOST}:{PORT}")
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
ALLOWED_HOSTS = env.host_names("ALLOWED_HOSTS", ",".join(LOCAL_HOSTS))
# The peers whose X-Forwarded-For and X-Forwarded-Proto are trusted.
GATEWAY_TRUSTED_PROXIES = env.networks("GATEWAY_TRUSTED_PROXIES")


def _local_secret(name: str) -> Path | None:
    """The file of a secret that local mode generates at the first start; None in production."""
    if GATEWAY_MODE != "local" or env.problems:
        return None
    try:
        secret = local_secret(VAR_DIR / "secrets" / name)
        value = _read(secret)
    except OSError as error:
        raise InvalidSetting(
            f"GATEWAY_VAR_DIR: {error.filename} cannot be created or read: {error.strerror}."
        ) from None
    except UnicodeDecodeError:
        raise InvalidSetting(f"GATEWAY_VAR_DIR: {secret} is not UTF-8. Put the secret back.") from None
    if not value:
        raise InvalidSetting(
            f"GATEWAY_VAR_DIR: {secret} is empty. Put the secret back, or delete the file to get a new secret."
        )
    return secret


def _read(secret: Path | None) -> str:
    return secret.read_text().strip() if secret else ""


# If there is none, a placeholder that the checks refuse: with an empty key Django fails before the checks run.
SECRET_KEY = env.secret("SECRET_KEY") or _read(_local_secret("secret_key")) or "django-insecure-missing"
# While keys are rotated: what these have signed is accepted too.
SECRET_KEY_FALLBACKS = env.secret_list("SECRET_KEY_FALLBACKS")


def _token_key(secret: str) -> str:
    return hashlib.blake2b(b"gateway access tokens", key=secret.encode()[:64]).hexdigest()


# Signs access and refresh tokens; not SECRET_KEY itself, so that a leak of one does not expose the other's uses.
GATEWAY_TOKEN_KEY = env.secret("GATEWAY_TOKEN_KEY") or _token_key(SECRET_KEY)
GATEWAY_TOKEN_KEY_FALLBACKS = [*env.secret_list("GATEWAY_TOKEN_KEY_FALLBACKS"), *map(_token_key, SECRET_KEY_FALLBACKS)]
# Encrypts stored secrets, such as the credentials of providers; the first key encrypts, all of them decrypt.
GATEWAY_ENCRYPTION_KEYS: Sequence[str] = env.secret_list("GATEWAY_ENCRYPTION_KEYS")
if not GATEWAY_ENCRYPTION_KEYS and (_key_file := _local_secret("encryption_key")):
    GATEWAY_ENCRYPTION_KEYS = KeyFile(_key_file)

# -- Stores -----------------------------------------------------------------------------------------
LOCAL_DATABASE = "gateway.sqlite3"
DATABASES = {"default": env.database("DATABASE_URL", f"sqlite:///{VAR_DIR / LOCAL_DATABASE}")}
GATEWAY_DATABASE_TIMEOUT = env.seconds("GATEWAY_DATABASE_TIMEOUT", 15, minimum=1)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
REDIS_URL = env.redis("REDIS_URL")
GATEWAY_REDIS_PREFIX = env.text("GATEWAY_REDIS_PREFIX", "gateway")
GATEWAY_REDIS_TIMEOUT = env.seconds("GATEWAY_REDIS_TIMEOUT", 0.25)
GATEWAY_REDIS_CONNECTIONS = env.integer("GATEWAY_REDIS_CONNECTIONS", 64, minimum=1)
LOGIN_STORE = {"BACKEND": "accounts.guessing.stores.ProcessStore", "OPTIONS": {"MAX_ENTRIES": 50_000}}
CACHES = {
    "default": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": GATEWAY_REDIS_PREFIX,
        "OPTIONS": {
            # django-redis pickles by default, which would let anyone who can write to Redis run code here.
            "SERIALIZER": "django_redis.serializers.json.JSONSerializer",
            "SOCKET_CONNECT_TIMEOUT": GATEWAY_REDIS_TIMEOUT,
            "SOCKET_TIMEOUT": GATEWAY_REDIS_TIMEOUT,
            # The default pool of redis-py raises an error if all its connections are busy; this one waits.
            "CONNECTION_POOL_CLASS": "redis.connection.BlockingConnectionPool",
            # Each connection takes a buffer of the size of its reads, and leaves it to the garbage collector.
            "CONNECTION_POOL_KWARGS": {
                "max_connections": GATEWAY_REDIS_CONNECTIONS,
                "timeout": 2,
                "socket_read_size": 4096,
            },
        },
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 10_000}},
    # The fallback while the shared cache is away.
    "process": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "LOCATION": "process",
        "OPTIONS": {"MAX_ENTRIES": 10_000},
    },
    # For the throttle of logins without Redis. They are separate, since whoever guesses passwords can fill them.
    "login-counts": LOGIN_STORE | {"LOCATION": "login-counts"},
    "login-times": LOGIN_STORE | {"LOCATION": "login-times"},
}

# -- Applications -----------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "gateway_project.console.apps.ConsoleConfig",
    "accounts",  # before django.contrib.auth: its createsuperuser and changepassword replace those
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "gateway_project",
    "providers",
    "keys",
    "rules",
    "telemetry",
    "licensing",
]
MIDDLEWARE = [
    "gateway_project.server.middleware.assign_request_id",
    "django.middleware.security.SecurityMiddleware",
    "gateway_project.server.middleware.set_content_security_policy",
    "gateway_project.server.middleware.PageCompression",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "gateway_project.server.middleware.ErrorResponses",
]
ROOT_URLCONF = "gateway_project.urls"
WSGI_APPLICATION = "gateway_project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
            "builtins": [
                f"gateway_project.console.display.{module}"
                for module in ("times", "chart_tables", "list_filters", "devices")
            ],
        },
    }
]
AUTH_USER_MODEL = "accounts.User"
MIN_PASSWORD_LENGTH = 8
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": MIN_PASSWORD_LENGTH},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ("username", "display_name", "email")},
    },
]
PASSWORD_HASHERS = ["accounts.guessing.hashing.SingleThreadHasher"]
LANGUAGE_CODE = "en"
USE_I18N = False  # there is one language, and Django would look for a translation of each text
# Dates as the API writes them, sortable and the same everywhere; all times are UTC, and say so.
DATE_FORMAT = SHORT_DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = SHORT_DATETIME_FORMAT = r"Y-m-d H:i (\U\T\C)"
TIME_FORMAT = "H:i"
TIME_ZONE = "UTC"
USE_TZ = True
APPEND_SLASH = False  # both spellings of a path are routes; a redirect would lose the body
STATIC_URL = "/static/"
SECURE_CONTENT_TYPE_NOSNIFF = True
WHITENOISE_USE_FINDERS = True  # so that an update needs no collectstatic
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

# -- Console ----------------------------------------------------------------------------------------
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"
AUTHENTICATION_BACKENDS = ["accounts.console.Backend"]
SESSION_ENGINE = "gateway_project.console.sessions"
SESSION_COOKIE_NAME = "SvcConsole"
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = "/"  # of the console and of /me/
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Strict"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
CSRF_TRUSTED_ORIGINS = ["/".join(GATEWAY_BASE_URL.lower().split("/")[:3])]  # as in the header Origin: without a path
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = CSRF_TRUSTED_ORIGINS[0].startswith("https:")
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024  # the longest form: gateway_project.server.management_bodies
CSRF_FAILURE_VIEW = "gateway_project.error_views.refuse_csrf"
UNFOLD = theme.UNFOLD
GATEWAY_PASSWORD_LOGIN = env.choice("GATEWAY_PASSWORD_LOGIN", ("on", "off"), "on")
# The pages for users without the role admin, at /me/.
GATEWAY_USER_PAGES = env.flag("GATEWAY_USER_PAGES", True)

# -- Management API ---------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "keys.authentication.ApiKeys",
        "accounts.authentication.AccessTokens",
        "accounts.authentication.SessionCookies",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["gateway_project.api.access.TablePermission"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "gateway_project.api.documents.Negotiation",
    "DEFAULT_PARSER_CLASSES": [
        "gateway_project.api.documents.ApiParser",
        "gateway_project.api.documents.FlatParser",
    ],
    "DEFAULT_RENDERER_CLASSES": [
        "gateway_project.api.documents.ApiRenderer",
        "gateway_project.api.documents.FlatRenderer",
    ],
    "DEFAULT_PAGINATION_CLASS": "gateway_project.api.paging.ApiPagination",
    "EXCEPTION_HANDLER": "gateway_project.api.problems.handle",
    "DEFAULT_METADATA_CLASS": None,
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
JSON_API_FORMAT_FIELD_NAMES = "camelize"
SPECTACULAR_SETTINGS = {
    "OAS_VERSION": "3.1.0",
    "COMPONENT_SPLIT_REQUEST": True,  # separate schemas for requests and responses
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
}

# -- Work requests ----------------------------------------------------------------------------------
GATEWAY_MAX_BODY_BYTES = env.integer("GATEWAY_MAX_BODY_BYTES", 32 * 1024 * 1024, minimum=1024)
GATEWAY_MAX_BODIES_BYTES = env.integer("GATEWAY_MAX_BODIES_BYTES", 512 * 1024 * 1024)
GATEWAY_MAX_RESPONSE_BYTES = env.integer("GATEWAY_MAX_RESPONSE_BYTES", 64 * 1024 * 1024, minimum=1024)
GATEWAY_REQUIRED_FIELDS = env.names("GATEWAY_REQUIRED_FIELDS", "model")
GATEWAY_CONNECT_TIMEOUT = env.seconds("GATEWAY_CONNECT_TIMEOUT", 5)
GATEWAY_FIRST_BYTE_TIMEOUT = env.seconds("GATEWAY_FIRST_BYTE_TIMEOUT", 120)
GATEWAY_IDLE_TIMEOUT = env.seconds("GATEWAY_IDLE_TIMEOUT", 60)
GATEWAY_TOTAL_TIMEOUT = env.seconds("GATEWAY_TOTAL_TIMEOUT", 600)
GATEWAY_ANTHROPIC_MAX_TOKENS = env.integer("GATEWAY_ANTHROPIC_MAX_TOKENS", 8192, minimum=1)
GATEWAY_HEARTBEAT = env.seconds("GATEWAY_HEARTBEAT", 15)
GATEWAY_GRACEFUL_TIMEOUT = env.seconds("GATEWAY_GRACEFUL_TIMEOUT", 60, minimum=1)
GATEWAY_MIN_BODY_RATE = env.integer("GATEWAY_MIN_BODY_RATE", 64 * 1024, minimum=1)
GATEWAY_CONNECTIONS_PER_ADDRESS = env.integer("GATEWAY_CONNECTIONS_PER_ADDRESS", 0)
GATEWAY_CLIENT_TIMEOUT = env.seconds("GATEWAY_CLIENT_TIMEOUT", 20, minimum=1)
GATEWAY_PROVIDER_NETWORKS = env.choice("GATEWAY_PROVIDER_NETWORKS", ("any", "public"), "any")
GATEWAY_BREAKER_FAILURES = env.integer("GATEWAY_BREAKER_FAILURES", 5, minimum=1)
GATEWAY_BREAKER_COOLDOWN = env.seconds("GATEWAY_BREAKER_COOLDOWN", 15)
GATEWAY_RETRY_PERCENT = env.integer("GATEWAY_RETRY_PERCENT", 10, maximum=100)
GATEWAY_CACHE_SCOPE = env.choice("GATEWAY_CACHE_SCOPE", ("global", "group", "user", "key"), "global")
GATEWAY_CACHE_TTL = env.integer("GATEWAY_CACHE_TTL", 3600, maximum=CENTURY)
GATEWAY_CACHE_MAX_BYTES = env.integer("GATEWAY_CACHE_MAX_BYTES", 128 * 1024 * 1024)
GATEWAY_CACHE_MAX_ENTRY_BYTES = env.integer("GATEWAY_CACHE_MAX_ENTRY_BYTES", 8 * 1024 * 1024)
GATEWAY_SNAPSHOT_INTERVAL = env.seconds("GATEWAY_SNAPSHOT_INTERVAL", 0.4, maximum=1)
GATEWAY_SNAPSHOT_KEYS = env.integer("GATEWAY_SNAPSHOT_KEYS", 250_000, minimum=1)

# -- Limits -----------------------------------------------------------------------------------------
GATEWAY_KEY_REQUESTS_PER_MINUTE = env.integer("GATEWAY_KEY_REQUESTS_PER_MINUTE", 600)
# For subjects without their own limit of that kind: "tokens/minute=20000, cost/month=12.50, concurrent=5".
GATEWAY_LIMITS = {
    "key": {("requests", "minute"): Decimal(GATEWAY_KEY_REQUESTS_PER_MINUTE)} | env.limits("GATEWAY_KEY_LIMITS"),
    "user": env.limits("GATEWAY_USER_LIMITS"),
    "group": env.limits("GATEWAY_GROUP_LIMITS"),
    "provider": env.limits("GATEWAY_PROVIDER_LIMITS"),
}
# Defaults that keep one user from using all capacity. They apply to users who have no limit of that kind, neither their
# own nor one of GATEWAY_USER_LIMITS.
# An eighth of all threads, but with few threads a quarter of them up to 16, and at least 4: a single program sends
# several requests at once.
GATEWAY_USER_CONCURRENT = env.integer(
    "GATEWAY_USER_CONCURRENT",
    max(4, WEB_CONCURRENCY * GATEWAY_THREADS // 8, min(16, WEB_CONCURRENCY * GATEWAY_THREADS // 4)),
)
GATEWAY_USER_REQUESTS_PER_MINUTE = env.integer(
    "GATEWAY_USER_REQUESTS_PER_MINUTE", min(10 * GATEWAY_KEY_REQUESTS_PER_MINUTE, 2**53)
)
# For all access tokens of a user together: they have no key whose limits apply.
GATEWAY_LOGIN_REQUESTS_PER_MINUTE = env.integer("GATEWAY_LOGIN_REQUESTS_PER_MINUTE", GATEWAY_KEY_REQUESTS_PER_MINUTE)
GATEWAY_GUARDS = {
    "login": {("requests", "minute"): Decimal(GATEWAY_LOGIN_REQUESTS_PER_MINUTE)},
    "user": {
        ("requests", "minute"): Decimal(GATEWAY_USER_REQUESTS_PER_MINUTE),
        ("concurrent", "none"): Decimal(GATEWAY_USER_CONCURRENT),
    },
}
# The tokens reserved for the answer to a request that does not limit its length.
GATEWAY_RESERVED_OUTPUT_TOKENS = env.integer("GATEWAY_RESERVED_OUTPUT_TOKENS", 1024)
# The number of processes on all machines, which share each limit while Redis is down; 0: count them in Redis.
GATEWAY_PROCESSES = env.integer("GATEWAY_PROCESSES", 0)

# -- Bounds on what callers make --------------------------------------------------------------------
GATEWAY_MAX_KEYS_PER_USER = env.integer("GATEWAY_MAX_KEYS_PER_USER", 500)
GATEWAY_MAX_ACCESS_REQUESTS = env.integer("GATEWAY_MAX_ACCESS_REQUESTS", 10)
GATEWAY_MAX_MODELS_PER_PROVIDER = env.integer("GATEWAY_MAX_MODELS_PER_PROVIDER", 1000, minimum=1)
GATEWAY_WRITES_PER_MINUTE = env.integer("GATEWAY_WRITES_PER_MINUTE", 600)
GATEWAY_REVOCATION_TIMEOUT = env.seconds("GATEWAY_REVOCATION_TIMEOUT", 10, maximum=60)

# -- Licence ----------------------------------------------------------------------------------------
# The vendor's public key: without it, no licence key verifies.
GATEWAY_LICENCE_PUBLIC_KEY = env.text("GATEWAY_LICENCE_PUBLIC_KEY")
# For installations without a licence.
GATEWAY_MAX_ACTIVE_USES = env.integer("GATEWAY_MAX_ACTIVE_USES", 0, maximum=10**9)
GATEWAY_ACTIVE_USE_SECONDS = env.integer("GATEWAY_ACTIVE_USE_SECONDS", 300, minimum=1, maximum=366 * 24 * 3600)

# -- Log --------------------------------------------------------------------------------------------
GATEWAY_LOG_PAYLOAD = env.choice("GATEWAY_LOG_PAYLOAD", ("full", "redacted", "none"), "full")
GATEWAY_LOG_PAYLOAD_MAX_BYTES = env.integer("GATEWAY_LOG_PAYLOAD_MAX_BYTES", 64 * 1024)
GATEWAY_STATS_TAGS = env.names("GATEWAY_STATS_TAGS", "*")
GATEWAY_STATS_TAG_NAMES = env.integer("GATEWAY_STATS_TAG_NAMES", 100)
GATEWAY_STATS_TAG_VALUES = env.integer("GATEWAY_STATS_TAG_VALUES", 1000)
GATEWAY_LOG_DAYS = env.integer("GATEWAY_LOG_DAYS", 0, maximum=36_500)
GATEWAY_REFUSAL_ENTRIES = env.integer("GATEWAY_REFUSAL_ENTRIES", 5)
GATEWAY_REFUSAL_DAYS = env.integer("GATEWAY_REFUSAL_DAYS", 30, maximum=36_500)
GATEWAY_AUDIT_DAYS = env.integer("GATEWAY_AUDIT_DAYS", 0, maximum=36_500)
GATEWAY_PAYLOAD_DAYS = env.integer("GATEWAY_PAYLOAD_DAYS", 0, maximum=36_500)
GATEWAY_CACHE_RECORD_DAYS = env.integer("GATEWAY_CACHE_RECORD_DAYS", 30, maximum=36_500)
GATEWAY_STORED_RESPONSE_DAYS = env.integer("GATEWAY_STORED_RESPONSE_DAYS", 30, maximum=36_500)
GATEWAY_MAX_GROUP_RULES = env.integer("GATEWAY_MAX_GROUP_RULES", 100)
GATEWAY_RULE_VERSIONS = env.integer("GATEWAY_RULE_VERSIONS", 100, minimum=1)
GATEWAY_SHARED_PROVIDER_FILES = env.flag("GATEWAY_SHARED_PROVIDER_FILES", False)
GATEWAY_HOUSEKEEPING_INTERVAL = env.seconds("GATEWAY_HOUSEKEEPING_INTERVAL", 60)
GATEWAY_LOG_INTERVAL = env.seconds("GATEWAY_LOG_INTERVAL", 0.5, maximum=60)
GATEWAY_JOURNAL_DIR = Path(env.text("GATEWAY_JOURNAL_DIR", str(VAR_DIR / "journal")))
GATEWAY_JOURNAL_SEGMENT_BYTES = env.integer("GATEWAY_JOURNAL_SEGMENT_BYTES", 4 * 1024 * 1024, minimum=64 * 1024)

# -- Tokens -----------------------------------------------------------------------------------------
GATEWAY_ACCESS_TOKEN_SECONDS = env.integer("GATEWAY_ACCESS_TOKEN_SECONDS", 15 * 60, minimum=1, maximum=CENTURY)
GATEWAY_REFRESH_TOKEN_SECONDS = env.integer("GATEWAY_REFRESH_TOKEN_SECONDS", 7 * 24 * 3600, minimum=1, maximum=CENTURY)
GATEWAY_LOGIN_FAILURES = env.integer("GATEWAY_LOGIN_FAILURES", 10, minimum=1)
GATEWAY_LOGIN_FAILURES_PER_ADDRESS = env.integer("GATEWAY_LOGIN_FAILURES_PER_ADDRESS", 100, minimum=1)
GATEWAY_LOGIN_FAILURES_PER_ACCOUNT = env.integer("GATEWAY_LOGIN_FAILURES_PER_ACCOUNT", 20, minimum=1)
GATEWAY_SESSION_DAYS = env.integer("GATEWAY_SESSION_DAYS", 30, minimum=1, maximum=36_500)
GATEWAY_MAX_SESSIONS_PER_USER = env.integer("GATEWAY_MAX_SESSIONS_PER_USER", 50)
GATEWAY_KEY_DAYS = env.integer("GATEWAY_KEY_DAYS", 365, minimum=1, maximum=36_500)
GATEWAY_KEY_MAX_DAYS = env.integer("GATEWAY_KEY_MAX_DAYS", 0, maximum=36_500)

# -- Directory --------------------------------------------------------------------------------------
# The bearer token of the directory that manages users and groups with SCIM; without it nobody can.
GATEWAY_SCIM_TOKEN = env.secret("GATEWAY_SCIM_TOKEN")

# -- Single sign-on ---------------------------------------------------------------------------------
# One identity provider from the environment; more are in the console.
GATEWAY_OIDC_ISSUER = env.text("GATEWAY_OIDC_ISSUER")
GATEWAY_OIDC_NAME = env.text("GATEWAY_OIDC_NAME", "single sign-on")
GATEWAY_OIDC_CLIENT_ID = env.text("GATEWAY_OIDC_CLIENT_ID")
GATEWAY_OIDC_CLIENT_SECRET = env.secret("GATEWAY_OIDC_CLIENT_SECRET")
GATEWAY_OIDC_SCOPES = env.text("GATEWAY_OIDC_SCOPES", "openid profile email")
GATEWAY_OIDC_USER_NAME_CLAIM = env.text("GATEWAY_OIDC_USER_NAME_CLAIM", "preferred_username")
GATEWAY_OIDC_DISPLAY_NAME_CLAIM = env.text("GATEWAY_OIDC_DISPLAY_NAME_CLAIM", "name")
GATEWAY_OIDC_EMAIL_CLAIM = env.text("GATEWAY_OIDC_EMAIL_CLAIM", "email")
GATEWAY_OIDC_CREATE_USERS = env.flag("GATEWAY_OIDC_CREATE_USERS", False)
GATEWAY_OIDC_MATCH_USER_NAMES = env.flag("GATEWAY_OIDC_MATCH_USER_NAMES", False)
# One rule a line, or with a semicolon between them.
GATEWAY_OIDC_RULES = env.text("GATEWAY_OIDC_RULES").replace(";", "\n")
GATEWAY_OIDC_TIMEOUT = env.seconds("GATEWAY_OIDC_TIMEOUT", 10, maximum=60)

# -- Metrics ----------------------------------------------------------------------------------------
GATEWAY_METRICS_TOKEN = env.secret("GATEWAY_METRICS_TOKEN")

# -- Releases ---------------------------------------------------------------------------------------
GATEWAY_RELEASE_FEED = env.location("GATEWAY_RELEASE_FEED")

# -- Output of the server ---------------------------------------------------------------------------
GATEWAY_LOG_LEVEL = env.choice("GATEWAY_LOG_LEVEL", LOG_LEVELS, "INFO")
LOGGING = logging_configuration(GATEWAY_LOG_LEVEL)

# The checks warn of these: they are set and have no effect.
MISSPELT = env.misspelt_variables()

env.raise_problems()
