"""Machine translation of training texts: engines, what is kept of their output, and whole files."""
