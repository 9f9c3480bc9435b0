"""Numba kernels: the hot loops of the library, each with a plain NumPy twin in the tests."""
