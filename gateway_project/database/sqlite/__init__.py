"""What only SQLite needs: a lock that says who uses its file, and backups of it."""
