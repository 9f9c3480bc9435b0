"""Tests of longtail.metrics."""
