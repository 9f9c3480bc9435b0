"""Measure text in, labels out, beside TF-IDF of scikit-learn and PECOS."""
