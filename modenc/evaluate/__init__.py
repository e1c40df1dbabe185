"""Judging encoders."""
