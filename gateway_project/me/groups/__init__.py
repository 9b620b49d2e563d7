"""The pages of whoever administers a group: its service accounts with their keys, and its rules."""
