"""Hold out a test part if the data has none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from longtail.cli.console import print_remark
from longtail.errors import DataError, number_of

if TYPE_CHECKING:
    from longtail.data import Dataset

TEST_SHARE = 0.2


def with_test_part(data: Dataset, seed: int, share: float = TEST_SHARE) -> Dataset:
    """Hold out a fraction of the points as a test part if there is none.

    The vectoriser is then fitted again, to the training part only. The last training point of a label is never held
    out.
    """
    if data.test is not None:
        return data
    from longtail.data.split import split

    kept, held = split(data.Y, share, seed)
    if not len(held):
        raise DataError(
            f"{data.name} has no test part, and no point can be held out: each is the only one of some label",
            remedy="Give more points, or a test part",
        )
    print_remark(
        f"{data.name} has no test part; {len(held):,} of its {number_of(data.n_points, 'point')} "
        f"{'is' if len(held) == 1 else 'are'} held out for testing"
    )
    train, test = data.subset(kept), data.subset(held)
    if train.texts is not None and test.texts is not None and data.vectorizer is not None:
        from longtail.data.vectors import with_same_vectors

        vectorizer = type(data.vectorizer)(**data.vectorizer.get_params())
        train.X = with_same_vectors(vectorizer.fit_terms(train.texts, label_texts=data.label_texts), train)
        test.X = with_same_vectors(vectorizer.transform_terms(test.texts), test)
        if data.Z is not None:
            terms = vectorizer.transform_terms(data.described_labels())
            train.Z = test.Z = with_same_vectors(terms, data, labels=True)
        train.vectorizer = test.vectorizer = vectorizer
    return replace(train, test=test)
