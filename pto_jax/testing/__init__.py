"""Vectors, comparison and conformance: what it takes to check an implementation of the ISA."""
