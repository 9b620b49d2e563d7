"""OpenID Connect itself: discovery, keys, the code flow and signed tokens.

Authlib and its joserfc are imported where they are used: they cost each process that has single sign-on 4 MB.
"""
