"""DXML: accuracy over seeds, growth with points and labels, and `partial_fit`."""
