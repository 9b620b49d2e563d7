"""Issuers outside of the gateway whose tokens are accepted for work: clusters, clouds, portals."""
