"""The search of the console, on every page with Ctrl K."""
