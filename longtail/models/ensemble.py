"""Ensemble: several rankers as one, blended by validation.

Rankers err in different places: a tree and an embedding seldom put the same wrong label first. The members are fitted
to a part of the points; a small model of chances is learnt from the rest, on every member's log odds of a label, the
label's text where there is some, how near the point is to the mean of the label's points, and how many points the label
has. Then the members are fitted again, to all points. Where no blend is better on the held-out points than the best
member, that member answers alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from longtail import store
from longtail.errors import SettingsError
from longtail.models.base import Arrays, Ranker
from longtail.models.blend import Blend, LabelSide, Part, best_of, hold_out, in_blocks, known, told
from longtail.models.wrapper import check_base


class Ensemble(Ranker):
    """Several rankers, blended by validation.

    Parameters
    ----------
    members : list of Ranker
        What to blend; copies of them are fitted.
    label_text : bool
        Whether the blend uses label text, where `fit` is given some.
    near : int
        Candidates by label text alone.
    depth : int
        Candidates from each member.
    n_jobs : int, optional
        Threads of the blend; all cores by default.
    random_state : int
        Seed of the held-out part.

    Attributes
    ----------
    members_ : list of Ranker
        The fitted copies.
    best_ : int or None
        The member that answers alone; the others are then left as they were fitted to a part of the points.
    why_ : str
        What was chosen by the report.
    report_ : list of dict
        Measures of each member and of the blend on the held-out points; empty if there were too few.
    """

    kind: ClassVar[str] = "ensemble"
    members_: list[Ranker]
    best_: int | None
    blend_: Blend
    report_: list[dict[str, Any]]
    why_: str

    def __init__(
        self,
        members: Sequence[Any],
        label_text: bool = True,
        near: int = 20,
        depth: int = 50,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.members = members
        self.label_text = label_text
        self.near = near
        self.depth = depth
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _check_settings(self) -> None:
        if not isinstance(self.members, list | tuple) or not self.members:
            raise SettingsError(
                f"Ensemble was given {self.members!r} as its members. Give a list of rankers: "
                "Ensemble([Bonsai(), GLaS()]), or by name ensemble([bonsai, glas])"
            )
        for member in self.members:
            check_base(member, type(self).__name__)
        for name, least in (("near", 0), ("depth", 1)):
            if not isinstance(value := getattr(self, name), int | np.integer) or value < least:
                raise SettingsError(f"{name} is {value!r}; give a whole number from {least}")

    def _fit(self, X: csr_array, Y: csr_array, Z: csr_array | None, validation: Part | None) -> None:
        self._check_settings()
        if validation is None:
            part, held = hold_out(X, Y, self.random_state)
        else:
            part, held = (X, Y), (validation[0], known(validation[1], Y))
        self.blend_ = Blend(self._side(*part, Z), self.near, self.n_jobs)
        self.best_, self.report_ = 0, []
        self.why_ = "the first member, for want of points to hold out."
        if held[1].nnz:
            self.members_ = [
                member.unfitted().fit(*part, label_features=Z, validation=validation) for member in self.members
            ]
            found = [member.predict(held[0], self.depth) for member in self.members_]
            self.best_, rows = best_of(self.blend_, held, found, part[1])
            names = [*map(repr, self.members), "blend"]
            self.report_ = [{"model": name} | row for name, row in zip(names, rows, strict=True)]
            self.why_ = told(self.report_, "a blend" if self.best_ is None else names[self.best_] + " alone")
            if validation is not None:
                return
        else:
            self.members_ = [member.unfitted() for member in self.members]
        for i, member in enumerate(self.members_):
            if not self.report_ or self.best_ in (None, i):
                member.fit(X, Y, label_features=Z)
        self.blend_.side = self._side(X, Y, Z)

    def _side(self, X: csr_array, Y: csr_array, Z: csr_array | None) -> LabelSide:
        return LabelSide.of(X, Y, Z if self.label_text else None, self.n_jobs)

    def _predict(self, X: csr_array, k: int) -> csr_array:
        if self.best_ is not None:
            return self.members_[self.best_].predict(X, k)
        depth = max(self.depth, k)
        return in_blocks(
            X, lambda rows: self.blend_.predict(rows, [member.predict(rows, depth) for member in self.members_], k)
        )

    @classmethod
    def assembled(
        cls,
        members: list[Ranker],
        blend: Blend,
        report: list[dict[str, Any]],
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> Self:
        """An ensemble of rankers that are fitted already, and of a blend that was learnt from their scores."""
        model = cls(members, near=blend.near, n_jobs=n_jobs, random_state=random_state)
        model.n_features_in_, model.n_labels_ = members[0].n_features_in_, members[0].n_labels_
        model.members_, model.blend_, model.best_ = list(members), blend, None
        names = [*(type(member).kind for member in members), "blend"]
        model.report_ = [{"model": name} | row for name, row in zip(names, report, strict=True)]
        model.why_ = told(model.report_, "a blend")
        return model

    # Keeping -----------------------------------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], Arrays, dict[str, Ranker]]:
        arrays = self.blend_.arrays() if self.best_ is None else {}
        parts = {f"member_{i}": member for i, member in enumerate(self.members_)}
        return {"best": self.best_, "report": self.report_, "why": self.why_}, arrays, parts

    @classmethod
    def _read(cls, stored: store.Stored, parts: dict[str, Ranker]) -> Self:
        members = [parts[f"member_{i}"] for i in range(len(parts))]
        model = cls(members, **stored.meta["params"])
        model.n_features_in_, model.n_labels_ = stored.meta["n_features"], stored.meta["n_labels"]
        model._restore(stored.meta, stored.arrays, parts)
        return model

    def _restore(self, facts: dict[str, Any], arrays: Arrays, parts: dict[str, Ranker]) -> None:
        self.members_, self.best_, self.report_ = list(self.members), facts["best"], facts["report"]
        self.why_ = facts["why"]
        if self.best_ is None:
            self.blend_ = Blend.from_arrays(arrays, self.n_features_in_, self.near, self.n_jobs)
