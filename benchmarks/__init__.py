"""Measurements of longtail beside other libraries; not shipped in the wheel."""
