"""What a draft would have changed for recorded requests: they are judged again."""
