"""Links of a built site; the browser's part checks a planted page in every run (``tools.site_check``)."""

from pathlib import Path

import pytest

from tools import site_check


def test_links_to_missing_files_and_anchors_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="https://x.org/y"></a><a href="#top"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p><img src="none.svg"><a href="a.html#none"></a>')
    assert sorted(site_check.broken_links(tmp_path)) == [
        "a.html: #top leads nowhere",
        "b.html: a.html#none leads nowhere",
        "b.html: none.svg leads nowhere",
    ]


def test_without_a_site_nothing_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert site_check.main([str(tmp_path)]) == 2
    assert "are needed" in capsys.readouterr().err
