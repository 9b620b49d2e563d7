"""The playground: a conversation with one model or two, which may begin with that of a log entry."""
