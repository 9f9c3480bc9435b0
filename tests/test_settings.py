"""Every parameter of every ranker, wrapper, vectoriser and tagger meets wrong values: a clear error before any work.

What is wrong is decided here by the annotation of the constructor, not by the constraints that are tested. The data
that is passed cannot be used either (None), so that a setting that is not refused first ends in another error.
"""

from __future__ import annotations

import inspect
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import longtail
from longtail import Tagger, registry
from longtail.data import TextVectorizer
from longtail.errors import DataError, LongtailError, SettingsError
from longtail.models.popular import Popular
from longtail.params import Boolean, Constraint, Integer, Number, OneOf, Optional, Params, PathName
from tests.fuzz.models import KINDS

VALUES: dict[str, Any] = {
    "none": None,
    "x": "x",
    "": "",
    "NaN": math.nan,
    "Infinity": math.inf,
    "-1": -1,
    "0": 0,
    "2147483648": 2**31,
    "1.5": 1.5,
    "[1]": [1],
    "{}": {},
    "true": True,
}
"""Twelve values as the command line writes them, and what they are in Python."""
ALSO = {
    "-inf": -math.inf,
    "huge": 10**30,
    "400 digits": 10**400,
    "5,000 digits": 10**5000,
    "array of no dimension": np.array(3),
    "array": np.array([1, 2]),
    "bytes": b"x",
    "object": object(),
}

# What a parameter can be, by the words of its annotation; "0" and "-1" depend on the parameter and are left out.
_PLAIN = {
    "int": set(),
    "float": {"1.5", "2147483648", "huge"},
    "bool": {"true"},
    "str": set(),
    "Path": {"x"},
    "dict[str, Any]": {"{}"},
    "Sequence[Any]": set(),
}
_SEED = {"none", "0", "2147483648"}
_OPEN = {"0", "-1"}  # whether a number may be 0 or negative depends on the parameter
_BY_NAME = {
    "base": set(),
    "random_state": _SEED,
    "n_jobs": {"none", "-1"},
    "hierarchy": {"none", "x"},
    "checkpoint": {"none", "x"},
    "cache": {"none", "x"},
}
MODELS = registry.names()


def parameters(cls: Any) -> dict[str, str]:
    """Return the annotation of each parameter of a constructor."""
    return {name: str(p.annotation) for name, p in inspect.signature(cls.__init__).parameters.items() if name != "self"}


def allowed(name: str, annotation: str) -> set[str]:
    """Return the words of VALUES that a parameter may have or that its annotation does not decide."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    kinds = annotation.split(" | ")
    words = set().union(*(_PLAIN[kind] for kind in kinds if kind != "None"))
    numbers = {"int", "float"} & set(kinds)
    return words | ({"none"} if "None" in kinds else set()) | (_OPEN if numbers else set())


def made(cls: Any, **params: Any) -> Any:
    """Make a ranker; a wrapper gets a base."""
    needed = {name: Popular() for name, value in cls._defaults().items() if value is inspect.Parameter.empty}
    return cls(**needed | params)


def wrong_values(name: str, annotation: str) -> dict[str, Any]:
    """Return the values that must be refused."""
    may_be = allowed(name, annotation)
    return {word: value for word, value in (VALUES | ALSO).items() if word not in may_be}


def expect_refusal(use: Any, name: str, word: str) -> None:
    with pytest.raises(SettingsError) as error:
        use()
    message = str(error.value)
    assert name in message or "base" in message or "ranker" in message, f"{word}: {message}"
    assert len(message) < 600, message


@pytest.mark.parametrize("model", MODELS)
def test_every_parameter_refuses_wrong_values_before_any_work(model: str) -> None:
    cls = registry.model_class(model)
    for name, annotation in parameters(cls).items():
        for word, value in wrong_values(name, annotation).items():
            expect_refusal(lambda p={name: value}: made(cls, **p).fit(None, None), name, f"{model}.{name}={word}")


@pytest.mark.parametrize("model", MODELS)
def test_values_that_a_parameter_may_have_are_not_refused(model: str) -> None:
    """Guard the test above: a constraint that refuses everything would pass it."""
    cls = registry.model_class(model)
    for name, annotation in parameters(cls).items():
        undecided = _OPEN | (set() if name == "random_state" else _PLAIN["float"])  # such as 1.5 for a share
        for word in allowed(name, annotation) - undecided:
            with pytest.raises(DataError):
                made(cls, **{name: VALUES[word]}).fit(None, None)
        with pytest.raises(DataError):
            made(cls, **{name: getattr(made(cls), name)}).fit(None, None)


@pytest.mark.parametrize("model", MODELS)
def test_every_number_is_refused_or_meant(model: str) -> None:
    """0 and -1 are refused or allowed, by the constraint: never a foreign exception."""
    cls = registry.model_class(model)
    for name in parameters(cls):
        for word in _OPEN:
            with pytest.raises((SettingsError, DataError)):
                made(cls, **{name: VALUES[word]}).fit(None, None)


def kinds_of(constraint: Constraint) -> str:
    """Return a constraint of an advanced parameter as an annotation."""
    if isinstance(constraint, Optional):
        return f"{kinds_of(constraint.inner)} | None"
    return {Integer: "int", Number: "float", Boolean: "bool", OneOf: "str", PathName: "Path"}[type(constraint)]


@pytest.mark.parametrize("model", [name for name in MODELS if hasattr(registry.model_class(name), "_advanced")])
def test_advanced_parameters_refuse_wrong_values(model: str) -> None:
    cls: Any = registry.model_class(model)
    for name, constraint in cls._advanced.items():
        for word, value in wrong_values(name, kinds_of(constraint)).items():
            expect_refusal(
                lambda p={name: value}: made(cls, advanced=p).fit(None, None), name, f"{model}.{name}={word}"
            )
    for wrong in ({"no_such": 1}, {1: 2}, {None: None}):
        expect_refusal(lambda wrong=wrong: made(cls, advanced=wrong).fit(None, None), "advanced", str(wrong))


@pytest.mark.parametrize("model", MODELS)
def test_settings_changed_after_fit_are_refused_in_every_use(model: str) -> None:
    cls = registry.model_class(model)
    fitted = made(cls)
    fitted.n_features_in_, fitted.n_labels_ = 3, 3  # no training is needed: settings are compared first
    for name, annotation in parameters(cls).items():
        before = getattr(fitted, name)
        for word, value in wrong_values(name, annotation).items():
            setattr(fitted, name, value)
            for use in (
                lambda: fitted.predict(None),
                lambda: fitted.rank(None, None),
                lambda: fitted.predict_proba(None),
                lambda: fitted.predict_labels(None),
                lambda: fitted.score(None, None),
            ):
                expect_refusal(use, name, f"{model}.{name}={word}")
            if hasattr(fitted, "partial_fit"):
                expect_refusal(lambda: fitted.partial_fit(None, None), name, f"{model}.{name}={word}")
        setattr(fitted, name, before)


@pytest.mark.parametrize("model", ["ranknet", "taug", "labeltext", "calibrated"])
def test_a_wrapper_refuses_a_wrong_base_before_any_work(model: str) -> None:
    wrong = longtail.make(f"{model}(bonsai)", {"bonsai.beam": 0})
    expect_refusal(lambda: wrong.fit(None, None), "beam", model)
    expect_refusal(
        lambda: longtail.make(f"blend([{model}(knn(n_neighbors=0)), knn])").fit(None, None), "n_neigh", model
    )


@pytest.mark.parametrize("kind", ["ranknet", "labeltext", "blend", "calibrated", "taug"])
def test_settings_of_fitted_parts_are_compared_too(kind: str) -> None:
    """Kernels read the settings of the fitted base and members, which a user may change as well."""
    from tests.fuzz.models import data

    drawn, (expression, settings) = data(), KINDS[kind]
    model: Any = longtail.make(expression.replace("popular", "knn"), settings)
    model.fit(drawn.X, drawn.Y, label_features=drawn.Z)
    part = model.members_[0] if kind == "blend" else model.base_
    for value in (0, -1, 2**31, "x"):
        part.n_neighbors = value
        expect_refusal(lambda: model.predict(drawn.X[:2]), "n_neighbors", kind)
        expect_refusal(lambda: model.rank([0], [1.0]), "n_neighbors", kind)


# Vectoriser and tagger ------------------------------------------------------------------------------------------------

VECTORIZER_ALLOWED = {
    "analyzer": {"object"},
    "ngrams": {"none"},
    "stop_words": {"none"},
    "stemmer": {"none", "x"},
    "min_length": set(),
    "min_df": {"0"},
    "max_df": {"0"},
    "max_features": {"none"},
    "sublinear_tf": {"true"},
    "idf": {"true"},
    "hashing": {"none"},
    "encoder": {"none", "x"},
    "n_jobs": {"none", "-1"},
}


def test_every_parameter_of_the_vectorizer() -> None:
    assert set(VECTORIZER_ALLOWED) == set(TextVectorizer().get_params())
    for name, may_be in VECTORIZER_ALLOWED.items():
        for word, value in (VALUES | ALSO).items():
            if word not in may_be:
                expect_refusal(lambda p={name: value}: TextVectorizer(**p).fit(None), name, f"{name}={word}")
    for name, value in {"stemmer": "x", "max_df": 0}.items():  # no such language, and no document that remains
        expect_refusal(lambda p={name: value}: TextVectorizer(**p).fit(["a bird sings"]), name, name)


@pytest.mark.parametrize("name", ["model", "vectorizer"])
def test_a_tagger_refuses_what_is_no_model_before_it_reads_a_text(name: str) -> None:
    for word, value in (VALUES | ALSO).items():
        if (name, word) != ("vectorizer", "none"):
            with pytest.raises(SettingsError):
                Tagger(**{name: value}).fit(None, None)  # type: ignore[arg-type]
    expect_refusal(lambda: Tagger("bonsai", beam=0).fit(None, None), "beam", "beam")  # type: ignore[arg-type]
    expect_refusal(lambda: Tagger("knn", vectorizer=TextVectorizer(min_df=-1)).fit(None, None), "min_df", "")  # type: ignore[arg-type]


def test_arguments_of_a_fitted_tagger() -> None:
    texts = ["a bird sings", "a cat sleeps"] * 4
    labels = [["bird"], ["cat"]] * 4
    tagger = Tagger("popular").fit(texts, labels)
    uses: dict[str, Any] = {
        "k": lambda value: tagger.suggest("a bird", k=value),
        "threshold": lambda value: tagger.suggest("a bird", threshold=value),
        "ks": lambda value: tagger.evaluate(texts, labels, ks=value),
        "goal": lambda value: tagger.optimize(texts, labels, goal=value),
        "label": lambda value: tagger.explain("a bird", value),
        "texts": lambda value: tagger.predict(value),
        "labels": lambda value: tagger.evaluate(texts, value),
        "folder to load": longtail.load,
        "file to read": longtail.read,
        "name of a model": longtail.make,
        "folder to save": lambda value: tagger.save(value) if not isinstance(value, str) else None,
    }
    for name, use in uses.items():
        for word, value in (VALUES | ALSO).items():
            try:
                use(value)
            except LongtailError:
                continue
            except Exception as error:
                pytest.fail(f"{name}={word}: {error!r}")


# Numbers of NumPy, and what makes random numbers ----------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_numpy_numbers_are_numbers(model: str) -> None:
    """They are allowed, and stored as plain numbers: an hour of training can be saved."""
    from longtail.params import plain

    cls = registry.model_class(model)
    for name, annotation in parameters(cls).items():
        value = getattr(made(cls), name)
        if isinstance(value, bool | int | float):
            same = np.asarray(value)[()]
            with pytest.raises(DataError):
                made(cls, **{name: same}).fit(None, None)
            assert type(plain(same)) is type(value), annotation


@pytest.mark.parametrize("seed", [None, 0, np.int64(3), np.random.RandomState(1), np.random.default_rng(2)])
def test_all_sources_of_random_numbers_are_taken_and_saved(seed: Any, tmp_path: Any) -> None:
    X = np.eye(6, dtype=np.float32)
    model = longtail.make("parabel(n_trees=1)", {"random_state": seed}).fit(X, X)
    model.save(tmp_path / "m")
    loaded: Any = longtail.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(X).toarray(), model.predict(X).toarray())


def test_every_parameter_has_a_constraint() -> None:
    """A parameter that nobody declared would be compared with nothing."""
    own_check = {"advanced", "base", "members"}  # compared by check_params of the class
    for name in MODELS:
        cls: type[Params] = registry.model_class(name)
        assert set(cls._defaults()) - own_check <= set(cls._all_constraints()), name


@pytest.mark.parametrize("model", [name for name in MODELS if hasattr(registry.model_class(name), "_advanced")])
def test_advanced_settings_changed_in_place_after_fit_are_refused(model: str) -> None:
    cls: Any = registry.model_class(model)
    name = next(iter(cls._advanced))
    fitted = made(cls, advanced={})
    fitted.n_features_in_, fitted.n_labels_ = 3, 3  # no training is needed: settings are compared first
    fitted._checked, fitted._advanced_checked = True, ()
    fitted.advanced[name] = [1, 2]
    expect_refusal(lambda: fitted.predict(None), name, model)
    expect_refusal(lambda: fitted.rank(None, None), name, model)


def test_models_nested_too_deep_are_refused_before_any_work() -> None:
    for depth, kind in ((20, longtail.RankNet), (700, longtail.RankNet), (700, lambda base: longtail.Blend([base]))):
        model: Any = longtail.Popular()
        for _ in range(depth):
            model = kind(model)
        expect_refusal(lambda model=model: model.fit(None, None), "nested", f"{depth} models")
    shared: Any = longtail.Popular()
    for _ in range(19):
        shared = longtail.Blend([shared, shared])  # two to the power of 19 ways from the outermost to the innermost
    begin = time.perf_counter()
    shared._check_nesting()
    assert time.perf_counter() - begin < 1


def test_models_nested_as_deep_as_may_be_are_saved_replaced_and_loaded(tmp_path: Path) -> None:
    X, Y = csr_array(np.eye(4, dtype=np.float32)), csr_array(np.eye(4, dtype=np.float32))
    model: Any = longtail.Popular()
    for _ in range(19):
        model = longtail.RankNet(model, method="inverse_propensity")
    model.fit(X, Y)
    for _ in range(2):
        model.save(tmp_path / "m")
    assert (longtail.load(tmp_path / "m").predict(X) != model.predict(X)).nnz == 0
