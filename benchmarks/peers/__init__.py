"""longtail and its peers on the same matrices, in turn, on the same machine."""
