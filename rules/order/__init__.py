"""The order of rules of one effect: moved by hand in the console, stored as positions."""
