"""What the service answers."""

from __future__ import annotations

import concurrent.futures
import json
import signal
import time
from pathlib import Path

import pytest

import longtail
from longtail.serve.library import load_model
from tests.serve.conftest import FRUITS, Server, Start

TEXTS = [f"a red {fruit}" for fruit in FRUITS]


def test_one_text_and_several_get_what_the_tagger_suggests(server: Server, folders: dict[str, Path]) -> None:
    tagger = longtail.load(folders["tree"])
    one = server.suggest(TEXTS[0], k=3).json()
    assert one["model"] == "tree"
    assert [(label["label"], label["probability"]) for label in one["results"][0]] == [
        (name, pytest.approx(score, abs=1e-6)) for name, score in tagger.suggest(TEXTS[0], k=3)
    ]
    many = server.suggest(TEXTS, k=3).json()
    assert many["results"][0] == one["results"][0]
    assert [[label["label"] for label in row] for row in many["results"]] == [
        [name for name, _ in row] for row in tagger.suggest(TEXTS, k=3)
    ]


def test_labels_are_described(server: Server) -> None:
    label = server.suggest("a red apple", k=1).json()["results"][0][0]
    assert label.keys() == {"label", "id", "count", "group", "probability"}
    assert label["id"] == "http://example.org/" + label["label"].rpartition(" ")[2]
    assert label["count"] in (12, 24)
    assert label["group"] in ("head", "middle", "tail")


def test_k_threshold_and_model(server: Server) -> None:
    full = server.suggest("a red apple", k=9).json()["results"][0]
    assert len(full) == 9
    assert server.suggest("a red apple", k=100).json()["results"][0] == full
    bar = full[1]["probability"]
    assert server.suggest("a red apple", k=9, threshold=bar).json()["results"][0] == full[:2]
    assert server.suggest("a red apple", threshold=1).json()["results"][0] == []
    assert server.suggest("a red apple", model="net").json()["model"] == "net"


def test_the_threshold_of_a_model(start: Start, folders: dict[str, Path], tmp_path: Path) -> None:
    tagger = longtail.load(folders["tree"])
    texts, labels = ["a red apple", "a green fig"], [["all about apple"], ["all about fig", "all about green"]]
    for name, by_frequency in (("one", False), ("bins", True)):
        tagger.optimize(texts, labels, by_frequency=by_frequency, limit=2)
        tagger.save(tmp_path / name)
    server = start(tmp_path / "one", tmp_path / "bins", folders["tree"]).until_ready()
    for name in ("one", "bins"):
        expected = longtail.load(tmp_path / name).suggest([*texts, "zzz"], threshold="auto")
        rows = server.suggest([*texts, "zzz"], threshold="auto", model=name).json()["results"]
        assert [[label["label"] for label in row] for row in rows] == [[label for label, _ in row] for row in expected]
        assert [len(row) for row in server.suggest(texts, threshold="auto", model=name, k=1).json()["results"]] == [
            1,
            1,
        ]
    refused = server.suggest("a red apple", threshold="auto", model="tree")
    assert (refused.status_code, refused.json()["detail"][:36]) == (409, "Parabel has no automatic threshold. ")
    wrong = server.suggest("a red apple", threshold="best").json()["detail"]
    assert wrong == "threshold: input should be a valid number; threshold: input should be 'auto'."


def test_an_empty_text_does_not_fail_its_batch(server: Server) -> None:
    """A row without a text in a long file made the whole request an error."""
    for model in ("tree", "net"):
        alone = server.suggest(TEXTS[0], model=model).json()["results"]
        answer = server.suggest(["", TEXTS[0], " \n", "zzz"], model=model)
        assert answer.status_code == 200
        assert answer.json()["results"] == [[], *alone, [], []]
        assert server.suggest([""], model=model).json()["results"] == [[]]
    assert server.suggest("").status_code == 422  # the request holds nothing to label


def test_many_requests_at_once_get_their_own_answers(server: Server) -> None:
    alone = [server.suggest(text, k=3).json()["results"][0] for text in TEXTS]
    jobs = [i % len(TEXTS) for i in range(120)]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda i: server.suggest(TEXTS[i], k=3).json()["results"][0], jobs))
    assert answers == [alone[i] for i in jobs]
    large = server.suggest([TEXTS[i] for i in jobs] * 6, k=3).json()["results"]
    assert large == [alone[i] for i in jobs] * 6


def test_words_that_mattered(server: Server) -> None:
    text = "an Apple, or a 𝔭𝔢𝔞𝔯: apple?"
    answer = server.client.post("/explain", json={"text": text, "labels": ["all about apple"]}).json()
    (label,) = answer["labels"]
    strongest = label["words"][0]
    assert strongest["word"] == "apple"
    assert strongest["effect"] > 0
    assert [text[start:end] for start, end in strongest["spans"]] == ["Apple", "apple"]
    assert label["probability"] == server.suggest(text, k=1).json()["results"][0][0]["probability"]
    by_id = server.client.post("/explain", json={"text": text, "labels": ["http://example.org/apple"]}).json()
    assert by_id == answer
    assert len(server.client.post("/explain", json={"text": text, "k": 3}).json()["labels"]) == 3
    assert server.client.post("/explain", json={"text": "?!"}).json()["words_tried"] == 0


def test_similar_training_points(folders: dict[str, Path]) -> None:
    """Of a model that keeps training points, those with the label that are most like the text."""
    model = load_model("near", folders["near"])
    (label,) = model.explain("a red fig number3", 1, 10, [3])["labels"]
    assert label["neighbours"][0]["labels"] == ["all about fig", "all about red"]
    similar = [near["similarity"] for near in label["neighbours"]]
    assert similar == sorted(similar, reverse=True)
    assert 0 < similar[-1] <= similar[0] <= 1


def test_long_texts_are_explained_by_their_first_words(server: Server) -> None:
    text = " ".join(["apple", *(f"word{i}" for i in range(999))])
    answer = server.client.post("/explain", json={"text": text, "k": 1}).json()
    assert (answer["words_tried"], answer["words_left_out"]) == (300, 700)


def test_models_are_listed_and_metrics_counted(server: Server) -> None:
    listed = server.client.get("/models").json()
    assert listed["default"] == "tree"
    assert [(model["name"], model["kind"], model["learns"]) for model in listed["models"]] == [
        ("tree", "parabel", False),
        ("net", "mnn", True),
    ]
    assert listed["models"][0]["n_labels"] == 9
    assert server.client.get("/health").json() == {"status": "ok"}
    before = _metric(server, 'longtail_texts_total{model="net"}')
    server.suggest(["a", "b", "c"], model="net")
    assert _metric(server, 'longtail_texts_total{model="net"}') == before + 3
    assert _metric(server, 'longtail_requests_total{method="POST",path="/suggest",status="200"}') > 0
    assert _metric(server, 'longtail_request_seconds_count{path="/suggest"}') > 0


def _metric(server: Server, name: str) -> float:
    for line in server.client.get("/metrics").text.splitlines():
        if line.startswith(name + " "):
            return float(line.rpartition(" ")[2])
    return 0.0


def test_logs_are_json_and_hold_no_text(server: Server) -> None:
    secret = "unmistakable"
    answer = server.client.post("/suggest", json={"texts": secret}, headers={"X-Request-ID": "my-request-7"})
    assert answer.headers["x-request-id"] == "my-request-7"
    server.client.post("/suggest", content=f'{{"texts": {secret}'.encode())
    server.client.post("/explain", json={"text": secret, "labels": [secret]})
    server.client.post("/learn", json={"corrections": [{"text": secret, "labels": ["all about fig"]}]})
    server.client.get(f"/{secret}?q={secret}")
    log = server.log.read_text()
    assert secret not in log
    lines = [json.loads(line) for line in log.splitlines()]
    (mine,) = [line for line in lines if line.get("request") == "my-request-7"]
    assert (mine["method"], mine["path"], mine["status"], mine["level"]) == ("POST", "/suggest", 200, "info")


def test_the_openapi_documents_have_examples(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    paths = {"/suggest", "/explain", "/learn", "/learn/undo", "/models", "/health", "/ready", "/metrics"}
    assert set(document["paths"]) == paths
    body = document["paths"]["/suggest"]["post"]["requestBody"]["content"]["application/json"]
    for example in body["examples"].values():
        assert server.client.post("/suggest", json=example["value"]).status_code == 200
    assert set(server.client.get("/v1/openapi.json").json()["paths"]) >= {"/projects/{project_id}/suggest"}


def test_a_stop_finishes_what_has_begun(start: Start, folders: dict[str, Path]) -> None:
    server = start(folders["tree"], "--no-learn").until_ready()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        running = pool.submit(server.suggest, ["a red apple"] * 1000, k=9)
        time.sleep(0.05)
        server.process.send_signal(signal.SIGTERM)
        assert len(running.result().json()["results"]) == 1000
    assert server.process.wait(timeout=60) == 0
    server.stop()
    assert json.loads(server.log.read_text().splitlines()[-1])["event"] == "stopped"


def test_several_workers_share_a_port_and_their_metrics(start: Start, folders: dict[str, Path]) -> None:
    server = start(folders["tree"], "--no-learn", "--workers", "2").until_ready()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.suggest("a red apple").status_code, range(40)))
    assert set(answers) <= {200, 503}  # 503 from a worker that is still loading
    n_ok = answers.count(200)
    assert _metric(server, 'longtail_requests_total{method="POST",path="/suggest",status="200"}') == n_ok
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["", "/page/page.js", "/page/style.css"])
def test_the_page_is_served_with_a_strict_policy(server: Server, name: str) -> None:
    answer = server.client.get(name or "/")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "http:" not in answer.text.replace("http://www.w3.org", "")
    assert "https:" not in answer.text
