"""Pictures of models and results, and the report about models.

One file per picture, written to .png, .svg or .pdf files. matplotlib (the extra ``report``) is imported when such a
picture is drawn, never before. The report needs no matplotlib: ``sections.py`` turns what ``analysis.py`` computes into
blocks (``blocks.py``) with charts (``svg_chart.py``); ``html_report.py`` and ``markdown_report.py`` write them.
"""
