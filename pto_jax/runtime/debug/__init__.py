"""Traces, micro-operations and breakpoints of an execution."""
