"""HTTP/1.1 with clients: gunicorn's, corrected where it surprises them or costs too much."""
