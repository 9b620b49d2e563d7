"""Explanations as answers of the API."""
