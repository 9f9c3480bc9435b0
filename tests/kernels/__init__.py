"""Tests of longtail.kernels."""
