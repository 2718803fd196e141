"""Lockstep: thousands of different programs as data of one compiled interpreter."""
