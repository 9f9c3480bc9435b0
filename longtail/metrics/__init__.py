"""What is measured: accuracy of the first k labels, plainly and with rare labels weighed up.

Truth and scores are sparse matrices of shape (N, L), points by labels. A stored score is a prediction, zero included;
what is not stored was not predicted. Rankings go by descending score, equal scores by smaller label index. All figures
are in percent.

- ``evaluate``: P, nDCG, PSP, PSnDCG, recall and coverage at k.
- ``frontier``, ``f_at_k``: the curve between plain and tail accuracy that re-ranking can reach, and its best point.
- ``full_report``: all of the above in one dict, as the command line prints it.
- ``frequency_bins``: what labels of each frequency contribute.
- ``inverse_propensity``: the weight of a label; ``to_unit``: margins to scores in (0, 1).
"""

from longtail.metrics.accuracy import evaluate
from longtail.metrics.bins import frequency_bins
from longtail.metrics.frontier import f_at_k, frontier, full_report, to_unit
from longtail.metrics.propensity import inverse_propensity

__all__ = ["evaluate", "f_at_k", "frequency_bins", "frontier", "full_report", "inverse_propensity", "to_unit"]
