"""What each choice in the training recipe of a network adds, on points held out of training."""
