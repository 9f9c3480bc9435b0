"""The HTTP service: suggestions, explanations and feedback for model folders, Annif's REST API, and a page for people.

Requests pass through these files in this order:

- ``process.py`` opens the port and starts one or more worker processes, with the settings of ``settings.py``.
- ``gate.py`` checks tokens and sizes, reads the body, measures the time and logs. It never writes a text to the log.
- ``service.py`` (our API) and ``annif.py`` (Annif's API) turn a body into a call, and its result into JSON. The
  schemas of both are in ``schemas.py``, errors in ``problems.py``.
- ``library.py`` has the loaded models, and replaces one when its folder changes. ``batching.py`` predicts for several
  requests in one call.
- ``feedback.py`` stores corrections durably. ``learning.py`` trains models on them in a separate process.

The service uses only the public interface: :func:`longtail.load` and :class:`longtail.Tagger`.
"""
