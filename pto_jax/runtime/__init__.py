"""Kernels: compiling programs, their arguments and results, tiles, reports."""
