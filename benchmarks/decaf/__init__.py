"""DECAF: beside other libraries, with parts left out, on unseen labels, and as labels grow."""
