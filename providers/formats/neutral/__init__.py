"""The neutral form of conversations, answers and embeddings, between client dialects and provider formats.

A dialect reads a client's conversation into a `Chat`; a format writes it for the provider, and reads the answer into a
`Reply` or, in a stream, into deltas. If both sides speak the same shape, bytes pass unchanged and none of this is used.
"""
