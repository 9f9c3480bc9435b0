"""What the linear models share: label trees, the training of their nodes, search through them, and FastXML's trees."""
