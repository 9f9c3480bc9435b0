"""What linear models share: the label tree, the training of its nodes, and the search through it."""
