"""Measure the first commands on a machine that has no compiled kernels."""
