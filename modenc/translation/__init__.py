"""Machine translation of training text: engines, filters of translations, and translation of files."""
