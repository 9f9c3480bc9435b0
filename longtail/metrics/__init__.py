"""Metrics: accuracy of the top k labels, both unweighted and with larger weights for rare labels.

Truth and scores are sparse matrices of shape (N, L), points by labels. Every stored score is a prediction, zeros
included. Labels are ranked by descending score, equal scores by ascending label index. All figures are in percent.

- ``evaluate``: P, nDCG, PSP, PSnDCG, recall and coverage at k.
- ``frontier``: P@k against PSP@k as re-ranking trades one for the other; ``balance_at_k``: the best point of the curve.
- ``full_report``: all of the above in one dict, as ``longtail evaluate --json`` prints it.
- ``frequency_bins``: contribution of frequent and rare labels.
- ``calibration_error``, ``reliability_curve``: whether scores are probabilities. ``mark_rare_labels``: a mask for both.
- ``decision_metrics``: micro, macro and example precision, recall and F1 of 0/1 decisions.
- ``inverse_propensity``: the weight of each label. ``to_unit``: map margins to scores in (0, 1).
"""

from longtail.metrics.accuracy import evaluate
from longtail.metrics.bins import frequency_bins
from longtail.metrics.calibration import calibration_error, mark_rare_labels, reliability_curve
from longtail.metrics.decisions import decision_metrics
from longtail.metrics.frontier import balance_at_k, frontier, full_report, to_unit
from longtail.metrics.propensity import inverse_propensity

__all__ = [
    "balance_at_k",
    "calibration_error",
    "decision_metrics",
    "evaluate",
    "frequency_bins",
    "frontier",
    "full_report",
    "inverse_propensity",
    "mark_rare_labels",
    "reliability_curve",
    "to_unit",
]
