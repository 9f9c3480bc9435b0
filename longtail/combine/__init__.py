"""One way to combine scores: candidate lists, their union, features of each pair, a probability, the k best."""
