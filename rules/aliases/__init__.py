"""Aliases: names that clients ask for, each with the models that serve it."""
