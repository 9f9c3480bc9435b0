"""Tests of longtail.data."""
