"""Devices under test: processes, servers and C++ programs that execute cases."""
