"""The public rankers, one file an algorithm, and the protocol they share (:mod:`longtail.models.base`)."""
