"""Shards from the command line, and other programs that read them as they are."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlvc import Policy, open_dataset, write_folder
from tests.support.datasets import views

duckdb: Any = importlib.import_module("duckdb")
polars: Any = importlib.import_module("polars")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_folder(views(80), "log")
    return tmp_path


@pytest.mark.slow
def test_learn_from_1_2_and_4_shards(call: Any, log: Path) -> None:
    assert call("learn", "log", "--out", "a").code == 0
    wanted = (log / "a" / "policy.rlvc").read_bytes()
    for shards in ("1", "2", "4"):
        printed = call.succeed("data", "shard", "log", "--to", f"s{shards}", "--shards", shards)
        assert f"are in s{shards}, in {shards} shard" in printed
        assert f"Learn from them: rlvc learn s{shards}\n" in printed
        call.succeed("learn", f"s{shards}", "--out", f"r{shards}")
        assert (log / f"r{shards}" / "policy.rlvc").read_bytes() == wanted


@pytest.mark.slow
def test_forest_and_report_from_shards(call: Any, log: Path) -> None:
    assert call("data", "shard", "log", "--to", "shards", "--shards", "2").code == 0
    for source in ("log", "shards"):
        assert call("learn", source, "--out", f"of-{source}", "--trees", "2").code == 0
    one, other = (log / f"of-{source}" / "policy.rlvc" for source in ("log", "shards"))
    assert one.read_bytes() == other.read_bytes()
    assert call("report", "of-shards").code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["learn", "shards", "--actions", "2"], "a dataset of shards defines its actions"),
        (["learn", "shards", "--set", "detector=sift"], "which this dataset was made with; got"),
        (["learn", "shards", "--set", "threshold=9"], "threshold of RLVC must be 0.2, which this"),
        (["data", "shard", "log", "--to", "shards"], "must be new or an empty folder; got shards"),
        (["data", "shard", "shards", "--to", "x"], "shards holds shards already"),
        (["data", "shard", "log", "--to", "x", "--shards", "99"], "shards must be between 1 and"),
        (["data", "shard", "CartPole-v1", "--to", "x"], "rlvc collect CartPole-v1 --to FOLDER"),
    ],
)
def test_refused(call: Any, log: Path, words: list[str], told: str) -> None:
    assert call("data", "shard", "log", "--to", "shards", "--shards", "2").code == 0
    done = call(*words)
    assert done.code != 0
    assert told in " ".join(done.err.split())
    assert not (log / "x").exists()


@pytest.mark.slow
def test_images_that_are_gone(call: Any, log: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert call("data", "shard", "log", "--to", "shards").code == 0
    (log / "log").rename(log / "moved")
    done = call("learn", "shards", "--out", "run")
    assert done.code == 0
    (told,) = caplog.messages
    assert told.startswith("Figures of percepts are left out: Image 0 of the percept names")
    assert not (log / "run" / "classes.png").exists()
    assert call("report", "run").code == 0
    (log / "moved").rename(log / "log")
    assert call("learn", "shards", "--out", "again").code == 0
    one, other = (Policy.load(log / name / "policy.rlvc") for name in ("run", "again"))
    assert one.classifier.features.tolist() == other.classifier.features.tolist()
    assert np.array_equal(one.q, other.q)


JOIN = """
    SELECT s.symbol, i.action, count(DISTINCT i.start) AS percepts, avg(i.reward) AS reward
    FROM 'shards/interactions/*.parquet' i
    JOIN (SELECT DISTINCT percept, image FROM 'shards/percepts/*.parquet') p ON p.percept = i.start
    JOIN (SELECT DISTINCT camera, image, symbol FROM 'shards/symbols/*.parquet') s
        ON s.image = p.image
    GROUP BY ALL ORDER BY ALL
"""


def test_duckdb_and_polars_read_the_files_as_they_are(call: Any, log: Path) -> None:
    assert call("data", "shard", "log", "--to", "shards", "--shards", "3").code == 0
    database = open_dataset("shards").database()
    interactions, incidence = database.interactions, database.incidence
    sums: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for start, action, reward in zip(
        interactions.start.tolist(), interactions.action.tolist(), interactions.reward.tolist(),
        strict=True,
    ):  # fmt: skip
        for symbol in incidence.indices[incidence.indptr[start] : incidence.indptr[start + 1]]:
            sums.setdefault((int(symbol), action), []).append((start, reward))
    wanted = [
        (*key, len({start for start, _ in rows}), sum(r for _, r in rows) / len(rows))
        for key, rows in sorted(sums.items())
    ]
    assert np.allclose(duckdb.sql(JOIN).fetchall(), wanted)

    scan = {
        kind: polars.scan_parquet(f"shards/{kind}/*.parquet")
        for kind in ("interactions", "percepts", "symbols", "images")
    }
    images = scan["percepts"].filter("is_first").select("percept", "image")
    symbols = scan["symbols"].select("image", "symbol").unique()
    found = (
        scan["interactions"]
        .join(images, left_on="start", right_on="percept")
        .join(symbols, on="image")
        .group_by("symbol", "action")
        .agg(polars.col("start").n_unique(), polars.col("reward").mean())
        .sort("symbol", "action")
        .collect()
    )
    assert np.allclose(found.rows(), wanted)
    files = scan["images"].sort("image").collect()
    assert files["symbols"].sum() == scan["symbols"].select(polars.len()).collect().item()
    assert all(Path(path).is_file() for path in files["path"])
    stuck = scan["interactions"].select("stuck").collect()["stuck"].to_numpy()
    assert np.array_equal(stuck, interactions.is_stuck)
