"""Watching an execution: traces, micro-operations, stops."""
