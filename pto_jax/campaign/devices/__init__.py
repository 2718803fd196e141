"""Devices under test: command lines, and case folders for simulators and boards."""
