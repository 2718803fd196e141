"""Kernels: compilation of programs, arguments and results, tiles, reports."""
