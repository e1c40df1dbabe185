"""Computation of sentence vectors from a language's modules and the shared body."""
