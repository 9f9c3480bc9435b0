"""Small measurements, seconds each: a part of longtail beside the library that could replace it."""
