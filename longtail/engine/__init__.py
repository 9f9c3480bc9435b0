"""The resources of this machine that work may use."""
