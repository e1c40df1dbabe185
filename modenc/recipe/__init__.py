"""Recipes: TOML files that say which languages are trained on what, and how."""
