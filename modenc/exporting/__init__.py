"""One language as a model of its own, for programs that know nothing of modenc."""
