"""The second factor of logins with a password: authenticator apps, passkeys and recovery codes."""
