"""Rankers around rankers: what they do for rare labels, and what they cost."""
