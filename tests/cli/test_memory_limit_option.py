"""The option for a limit of memory."""

from __future__ import annotations


def test_the_command_takes_it(sordino, tmp_path):
    (tmp_path / "t.csv").write_text("user\nu\n")
    asked = [
        "count",
        str(tmp_path / "t.csv"),
        "--user",
        "user",
        "--units",
        "--epsilon",
        "1",
        "--no-ledger",
        "--memory-limit",
    ]
    assert sordino(*asked, "1GB").code == 0
    refused = sordino(*asked, "1MB")
    assert (refused.code, refused.out) == (2, "")
    assert "--memory-limit must be a size of at least 512 MiB" in refused.err
    assert "got '1MB'" in refused.err


def test_answers_on_standard_input_need_none(sordino):
    asked = (
        "above",
        "-",
        "--threshold",
        "1",
        "-c",
        "1",
        "--epsilon",
        "1",
        "--sensitivity",
        "1",
        "--no-ledger",
    )
    refused = sordino(*asked, "--memory-limit", "1GB")
    assert refused.code == 2
    assert "--memory-limit is for tables" in refused.err
