"""The label space: which labels occur together."""
