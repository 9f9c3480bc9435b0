"""Numba kernels: the hot loops of the library. Each has a plain NumPy twin in the tests."""
