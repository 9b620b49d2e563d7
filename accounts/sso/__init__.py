"""Single sign-on with OpenID Connect: providers, the flow, the users that it leads to, and the ends of sessions."""
