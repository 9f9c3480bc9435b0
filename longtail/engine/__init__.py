"""Where work runs and what it may use: cores of this machine or a Ray cluster, memory budgets, checkpoints.

>>> from longtail import engine
>>> with engine.use("ray"):                                                        # doctest: +SKIP
...     model.fit(X, Y)
"""

from longtail.engine.tasks import Engine as Engine
from longtail.engine.tasks import check_installed as check_installed
from longtail.engine.tasks import check_name as check_name
from longtail.engine.tasks import current as current
from longtail.engine.tasks import use as use
