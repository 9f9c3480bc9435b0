"""The version, in one place: the wheel, the model folders and the command line read it here."""

__version__ = "0.1.0"
