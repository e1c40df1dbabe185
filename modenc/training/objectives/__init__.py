"""One file an objective, each opening with its formula."""
