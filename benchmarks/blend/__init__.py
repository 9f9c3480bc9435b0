"""Measure Blend: the default, and what each of its members adds."""
