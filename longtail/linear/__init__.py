"""Shared by the linear models: the label tree, the training of its nodes, and the search through it."""
