"""Trainers of other libraries with a planned step inside: one module for each, which imports it."""
