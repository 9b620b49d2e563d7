"""The page What if: drafts are tried on recorded requests, from JSON or from the forms of rules, limits and prices."""
