"""The pages for admins of a group: its service accounts with their keys, and its rules."""
