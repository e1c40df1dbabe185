"""Export of one language as a model that loads without modenc."""
