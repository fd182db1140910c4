"""Output files are refused where they exist, and written whole or not at all."""

import os

import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli._outputs import check_outputs, replacing


def test_existing_file_is_refused_without_force(tmp_path):
    path = tmp_path / "out.csv"
    check_outputs([path], force=False)
    path.write_text("old")
    with pytest.raises(CommandError, match=r"out\.csv: exists already; replace it with --force"):
        check_outputs([path], force=False)
    check_outputs([path], force=True)


def test_input_is_never_an_output(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("data")
    alias = tmp_path / "alias.csv"
    alias.symlink_to(path)
    for output in (path, tmp_path / "." / "data.csv", alias):
        with pytest.raises(CommandError, match="is the input file"):
            check_outputs([output], force=True, inputs=[path])


def test_two_outputs_of_one_name(tmp_path):
    with pytest.raises(CommandError, match="is given for two outputs"):
        check_outputs([tmp_path / "a.csv", tmp_path / "." / "a.csv"], force=True)


def test_folders(tmp_path):
    with pytest.raises(CommandError, match="is a folder"):
        check_outputs([tmp_path], force=True)
    with pytest.raises(CommandError, match="there is no folder"):
        check_outputs([tmp_path / "none" / "a.csv"], force=True)


def test_folder_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # permissions do not bind every user
    with pytest.raises(CommandError, match="cannot be written to"):
        check_outputs([tmp_path / "a.csv"], force=True)


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
