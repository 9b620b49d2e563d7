"""What would have been otherwise, had a draft of rules been in force: recorded traffic is judged again."""
