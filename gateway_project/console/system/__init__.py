"""The system page: what this installation consists of, how its parts are, and its settings."""
