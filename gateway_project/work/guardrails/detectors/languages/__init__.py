"""In which language a sentence is: by its script, and by words that are frequent in one language and in few others."""
