"""Judges access tests as the pipeline judges requests, by the rows as they are stored."""
