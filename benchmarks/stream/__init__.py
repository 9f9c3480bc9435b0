"""Measure ``longtail predict`` on a file of many lines."""
