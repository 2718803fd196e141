"""Mutation fuzz of the parser, the verifier and the printer."""
