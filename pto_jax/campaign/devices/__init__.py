"""Campaigns on devices under test."""
