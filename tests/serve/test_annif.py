"""Annif's REST API: the client of the Annif project works unchanged, and so does Annif itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from longtail.serve.feedback import FeedbackLog
from tests.serve.conftest import COLOURS, FRUITS, Server

FIG = "http://example.org/fig"


@pytest.fixture
def client(server: Server) -> Any:
    module = pytest.importorskip("annif_client", reason="annif-client is not installed (pip install annif-client)")
    return module.AnnifClient(f"{server.url}/v1/")


def test_annif_client_lists_suggests_and_learns(client: Any, server: Server) -> None:
    assert client.api_info["title"].startswith("Annif")
    assert [project["project_id"] for project in client.projects] == ["tree", "net"]
    assert client.get_project("tree")["is_trained"] is True
    best = client.suggest("tree", "a red fig", limit=2)
    assert {hit["uri"] for hit in best} == {FIG, "http://example.org/red"}
    assert {hit["label"] for hit in best} == {"all about fig", "all about red"}
    assert all(0 < hit["score"] <= 1 for hit in best)
    assert client.suggest("tree", "a red fig", threshold=1.0) == []
    assert len(client.suggest("tree", "a red fig")) == 9
    assert client.suggest("tree", " ") == []
    documents = [{"text": "a red fig", "document_id": "d1"}, {"text": ""}]
    first, second = client.suggest_batch("tree", documents, limit=2)
    assert (first["results"], first["document_id"]) == (best, "d1")
    assert second == {"results": [], "document_id": None}
    with pytest.raises(ValueError, match="No model is called 'x'"):
        client.suggest("x", "a red fig")
    learnt = client.learn("net", [{"text": "a ripe fig", "subjects": [{"uri": FIG}, {"uri": "x", "label": "unknown"}]}])
    assert learnt.status_code == 204


def test_learnt_documents_are_stored_by_name(server: Server, tmp_path: Path) -> None:
    documents = [{"text": "stored", "subjects": [{"uri": FIG}, {"uri": "urn:x"}]}, {"text": "nothing"}]
    assert server.client.post("/v1/projects/tree/learn", json=documents).status_code == 204
    log = FeedbackLog(server.log.parent / "feedback" / "tree.feedback.sqlite")
    last = list(log.after())[-1]
    assert (last.source, last.labels, last.correction["text"]) == ("annif", ["all about fig", "urn:x"], "stored")


@pytest.mark.parametrize(
    ("form", "status", "message"),
    [
        ({"limit": "5"}, 422, "text: the form has no field"),
        ({"text": "a", "limit": "-1"}, 422, "limit"),
        ({"text": "a", "limit": "many"}, 422, "limit"),
        ({"text": "a", "threshold": "2"}, 422, "threshold"),
        ({"text": "a", "threshold": "nan"}, 422, "threshold"),
    ],
)
def test_wrong_forms(server: Server, form: dict[str, str], status: int, message: str) -> None:
    answer = server.client.post("/v1/projects/tree/suggest", data=form)
    assert answer.status_code == status
    assert message in answer.json()["detail"]


def test_forms_that_are_none(server: Server) -> None:
    url = "/v1/projects/tree/suggest"
    assert server.client.post(url, json={"text": "a"}).status_code == 415
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert server.client.post(url, content=b"text=%ff", headers=headers).status_code == 400
    assert server.client.post(url, content=b"text=a+red+fig&limit=0", headers=headers).json() == {"results": []}
    many = {"documents": [{"text": "a"}] * 33}
    assert server.client.post("/v1/projects/tree/suggest-batch", json=many).status_code == 422
    assert server.client.post("/v1/projects/tree/suggest-batch?limit=x", json={"documents": []}).status_code == 422


def _annif() -> str | None:
    """Return the path of Annif's command: that of ``ANNIF``, of ``PATH``, or of the environment that .ci/tools made."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longtail"
    whole = [marker.parent / "bin" / "annif" for marker in sorted(cache.glob("annif-*/.whole"))]
    return os.environ.get("ANNIF") or shutil.which("annif") or (str(whole[-1]) if whole else None)


@pytest.mark.timeout(900)  # Annif takes half a minute to start on a busy machine
def test_annif_uses_longtail_as_a_backend(server: Server, tmp_path: Path) -> None:
    annif = _annif()
    if annif is None:
        pytest.skip("Annif is not installed (run .ci/tools, or pip install annif in an environment of its own)")
    (tmp_path / "projects.cfg").write_text(
        "[fruit]\nname=fruit\nlanguage=en\nbackend=http\nvocab=fruit\nlimit=9\n"
        f"endpoint={server.url}/v1/projects/tree/suggest\n"
    )
    rows = [f"<http://example.org/{name}>\t{name}" for name in [*FRUITS, *COLOURS]]
    (tmp_path / "fruit.tsv").write_text("\n".join(rows) + "\n")

    def run(*words: str) -> str:
        ended = subprocess.run(
            [annif, *words], cwd=tmp_path, input="a red fig", capture_output=True, text=True, timeout=280
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run("load-vocab", "--language", "en", "fruit", "fruit.tsv")
    lines = run("suggest", "fruit").splitlines()
    assert {line.split("\t")[1] for line in lines[:2]} == {"fig", "red"}
