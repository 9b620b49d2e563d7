"""Rules as they were: one version for each change, with who made it and when."""
