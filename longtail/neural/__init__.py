"""What neural rankers share: batches, losses, row-sparse optimisers, the training loop and the search of label vectors.

Gradients are written by hand, so that a step touches only the table rows that its batch uses. Tests compare each of
them with automatic differentiation.
"""
