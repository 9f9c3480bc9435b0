"""How time and memory grow with points, features and labels, and what a cluster costs."""
