"""Where work runs, and what it may use of this machine."""
