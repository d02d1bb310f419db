from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rlvc.cli import data as cli_data
from rlvc.envs.photos.download import SETS
from tests.envs.photos import test_download
from tests.envs.photos.test_download import CONTENT, Server, contents

server = test_download.server


def test_list_says_what_there_is_and_where(
    call: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = call.succeed("data", "list")
    rows = {line.split()[0]: line for line in printed.splitlines() if line}
    assert rows["name"].split() == ["name", "what", "files", "MB", "licence", "credit", "where"]
    for words in ("11  22.3", "CC BY-SA 4.0", "Matthew Petroff", "not here"):
        assert words in rows["places"]
    assert rows["street"].endswith("not here")
    assert printed.endswith("Get small with: rlvc data get small\n")
    assert call("data", "get", "small").code == 0
    assert where_small(call("data", "list").out) == "cached"
    assert f"small is in {tmp_path / 'cache' / 'small'}\n" in call("data", "list").out
    monkeypatch.setenv("RLVC_DATA", str(tmp_path / "cache"))
    assert where_small(call("data", "list").out) == "RLVC_DATA"


def where_small(table: str) -> str:
    row = next(line for line in table.splitlines() if line.startswith("small "))
    return row.split()[-1]


def test_list_fits_a_terminal(call: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(SETS, "small")
    assert len(call("data", "list").out.splitlines()) == 3 + 1 + 2


def test_get_downloads_once_and_gives_credit(call: Any, server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "small"
    credit = (
        "Photographs by Ann Onymous, CC0: views cut from them carry the same licence and credit.\n"
    )
    for where in ("is now in", "was already in"):
        assert call.succeed("data", "get", "small") == f"small {where} {folder}\n{credit}"
        assert contents(folder) == CONTENT


def test_get_shows_a_bar_on_a_terminal(
    call: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = io.StringIO()
    shown = Console(file=screen, width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(cli_data, "Console", lambda: shown)
    server.mode = "short"
    assert call("data", "get", "small").code == 1
    server.mode = "good"
    screen.truncate(0)
    assert call("data", "get", "small").code == 0
    bar = [line for line in screen.getvalue().splitlines() if "━" in line][-1]
    assert "small" in bar
    assert "240.1/240.1 kB" in bar
    screen.seek(0)
    screen.truncate(0)
    assert call("data", "get", "small").code == 0
    assert "━" not in screen.getvalue()


def test_get_into_a_folder(
    call: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    printed = call.succeed("data", "get", "small", "--to", own)
    assert contents(own / "small") == CONTENT
    assert printed.endswith(f"To use what is there: export RLVC_DATA={own}\n")
    monkeypatch.setenv("RLVC_DATA", str(own))
    assert "RLVC_DATA" not in call("data", "get", "small", "--to", own).out
    assert call.succeed("data", "get", "small").endswith(
        f"The tasks use {own / 'small'}, because RLVC_DATA comes first.\n"
    )


@pytest.mark.parametrize("mode", ["404", "500", "wrong", "short"])
def test_a_failure_is_told_in_a_line(call: Any, server: Server, mode: str) -> None:
    server.mode = mode
    told = call.fail(1, "data", "get", "small")
    assert told.startswith("rlvc: ")
    assert told.count("\n") == 1
    test_download.assert_recovers(server)


def test_no_network_is_a_failure(
    call: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLVC_DATA_URL", "http://127.0.0.1:9")
    assert call.fail(1, "data", "get", "street") == (
        "rlvc: charles-street.jpg could not be received from 127.0.0.1:9: Connection refused. "
        "Check the network and try again. "
        "Without a network, set RLVC_DATA to a folder that has the files.\n"
    )


def test_wrong_usage(call: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call.fail(2, "data", "get", "smal") == (
        "rlvc: Unknown data set 'smal'. Did you mean 'small'? Known: places, small, street.\n"
    )
    assert call("data", "get").code == 2
    assert call("data", "fetch", "small").code == 2
    monkeypatch.setenv("RLVC_DATA_URL", "ftp://x.org")
    assert "must begin with https:// or http://" in call.fail(2, "data", "get", "small")
    assert server.asked == []


def test_an_interruption_is_a_failure(
    call: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(name: str, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlvc.envs.photos.download.get", stop)
    assert call.fail(1, "data", "get", "small") == "rlvc: Stopped.\n"


def test_help_names_the_choices(call: Any) -> None:
    assert all(name in call("data", "get", "-h").out for name in ("places or street", "--to"))
    assert all(name in call("data", "-h").out for name in ("list", "get"))
