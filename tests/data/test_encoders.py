"""Encoders of texts and ready vectors: what they compute, how models keep them, and what they must refuse."""

from __future__ import annotations

import base64
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import longtail
from longtail import KNN, Blend, Tagger, TextMatch
from longtail.data import TextVectorizer
from longtail.data.encoders import OnnxEncoder, encoder, make_encoder, restored_encoder
from longtail.data.vectors import read_vectors
from longtail.errors import DataError, ModelError, SettingsError

# A graph of one node: token numbers (b, t) to rows of a table of 6 x 4 numbers, (b, t, 4). Made with onnx.helper.
TINY_ONNX = base64.b64decode(
    "CAgSADrtAQotCgV0YWJsZQoJaW5wdXRfaWRzEhFsYXN0X2hpZGRlbl9zdGF0ZSIGR2F0aGVyEgFnKm8IBggEEAFCBXRhYmxlSmAAAEDAAAAAwAAA"
    "gL8AAAAAAACAPwAAAEAAAEBAAABAwAAAAMAAAIC/AAAAAAAAgD8AAABAAABAQAAAQMAAAADAAACAvwAAAAAAAIA/AAAAQAAAQEAAAEDAAAAAwAAA"
    "gL9aHQoJaW5wdXRfaWRzEhAKDggHEgoKAxIBYgoDEgF0YikKEWxhc3RfaGlkZGVuX3N0YXRlEhQKEggBEg4KAxIBYgoDEgF0CgIIBEIECgAQDQ=="
)
TABLE = np.array([[-3, -2, -1, 0], [1, 2, 3, -3], [-2, -1, 0, 1], [2, 3, -3, -2], [-1, 0, 1, 2], [3, -3, -2, -1]])
WORDS = {"[UNK]": 0, "red": 1, "green": 2, "apple": 3, "car": 4, "fast": 5}

TEXTS = ["red apple", "green apple", "red car", "fast car"] * 10
LABELS = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 10


@encoder
def letters(texts: list[str]) -> np.ndarray:
    """Count the letters of each text."""
    return np.array([[text.lower().count(chr(97 + at)) for at in range(26)] for text in texts], float)


@encoder
def raising(texts: list[str]) -> np.ndarray:
    raise RuntimeError("no memory for vectors")


@encoder
def one_row(texts: list[str]) -> np.ndarray:
    return np.ones((1, 4))


@encoder
def with_nan(texts: list[str]) -> np.ndarray:
    return np.full((len(texts), 4), np.nan)


@encoder
def flat(texts: list[str]) -> np.ndarray:
    return np.ones(len(texts))


@encoder
def strings(texts: list[str]) -> np.ndarray:
    return np.array([["a"] for _ in texts])


@encoder
def growing(texts: list[str]) -> np.ndarray:
    return np.ones((len(texts), max(map(len, texts))))


def unmarked(texts: list[str]) -> np.ndarray:
    return np.ones((len(texts), 2))


def small_blend() -> Blend:
    return Blend([KNN(), TextMatch()])


# Vectors ------------------------------------------------------------------------------------------------------------


def test_vectors_have_length_one_and_blank_texts_none() -> None:
    vectors = make_encoder(letters).encode(["red apple", "", " \n", "!?", "Zebra 7"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 0, 0, 1], atol=1e-6)
    assert vectors.dtype == np.float32
    assert vectors[4].argmax() in (0, 1, 4, 17, 25)


def test_many_texts_are_encoded_in_order() -> None:
    texts = [chr(97 + i % 26) * (1 + i % 3) for i in range(1000)]
    vectors = make_encoder(letters).encode(texts)
    np.testing.assert_array_equal(vectors.argmax(axis=1), np.arange(1000) % 26)


def test_an_encoder_is_found_by_name_and_travels_to_other_processes() -> None:
    named = make_encoder("tests.data.test_encoders:letters")
    np.testing.assert_array_equal(named.encode(TEXTS), make_encoder(letters).encode(TEXTS))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(named)).encode(TEXTS), named.encode(TEXTS))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (raising, "raised RuntimeError: no memory for vectors"),
        (one_row, "returned 1 rows for 4 texts"),
        (with_nan, "NaN or infinity"),
        (flat, "returned shape"),
        (strings, "returned shape"),
        (growing, "returned vectors of"),
    ],
)
def test_what_an_encoder_may_not_return(function, said) -> None:
    with pytest.raises(DataError, match=said):
        made = make_encoder(function)
        made.size = None if function is not one_row else 4
        made.encode(["a b", "a longer text", "c", "d"])


@pytest.mark.parametrize("value", [unmarked, lambda texts: texts, "no.such.module:f", "tests.data.test_encoders:none"])
def test_functions_that_cannot_be_used(value) -> None:
    with pytest.raises(SettingsError, match="encoder is"):
        make_encoder(value)


def test_files_that_are_no_encoder(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(b"nonsense")
    with pytest.raises(SettingsError, match="neither an ONNX file"):
        make_encoder(tmp_path / "missing")
    with pytest.raises(SettingsError, match="neither an ONNX file"):
        make_encoder(tmp_path)
    with pytest.raises(SettingsError, match=r"tokenizer\.json|pip install"):
        make_encoder(tmp_path / "x.onnx").encode(["a"])


# Text to features ---------------------------------------------------------------------------------------------------


def test_the_vector_is_in_the_last_columns() -> None:
    vectorizer = TextVectorizer(encoder=letters)
    X = vectorizer.fit_transform(TEXTS)
    plain = TextVectorizer()
    np.testing.assert_array_equal(X[:, :-26].toarray(), plain.fit_transform(TEXTS).toarray())
    np.testing.assert_allclose(X[:, -26:].toarray(), make_encoder(letters).encode(TEXTS))
    assert (vectorizer.n_features_, vectorizer.vector_size_, plain.vector_size_) == (X.shape[1] - 26, 26, 0)
    np.testing.assert_array_equal(vectorizer.transform(TEXTS).toarray(), X.toarray())
    np.testing.assert_array_equal(vectorizer.transform(TEXTS[:1]).toarray(), X[:1].toarray())
    copy = TextVectorizer.from_arrays(*json_copy(vectorizer))
    np.testing.assert_array_equal(copy.transform(TEXTS).toarray(), X.toarray())


def json_copy(vectorizer: TextVectorizer):
    meta, arrays = vectorizer.to_arrays()
    return json.loads(json.dumps(meta)), arrays


def test_a_tagger_with_an_encoder_is_the_same_after_saving(tmp_path: Path) -> None:
    tagger = Tagger(small_blend(), encoder=letters).fit(TEXTS, LABELS)
    assert [member.kind for member in tagger.ranker_.members_][2:] == ["vectorknn", "vectormatch"]
    batch = tagger.predict(TEXTS)
    tagger.save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(TEXTS).toarray(), batch.toarray())
    for row, text in enumerate(TEXTS[:4]):
        np.testing.assert_array_equal(loaded.predict([text]).toarray(), batch[[row]].toarray())
    assert tagger.suggest("a ripe aple", k=1) != []  # no word of the vocabulary, but letters of one
    assert tagger.suggest("  ", k=1) == []
    assert loaded.reads_text()
    assert "encoder" in (tmp_path / "m" / "README.md").read_text()


def test_an_explanation_shows_what_vectors_contribute() -> None:
    tagger = Tagger(small_blend(), encoder=letters).fit(TEXTS, LABELS)
    explained = tagger.explain("red apple", k=1)[0]
    assert [member.member for member in explained.members][2:] == ["vectorknn", "vectormatch"]
    assert {word.word for word in explained.words} <= {"red", "apple"}


def test_labels_are_added_with_their_vectors() -> None:
    tagger = Tagger(small_blend(), encoder=letters).fit(TEXTS, LABELS)
    tagger.add_labels(["zzz xxx"])
    match = tagger.ranker_.members_[3]
    assert match.n_labels_ == len(match.index_) == 3
    assert match.predict(make_encoder(letters).encode(["zx"]), 1).indices.tolist() == [2]


def test_models_that_cannot_use_vectors_are_refused() -> None:
    with pytest.raises(SettingsError, match="KNN cannot use vectors"):
        Tagger("knn", encoder=letters).fit(TEXTS, LABELS)


def test_an_encoder_that_a_folder_names_is_imported_by_nobody_else(tmp_path: Path) -> None:
    Tagger(small_blend(), encoder=letters).fit(TEXTS, LABELS).save(tmp_path / "m")
    code = f"import longtail; longtail.load({str(tmp_path / 'm')!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "LONGTAIL_IMPORT=tests.data.test_encoders" in done.stderr


@pytest.mark.parametrize(
    "facts",
    [
        "letters",
        {"kind": "pickle", "name": "x", "size": 3},
        {"kind": "function", "name": "tests.data.test_encoders:letters", "size": 0},
        {"kind": "onnx", "name": 3, "size": 3},
    ],
)
def test_damaged_facts_of_an_encoder_are_refused(facts) -> None:
    with pytest.raises(ModelError):
        restored_encoder(facts)


def test_a_changed_size_is_refused(tmp_path: Path) -> None:
    Tagger(small_blend(), encoder=letters).fit(TEXTS, LABELS).save(tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    path.write_text(re.sub(r'"size": *26', '"size": 25', path.read_text()))
    with pytest.raises(ModelError):
        longtail.load(tmp_path / "m")


# ONNX ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def onnx_folder(tmp_path: Path) -> Path:
    """A folder with the smallest transformer: a table of token vectors."""
    pytest.importorskip("onnxruntime", reason="needs the extra encoder")
    tokenizers = pytest.importorskip("tokenizers", reason="needs the extra encoder")
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "model.onnx").write_bytes(TINY_ONNX)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_an_onnx_file_gives_the_mean_of_token_vectors(onnx_folder: Path) -> None:
    expected = np.array([TABLE[[WORDS[word] for word in text.split()]].mean(axis=0) for text in TEXTS])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    made = make_encoder(onnx_folder)
    assert isinstance(made, OnnxEncoder)
    for n_jobs in (1, 2):
        np.testing.assert_allclose(made.encode(TEXTS, n_jobs), expected, atol=1e-6)
    np.testing.assert_array_equal(made.encode(TEXTS[:1]), made.encode(TEXTS)[:1])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).encode(TEXTS), made.encode(TEXTS))


def test_the_first_token_and_the_longest_text_as_the_files_say(onnx_folder: Path) -> None:
    (onnx_folder / "1_Pooling").mkdir()
    (onnx_folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = make_encoder(onnx_folder / "model.onnx").encode(["red apple"])
    np.testing.assert_allclose(first[0], TABLE[1] / np.linalg.norm(TABLE[1]), atol=1e-6)
    (onnx_folder / "1_Pooling" / "config.json").unlink()
    (onnx_folder / "sentence_bert_config.json").write_text('{"max_seq_length": 1}')
    np.testing.assert_allclose(make_encoder(onnx_folder).encode(["red apple"]), first, atol=1e-6)


def test_a_model_finds_its_onnx_file_again_or_says_what_is_wrong(onnx_folder: Path, tmp_path, monkeypatch) -> None:
    tagger = Tagger(small_blend(), encoder=onnx_folder).fit(TEXTS, LABELS)
    tagger.save(tmp_path / "m")
    expected = tagger.predict(TEXTS).toarray()
    np.testing.assert_array_equal(longtail.load(tmp_path / "m").predict(TEXTS).toarray(), expected)
    moved = onnx_folder.rename(tmp_path / "moved")
    with pytest.raises(ModelError, match=r"there is no such encoder.*LONGTAIL_ENCODER"):
        longtail.load(tmp_path / "m")
    monkeypatch.setenv("LONGTAIL_ENCODER", str(moved))
    np.testing.assert_array_equal(longtail.load(tmp_path / "m").predict(TEXTS).toarray(), expected)
    (moved / "model.onnx").write_bytes(TINY_ONNX.replace(b"\x40\x40", b"\x80\x40", 1))
    with pytest.raises(ModelError, match="checksum differs"):
        longtail.load(tmp_path / "m")


def test_a_damaged_onnx_file_is_refused(onnx_folder: Path) -> None:
    (onnx_folder / "model.onnx").write_bytes(b"nonsense")
    with pytest.raises(SettingsError, match="cannot be opened"):
        make_encoder(onnx_folder).encode(["a"])


# Ready vectors ------------------------------------------------------------------------------------------------------


def test_ready_vectors_give_the_same_model_as_the_encoder(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(
        "text,labels\n" + "".join(f"{text},{own[0]}\n" for text, own in zip(TEXTS, LABELS, strict=True))
    )
    (tmp_path / "test.csv").write_text("text,labels\ngreen car,vehicle\n")
    made = make_encoder(letters)
    arrays = [made.encode(TEXTS), made.encode(["green car"]), made.encode(["fruit", "vehicle"])]
    ready = longtail.read(tmp_path, vectors=arrays)
    assert ready.vector_size == ready.test.vector_size == 26
    encoded = longtail.read(tmp_path, vectorizer=TextVectorizer(encoder=letters))
    np.testing.assert_array_equal(ready.X.toarray(), encoded.X.toarray())
    np.testing.assert_array_equal(ready.test.X.toarray(), encoded.test.X.toarray())
    taggers = [Tagger(Blend([KNN()])).fit_dataset(data) for data in (ready, encoded)]
    expected = taggers[1].predict(encoded.test.X).toarray()
    np.testing.assert_array_equal(taggers[0].predict(ready.test.X).toarray(), expected)
    taggers[0].save(tmp_path / "m")
    loaded = longtail.load(tmp_path / "m")
    assert not loaded.reads_text()
    with pytest.raises(ModelError, match="has no encoder"):
        loaded.suggest("green car")
    given = loaded.features(["green car"], arrays[1])
    np.testing.assert_array_equal(loaded.predict(given).toarray(), expected)
    with pytest.raises(DataError, match="Give 1 row of 26 numbers"):
        loaded.features(["green car"], arrays[0])
    # labels may have no vectors
    fewer = longtail.read(tmp_path, vectors=arrays[:2])
    kinds = [member.kind for member in Tagger(Blend([KNN()])).fit_dataset(fewer).ranker_.members_]
    assert kinds == ["knn", "vectorknn"]


def test_what_ready_vectors_may_not_be(tmp_path: Path) -> None:
    good = np.ones((3, 4))
    np.save(tmp_path / "good.npy", good)
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    for given, said in (
        ([good, good, good, good], "has 4 arrays"),
        ([], "has 0 arrays"),
        (f"{tmp_path}/good.npy,{tmp_path}/none.npy", "there is no such file"),
        (f"{tmp_path}/bad.npy,{tmp_path}/good.npy", "is not an array"),
        ([good, good[:, :3]], "vectors of 3 numbers"),
        ([good, good * np.nan], "NaN or infinity"),
        ([good, good[0]], "not an array of vectors"),
        ([good, [["a"]]], "not an array of vectors"),
    ):
        with pytest.raises((DataError, SettingsError), match=said):
            read_vectors(given, has_test=True)
    (tmp_path / "x.csv").write_text("text,labels\nred apple,fruit\n")
    with pytest.raises(DataError, match="3 vectors, but there are 1 points"):
        longtail.read(tmp_path / "x.csv", vectors=tmp_path / "good.npy")
    with pytest.raises(DataError, match="those of the encoder have 26"):
        longtail.read(tmp_path / "x.csv", vectorizer=TextVectorizer(encoder=letters), vectors=[good[:1]])
    with pytest.raises(SettingsError, match="appended to features"):
        longtail.read(tmp_path / "x.csv", vectorizer=None, vectors=[good[:1]])


def test_vectors_are_not_written_with_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("text,labels\nred apple,fruit\n")
    data = longtail.read(tmp_path / "x.csv", vectors=[np.ones((1, 4))])
    with pytest.raises(DataError, match="dense vectors"):
        longtail.write(data, tmp_path / "out", "npz")


def test_a_service_needs_the_encoder(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="needs the extra serve")
    from longtail.serve.library import load_model

    made = make_encoder(letters)
    (tmp_path / "x.csv").write_text(
        "text,labels\n" + "".join(f"{text},{own[0]}\n" for text, own in zip(TEXTS, LABELS, strict=True))
    )
    ready = longtail.read(tmp_path / "x.csv", vectors=[made.encode(TEXTS)])
    Tagger(Blend([KNN()])).fit_dataset(ready).save(tmp_path / "ready")
    with pytest.raises(ModelError, match="has no encoder, so it cannot be served"):
        load_model("ready", tmp_path / "ready")
    tagger = Tagger(Blend([KNN()]), encoder=letters).fit(TEXTS, LABELS)
    tagger.save(tmp_path / "m")
    served = load_model("m", tmp_path / "m")
    expected = tagger.predict(["red car"], 2).toarray()
    np.testing.assert_array_equal(served.tagger.predict(["red car"], 2).toarray(), expected)
