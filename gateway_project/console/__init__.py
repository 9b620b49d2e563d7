"""The admin console: its site, its look, and what all its pages share."""
