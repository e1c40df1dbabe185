"""A hub: a folder with the modules of many languages for one base model."""
