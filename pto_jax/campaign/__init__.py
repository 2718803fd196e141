"""Randomised testing at scale: cases on two machines, failures found, kept, shrunk and reported."""
