"""Django's backend for PostgreSQL, with connections that do not wait for ever."""
