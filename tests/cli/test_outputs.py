"""Output files are refused where they exist, and where they cannot be written."""

import os

import pytest

from probsfa.cli._errors import CommandError
from probsfa.cli._outputs import check_outputs


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
