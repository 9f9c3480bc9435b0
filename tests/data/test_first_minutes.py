"""Files that a new user has: Annif's corpora and vocabularies, files that describe labels, lbl.json beside a table."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from longtail.data import TextVectorizer, read, write
from longtail.errors import DataError, LongtailWarning, SettingsError
from longtail.tagger import Tagger

SHORT_TEXTS = (
    'The "Kalevala" and its singers\t<http://www.yso.fi/onto/yso/p1> <http://www.yso.fi/onto/yso/p2>\n'
    '"Unclosed quotation mark\t<http://www.yso.fi/onto/yso/p2>\n'
    "Folk songs\t<http://www.yso.fi/onto/yso/p1>\t<http://www.yso.fi/onto/yso/p3>\n"
)
URIS = [f"http://www.yso.fi/onto/yso/p{i}" for i in (1, 2, 3)]


@pytest.fixture
def short_texts(tmp_path: Path) -> Path:
    path = tmp_path / "yso.tsv"
    path.write_text(SHORT_TEXTS)
    return path


def test_headerless_lines_without_subjects_may_come_first(tmp_path):
    path = tmp_path / "short.tsv"
    path.write_text("a text\t\nmore\t\nmosses\t<http://x.example/1> <http://x.example/2>\nlast\t\n")
    data = read(path, vectorizer=None)
    assert data.texts == ["a text", "more", "mosses", "last"]
    assert np.diff(data.Y.indptr).tolist() == [0, 0, 2, 0]
    path.write_text("a text\t\nmore\tno subjects\n")
    with pytest.raises(DataError):
        read(path, vectorizer=None)


def test_the_text_nan_is_no_label(tmp_path):
    """It became the commonest label."""
    (tmp_path / "d.csv").write_text("text,labels\na,NaN\nb,moss\nc,nan\nd,javascript|NaN\n")
    data = read(tmp_path / "d.csv", vectorizer=None)
    assert data.label_names == ["moss", "javascript", "NaN"]
    assert np.diff(data.Y.indptr).tolist() == [0, 1, 0, 2]
    (tmp_path / "n.csv").write_text("text,labels\na,NaN\nb,7 8\n")
    assert read(tmp_path / "n.csv", vectorizer=None).label_names == ["7", "8"]


def test_a_headerless_tsv_of_texts_and_uris(short_texts):
    data = read(short_texts, vectorizer=None)
    assert data.texts == ['The "Kalevala" and its singers', '"Unclosed quotation mark', "Folk songs"]
    assert data.label_ids == URIS
    assert data.Y.toarray().tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_a_line_without_a_tab_is_named(tmp_path):
    (tmp_path / "x.tsv").write_text(SHORT_TEXTS + "no labels here\n")
    with pytest.raises(DataError, match=r"x\.tsv:4: the line has no tab"):
        read(tmp_path / "x.tsv", vectorizer=None)


def test_quotation_marks_in_a_tsv_with_a_header_are_plain_characters(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text('text\tlabels\n"Emma" and others\tnovels\n"Open\tnovels|"b"\n"say ""hi"""\tx\n')
    data = read(path, vectorizer=None)
    assert data.texts == ['"Emma" and others', '"Open', 'say "hi"']
    assert data.label_names == ["novels", '"b"', "x"]


NAMES = dict(zip(URIS, ("epics", "quotes", "songs"), strict=True))
VOCABULARIES = {
    "voc.tsv": "".join(f"<{uri}>\t{name}\n" for uri, name in NAMES.items()),
    "voc.csv": "uri,label_en,label_fi\n" + "".join(f"{uri},{name},\n" for uri, name in NAMES.items()),
    "voc.json": json.dumps({uri: {"name": name} for uri, name in NAMES.items()}),
    "voc.jsonl": "".join(json.dumps({"id": uri, "name": name}) + "\n" for uri, name in NAMES.items()),
}


@pytest.mark.parametrize(("name", "content"), VOCABULARIES.items())
def test_vocabularies_name_uris(short_texts, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    data = read(short_texts, label_texts=tmp_path / name)
    assert data.label_ids == URIS
    assert data.label_names == data.label_texts == ["epics", "quotes", "songs"]
    assert data.Z is not None
    assert data.Z[2].nnz == 1  # "songs"


def test_a_skos_vocabulary(short_texts, tmp_path):
    pytest.importorskip("rdflib")
    (tmp_path / "voc.ttl").write_text(
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        f'<{URIS[0]}> a skos:Concept; skos:prefLabel "eepokset"@fi, "epics"@en; skos:altLabel "epic poems"@en .\n'
        f'<{URIS[1]}> a skos:Concept; skos:prefLabel "lainaukset"@fi .\n'
    )
    data = read(short_texts, label_texts=tmp_path / "voc.ttl")
    assert data.label_names == ["epics", "lainaukset", URIS[2]]
    assert data.label_texts[0].split("\n") == ["epics", "eepokset", "epic poems"]


def test_uris_with_spaces_are_read_in_silence(tmp_path, caplog):
    """Vocabularies from elsewhere have them by the thousand, and rdflib logs a line for each."""
    pytest.importorskip("rdflib")
    (tmp_path / "d.csv").write_text("text,labels\nsagas,http://x.org/old epics\n")
    (tmp_path / "voc.ttl").write_text(
        '<http://x.org/old epics> <http://www.w3.org/2004/02/skos/core#prefLabel> "old epics"@en .\n'
    )
    assert read(tmp_path / "d.csv", label_texts=tmp_path / "voc.ttl", vectorizer=None).label_names == ["old epics"]
    assert "valid URI" not in caplog.text


def test_texts_per_language_and_labels_without_points(tmp_path):
    (tmp_path / "d.csv").write_text("text,labels\na,moss|bread\nb,moss\n")
    (tmp_path / "l.csv").write_text("name,text_en,text_de\nmoss,small plants,kleine Pflanzen\nmail,letters,Briefe\n")
    data = read(tmp_path / "d.csv", label_texts=tmp_path / "l.csv", vectorizer=None)
    assert data.label_names == ["moss", "bread", "mail"]
    assert data.label_texts == ["small plants\nkleine Pflanzen", "bread", "letters\nBriefe"]
    assert data.Y.shape == (2, 3)
    given = read(tmp_path / "d.csv", label_texts={"moss": "small plants"}, vectorizer=None)
    assert given.label_texts == ["small plants", "bread"]


def test_a_folder_of_documents(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "a.txt").write_text("Folk songs\nof the north")
        (tmp_path / part / "a.tsv").write_text(f"<{URIS[0]}>\tepics\n<{URIS[1]}>\tquotes\n")
        (tmp_path / part / "b.txt").write_text("Bread")
        (tmp_path / part / "b.key").write_text("baking\n\nfood\n")
        (tmp_path / part / "c.txt").write_text("No labels")
    data = read(tmp_path, vectorizer=None)
    assert data.ids == ["a", "b", "c"]
    assert data.texts == ["Folk songs\nof the north", "Bread", "No labels"]
    assert data.label_names == ["epics", "quotes", "baking", "food"]
    assert data.label_ids == [*URIS[:2], "baking", "food"]
    assert data.Y.toarray().tolist() == data.test.Y.toarray().tolist() == [[1, 1, 0, 0], [0, 0, 1, 1], [0] * 4]


@pytest.mark.parametrize("path", [".", "train.csv"])
def test_lbl_json_beside_a_table_is_used_or_refused(tmp_path, path):
    (tmp_path / "train.csv").write_text("text,labels\na moss,L1|L2\nbread,L2\n")
    (tmp_path / "lbl.json").write_text(
        '{"uid": "L1", "title": "mosses"}\n{"uid": "L2", "title": "food", "text": "to eat"}\n'
    )
    data = read(tmp_path / path)
    assert data.label_names == ["mosses", "food"]
    assert data.label_texts == ["mosses", "to eat"]
    (tmp_path / "lbl.json").write_text('{"uid": "other", "title": "labels"}\n')
    with pytest.raises(DataError, match=r"lbl\.json: none of the 2 labels of the data is in it.*'L1'.*'other'"):
        read(tmp_path / path)


def test_settings_without_effect_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text("2 3 2\n0 0:1\n1 2:1\n")
    with pytest.raises(SettingsError, match=r"vectorizer .* has no effect: the data holds features"):
        read(tmp_path, vectorizer=TextVectorizer(ngrams=(1, 2)))
    with pytest.raises(SettingsError, match=r"labels_separator .* has no effect: the data is not a table"):
        read(tmp_path, labels_separator=";")
    with pytest.raises(SettingsError, match=r"label_texts .* has no effect"):
        read(tmp_path, label_texts={"0": "x"})


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.jsonl", "out.csv.gz", "folder"])
@pytest.mark.parametrize("labels", ["moss|bread", '["moss, green", "bread; rye"]'])
def test_a_table_is_written_and_read_back(tmp_path, name, labels):
    cell = labels if "[" not in labels else '"' + labels.replace('"', '""') + '"'
    (tmp_path / "in.csv").write_text(f'id,text,labels\nx,"say ""hi"", you",{cell}\ny,bread,\n')
    data = read(tmp_path / "in.csv", vectorizer=None)
    write(data, tmp_path / name, None if "." in name else "table")
    again = read(tmp_path / name, vectorizer=None)
    assert (again.texts, again.ids, again.label_names) == (data.texts, data.ids, data.label_names)
    assert (again.Y != data.Y).nnz == 0


def test_label_features_are_written_and_read_back(tmp_path):
    (tmp_path / "in.csv").write_text("text,labels\na moss,moss|bread\nbread rolls,bread\n")
    data = read(tmp_path / "in.csv", label_texts={"moss": "moss"})
    write(data, tmp_path / "lf", "lf")
    assert (tmp_path / "lf" / "Yf.txt").read_text() == "moss\nbread\n"
    again = read(tmp_path / "lf")
    for one, other in ((again.X, data.X), (again.Y, data.Y), (again.Z, data.Z)):
        assert (one != other).nnz == 0
    assert again.label_names == data.label_names


def test_labels_that_the_file_does_not_have_are_counted(tmp_path, caplog):
    (tmp_path / "d.csv").write_text("text,labels\na,moss|bread\nb,moss\n")
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        read(tmp_path / "d.csv", label_texts={"moss": "plants", "mail": "letters"}, vectorizer=None)
    assert "label_texts describes 1 of 2 labels, and 1 that no point has." in caplog.text


TWO_COLUMNS = {
    "german.csv": "Titel;Schlagwörter\nrote Äpfel;Obst,rot\ngrüne Birnen;Obst,grün\n",
    "japanese.csv": "本文,タグ\n味噌汁を作る。,料理、旅行\n京都へ行く。,旅行、料理\n",
    "numbered.csv": "id,Titel,Schlagwörter\n7,rote Äpfel,Obst|rot\n8,grüne Birnen,Obst|grün\n",
    "half.csv": "title,Sachgebiete\nrote Äpfel,Obst|rot\ngrüne Birnen,Obst|grün\n",
}


@pytest.mark.parametrize(("name", "content"), TWO_COLUMNS.items())
def test_two_columns_are_text_and_labels_whatever_their_names(tmp_path, caplog, name, content):
    (tmp_path / name).write_text(content)
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        data = read(tmp_path / name, vectorizer=None)
    assert data.Y.sum() == 4
    assert data.texts[0] == ("味噌汁を作る。" if name == "japanese.csv" else "rote Äpfel")
    assert f"{name}: the text is taken from column" in caplog.text
    assert "--labels-column" in caplog.text


@pytest.mark.parametrize(("name", "content"), TWO_COLUMNS.items())
def test_data_that_may_lack_labels_has_texts_and_labels_in_the_same_columns(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    may, must = (read(tmp_path / name, vectorizer=None, require_labels=required) for required in (False, True))
    assert may.texts == must.texts
    assert (may.Y != must.Y).nnz == 0
    assert may.Y.nnz


def test_a_single_column_is_the_text_where_labels_may_be_missing(tmp_path):
    (tmp_path / "x.csv").write_text("id,Titel\n7,rote Äpfel\n")
    data = read(tmp_path / "x.csv", vectorizer=None, require_labels=False)
    assert (data.texts, data.ids, data.n_labels) == (["rote Äpfel"], ["7"], 0)


HEADERLESS = {
    "label.csv": ("red pear,pear|red\ngreen pear,pear|green\n", "its label 'pear' occurs in other rows, too"),
    "labels.csv": ("red pear,pear|red\nmoss,plant\n", "'pear|red' looks like labels"),
    "uris.csv": ("red pear,http://x.example/1\nmoss,http://x.example/2\n", "'http://x.example/1' looks like labels"),
    "words.csv": (
        "red apple,fruit\ngreen apple,sour\nred car,vehicle\n",
        "the words of 'red apple' occur in other rows",
    ),
    "twice.csv": ("apple,fruit\npear,sour\napple,round\n", "'apple' is the text of another row, too"),
    "text.tsv": ("a guide to mosses\tplant\nhow to bake bread\tfood\n", "'a guide to mosses' looks like a text"),
}


@pytest.mark.parametrize(("name", "case"), HEADERLESS.items())
@pytest.mark.parametrize("require_labels", [True, False])
def test_a_first_row_is_not_lost_as_names_of_columns(tmp_path, caplog, name, case, require_labels):
    content, why = case
    (tmp_path / name).write_text(content)
    with caplog.at_level(logging.INFO, logger="longtail.data"), pytest.raises(DataError) as refused:
        read(tmp_path / name, vectorizer=None, require_labels=require_labels)
    assert f"{name}:1: the first line must name the columns, but looks like a row" in str(refused.value)
    assert why in str(refused.value)
    assert not caplog.text
    first, second = content.split("\n")[0].split("\t" if name.endswith(".tsv") else ",")
    assert len(read(tmp_path / name, text=first, labels=second, vectorizer=None).texts) == content.count("\n") - 1


def test_a_first_text_is_not_lost_where_a_single_column_is_read(tmp_path):
    (tmp_path / "x.csv").write_text("carrot soup with cream\nlemon cake with poppy seeds\n")
    with pytest.raises(DataError, match="'carrot soup with cream' looks like a text"):
        read(tmp_path / "x.csv", vectorizer=None, require_labels=False)


@pytest.mark.parametrize(
    ("content", "columns"),
    [("red apple,fruit\ngreen pear,sour\n", "columns text and labels"), ("red apple\npear\n", "column text")],
)
def test_a_first_row_that_may_be_lost_is_a_warning(tmp_path, content, columns):
    (tmp_path / "x.csv").write_text(content)
    with pytest.warns(
        LongtailWarning, match=f"the first line, 'red apple'.*, names the columns, but may be.*{columns}"
    ):
        assert len(read(tmp_path / "x.csv", vectorizer=None, require_labels=False).texts) == 1


def test_names_of_columns_that_are_shorter_than_texts_are_in_order(tmp_path, recwarn):
    (tmp_path / "x.csv").write_text("Titel Werk,Thema\nein Werk über die Moose; mit dem Titel Nord,Moose\n")
    assert len(read(tmp_path / "x.csv", vectorizer=None).texts) == 1
    assert not recwarn


def test_a_question_may_name_a_column(tmp_path):
    """Forms write their questions into the first line."""
    (tmp_path / "x.csv").write_text('What is this book about?,"Its topics, if any"\n' + f"{40 * 'moss '},plant\n" * 3)
    assert read(tmp_path / "x.csv", vectorizer=None).label_names == ["plant"]


def test_a_title_is_read_with_the_texts_beside_it(tmp_path, caplog):
    """The abstracts were left out in silence."""
    caplog.set_level(logging.INFO, logger="longtail.data")
    (tmp_path / "d.csv").write_text("id,Title,Abstract,Categories\n1,a moss,small plants,x;y\n2,a fern,,x\n")
    assert read(tmp_path / "d.csv", vectorizer=None).texts == ["a moss\nsmall plants", "a fern"]
    assert "the text is taken from columns 'Title' and 'Abstract' together. Name others" in caplog.text
    rows = [{"title": "a moss", "body": "small plants", "tags": ["x"]}, {"title": "a fern", "tags": ["x"]}]
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read(tmp_path / "d.jsonl", vectorizer=None).texts == ["a moss\nsmall plants", "a fern"]
    with pytest.raises(DataError, match="no field 'body'"):
        read(tmp_path / "d.jsonl", text=["title", "body"])


def test_texts_that_are_not_read_are_named(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="longtail.data")
    (tmp_path / "d.csv").write_text("title,text,tags\nmosses,small plants,x;y\nferns,large plants,x\n")
    assert read(tmp_path / "d.csv", vectorizer=None).texts == ["small plants", "large plants"]
    assert "the text is taken from column 'text'; 'title' is not read." in caplog.text
    caplog.clear()
    read(tmp_path / "d.csv", vectorizer=None, text="text")
    assert "is not read" not in caplog.text


def test_two_columns_in_the_other_order_are_not_guessed(tmp_path):
    (tmp_path / "x.csv").write_text("author,title\nEmma,On mosses\n")
    with pytest.raises(DataError, match="no column has a usual name of the labels column"):
        read(tmp_path / "x.csv", vectorizer=None)


def test_a_file_that_describes_all_labels_and_no_others(short_texts, tmp_path, caplog):
    (tmp_path / "voc.tsv").write_text(VOCABULARIES["voc.tsv"])
    with caplog.at_level(logging.INFO, logger="longtail.data"):
        read(short_texts, vectorizer=None, label_texts=tmp_path / "voc.tsv")
    assert "voc.tsv describes 3 of 3 labels." in caplog.text


def test_a_json_file_that_is_one_list(tmp_path):
    """What ``DataFrame.to_json(orient="records")`` writes: on one line, or indented."""
    rows = [{"text": "tomato soup", "labels": ["soup", "herb"]}, {"text": "apple pie", "labels": ["sweet"]}]
    for indent in (None, 2):
        (tmp_path / "d.json").write_text(json.dumps(rows, indent=indent))
        data = read(tmp_path / "d.json", vectorizer=None)
        assert data.texts == ["tomato soup", "apple pie"]
        assert data.label_names == ["soup", "herb", "sweet"]
    (tmp_path / "d.json").write_text(json.dumps([*rows, 7]))
    with pytest.raises(DataError, match=r"d\.json:3: the entry holds a number"):
        read(tmp_path / "d.json", vectorizer=None)
    (tmp_path / "d.json").write_text(json.dumps(rows, indent=2)[:-9])
    with pytest.raises(DataError, match="not valid JSON"):
        read(tmp_path / "d.json", vectorizer=None)
    (tmp_path / "d.json").write_text("[]")
    with pytest.raises(DataError, match="the file is empty"):
        read(tmp_path / "d.json", vectorizer=None)


def test_words_of_label_names_are_known_although_no_text_has_them(tmp_path: Path) -> None:
    """Of a table, names of labels without such a word had no text; of texts in memory they had."""
    texts, labels = ["red apple", "green pear", "fast car"], [["fruit"], ["fruit"], ["vehicle"]]
    rows = [f"{text},{label[0]}" for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "d.csv").write_text("\n".join(["text,labels", *rows]) + "\n")
    data = read(tmp_path / "d.csv")
    assert data.Z is not None
    assert (np.diff(data.Z.indptr) == 1).all()
    in_memory = Tagger("textmatch").fit(texts, labels)
    from_file = Tagger("textmatch").fit_dataset(data)
    assert from_file.suggest("vehicle") == in_memory.suggest("vehicle") != []
