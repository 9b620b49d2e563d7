"""What if: drafts of rules and of what goes with them, to be tried on recorded traffic; what came of it."""
