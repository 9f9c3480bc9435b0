"""The label space: co-occurrence, balanced clusters, the split into head and tail, own labels."""
