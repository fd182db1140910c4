"""Files are written whole or not at all."""

import os

import pytest

from probsfa._files import replacing


def test_all_are_written(tmp_path):
    (tmp_path / "a.csv").write_text("old")
    with replacing(tmp_path / "a.csv", tmp_path / "b.csv.gz") as drafts:
        assert [draft.name.endswith(end) for draft, end in zip(drafts, (".csv", ".csv.gz"), strict=True)]
        for i, draft in enumerate(drafts):
            draft.write_text(f"new {i}")
        assert (tmp_path / "a.csv").read_text() == "old"
    assert (tmp_path / "a.csv").read_text() == "new 0"
    assert (tmp_path / "b.csv.gz").read_text() == "new 1"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_touches_nothing(tmp_path, error):
    (tmp_path / "a.csv").write_text("old")
    with pytest.raises(error), replacing(tmp_path / "a.csv", tmp_path / "b.csv") as drafts:
        drafts[0].write_text("half")
        raise error
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"


def test_permissions_are_those_of_an_ordinary_file(tmp_path):
    (tmp_path / "plain").write_text("")
    (tmp_path / "closed").write_text("")
    (tmp_path / "closed").chmod(0o600)
    with replacing(tmp_path / "new", tmp_path / "closed"):
        pass
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "plain").st_mode
    assert os.stat(tmp_path / "closed").st_mode & 0o777 == 0o600


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    with replacing(tmp_path / "link.csv") as [draft]:
        draft.write_text("new")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_a_folder_that_is_not_there_leaves_no_draft_in_another(tmp_path):
    with (
        pytest.raises(FileNotFoundError),
        replacing(tmp_path / "a.csv", tmp_path / "none" / "b.csv"),
    ):
        raise AssertionError("nothing can be written")
    assert list(tmp_path.iterdir()) == []
