"""Evaluation of encoders on suites of test sets."""
