"""What if: drafts of rules and related rows that are tried on recorded traffic, and the results."""
