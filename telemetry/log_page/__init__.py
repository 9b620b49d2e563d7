"""The list of the log in the console: its tabs, its periods, and the histogram above it."""
