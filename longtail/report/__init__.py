"""Pictures of models and results, and reports that compare models.

There is one file per kind of picture. Pictures are written as .png, .svg or .pdf files; matplotlib (the extra
``report``) is imported only when one is drawn. Reports need no matplotlib. ``sections.py`` turns the results of
``analysis.py`` into blocks (``blocks.py``) with charts (``svg_chart.py``), which ``html_report.py`` and
``markdown_report.py`` write.
"""
