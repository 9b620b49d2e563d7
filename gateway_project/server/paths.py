"""Where the console, the pages for users and the login of the management API are, without a slash at the end."""

CONSOLE = "/admin"
USER_PAGES = "/me"
LOGIN_API = "/auth/login"  # also for refreshes, which cost no hash
