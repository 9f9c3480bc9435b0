"""What neural rankers share: the network, losses, regularisers, row-sparse optimisers and the one training loop.

Gradients are written by hand, so that no step touches a row of a table that the batch did not use; tests hold each of
them against automatic differentiation.
"""
