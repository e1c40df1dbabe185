"""Training objectives; each file begins with the objective's formula."""
