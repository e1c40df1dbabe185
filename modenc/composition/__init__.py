"""Computation of sentence embeddings from a language's modules and the shared body."""
