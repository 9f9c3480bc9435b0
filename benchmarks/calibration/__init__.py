"""Calibration: whether scores are probabilities, and how good decisions by the automatic threshold are."""
