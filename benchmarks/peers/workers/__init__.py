"""One short file per system; each runs as a process of its own under the interpreter that holds the system."""
