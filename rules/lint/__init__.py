"""Problems of the whole rule book: of rules, and of groups, keys, models and aliases that rules leave out."""
