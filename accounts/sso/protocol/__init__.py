"""OpenID Connect itself: discovery, keys, the code flow and signed tokens."""
