"""The command from end to end on unusual files, with a stand-in for the estimator.

Expected files are written out: imputed values are column means, and all other text is unchanged.
"""

import gzip
import re
import stat

import numpy as np
import pytest

# In these files, [old>new] is a missing value with its text before and after the command. The imputed value
# is the mean of the column: 2 of 1 and 3, or 30 of 20 and 40.
ODD = {
    "plain": "a,b\n1,20\n[>2.000],40\n3,[>30.00]\n",
    "byte order mark": "\ufeffa,b\n1,20\n[>2.000],40\n3,[>30.00]\n",
    "semicolons, decimal commas": "a;b\n1,0;20\n[>2,000];40\n3,00;[>30,00]\n",
    "commas, decimal commas in quotes": 'a,b\n"1,0",20\n"[>2,000]",40\n"3,0",[>"30,00"]\n',
    "quoted fields": '"a","b"\n"1.0","20"\n"[>2.000]","40"\n"3","[NA>30.00]"\n',
    "delimiters and line ends in quotes": (
        'note,a,b\n"x, ""y""",1,20\n"two\nlines",[>2.000],40\n,3,[>30.00]\n'
    ),
    "CRLF": "a,b\r\n1,20\r\n[>2.000],40\r\n3,[>30.00]\r\n",
    "carriage returns alone": "a,b\r1,20\r[>2.000],40\r3,[>30.00]\r",
    "no line end at the end": "a,b\n1,20\n[>2.000],40\n3,[>30.00]",
    "trailing delimiters": "a,b,\n1,20,\n[>2.000],40,\n3,[>30.00],\n",
    "trailing delimiters below the header": "a,b\n1,20,\n[>2.000],40,\n3,[>30.00],\n",
    "blank lines": "\na,b\n\n1,20\n  \n[>2.000],40\n3,[>30.00]\n\n\n",
    "rows of delimiters at the end": "a,b\n1,20\n[>2.000],40\n3,[>30.00]\n,\n,\n",
    "blanks around values": "a, b\n 1,20\n[  >2.000  ], 40\n3 , [NA>30.00] \n",
    "an index column": ",a,b\n0,1,20\n1,[>2.000],40\n2,3,[>30.00]\n",
    "names of rows without a header": '"a","b"\n"r1",1,20\n"r2",[>2.000],40\n"r3",3,[NA>30.00]\n',
    "dates, day first": (
        "Datum;a;b\n30.12.2019 23:00;1;20\n31.12.2019 00:00;[>2.000];40\n31.12.2019 01:00;3;[>30.00]\n"
    ),
    "dates, month first": "date,a,b\n12/30/19,1,20\n12/31/19,[>2.000],40\n1/1/20,3,[>30.00]\n",
    "a change of clocks": (
        "t,a,b\n2020-03-29T01:00+01:00,1,20\n2020-03-29T03:00+02:00,[>2.000],40\n"
        "2020-03-29T04:00+02:00,3,[>30.00]\n"
    ),
    "tabs": "a\tb\n1\t20\n[>2.000]\t40\n3\t[>30.00]\n",
    "no header": "1,20\n[>2.000],40\n3,[>30.00]\n",
    "lines in front": 'by "logger\n\na,b\n1,20\n[>2.000],40\n3,[>30.00]\n',
    "codes for missing": "a,b\n1,20\n[-99.90>2.000],40\n3,[n.d.>30.00]\n",
}
OPTIONS = {"lines in front": ("--skip-rows", "2"), "codes for missing": ("--missing-code", "-99.9,N.D.")}


@pytest.mark.parametrize("kind", ODD)
def test_only_missing_values_change(command, tmp_path, kind):
    before, after = (re.sub(r"\[([^>]*)>([^]]*)\]", rf"\{group}", ODD[kind]) for group in (1, 2))
    (tmp_path / "in.csv").write_bytes(before.encode())
    result = command("impute", "in.csv", "-o", "out.csv", *OPTIONS.get(kind, ()))
    assert result.code == 0, result.err
    assert (tmp_path / "out.csv").read_bytes().decode() == after


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8"])
def test_encodings(command, tmp_path, encoding):
    text = "Temp °C,Wärme\n1,20\n,40\n3,\n"
    (tmp_path / "in.csv").write_bytes(text.encode(encoding))
    result = command("impute", "in.csv", "-o", "out.csv")
    assert result.code == 0 and "data: Temp °C, Wärme" in result.err
    expected = text.replace("\n,40", "\n2.000,40").replace("3,\n", "3,30.00\n")
    assert (tmp_path / "out.csv").read_bytes() == expected.encode(encoding)


def test_gzip(command, tmp_path):
    (tmp_path / "in.csv.gz").write_bytes(gzip.compress(b"a,b\n1,20\n,40\n3,\n"))
    assert command("impute", "in.csv.gz", "-o", "out.csv.gz").code == 0
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == b"a,b\n1,20\n2.000,40\n3,30.00\n"


def test_one_column(command, tmp_path):
    (tmp_path / "in.csv").write_text("a\n1\n\n3\n\n")
    assert command("impute", "in.csv", "-o", "out.csv").code == 0
    assert (tmp_path / "out.csv").read_text() == "a\n1\n2.000\n3\n\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,a,b\n1,2,3\n,5,6\n", "2 columns have the name 'a'; rename all but one"),
        ("a,b,c\n1,NA,3\n2,NA,6\n", "column 'b' has no values. Exclude it with --exclude"),
        ("a,b\n7,1\n7,\n", "all data columns are constant"),
        ("a\n\n7\n", "all data columns are constant"),
        ("a,b\n1,2\n1e200,3\n,4\n", "row 3, column 'a': 1e+200 overflows when it is squared"),
        ('a,b\n1,"2\n3,4\n', "a quotation mark is not closed"),
        (
            "date,a\n01/02/2020,1\n02/02/2020,\n04/02/2020,3\n",
            "may be %d/%m/%Y or %m/%d/%Y. Choose with",
        ),
        (
            "date,a\n2020-01-01,1\n2020-02-30,\n2020-01-03,3\n2020-01-04,3\n",
            "not read as times: '2020-02-30'",
        ),
    ],
)
def test_invalid_files_are_one_error_message(command, tmp_path, text, message):
    (tmp_path / "in.csv").write_text(text)
    result = command("impute", "in.csv", "-o", "out.csv", "-q")
    assert (
        result.code == 2 and result.err.startswith("probsfa: error: in.csv: ") and result.err.count("\n") == 1
    )
    assert message in result.err
    assert not (tmp_path / "out.csv").exists()


def test_a_file_of_100000_rows(command, tmp_path):
    lines = [f"{i},{i % 7}.{i % 10},{'' if i % 11 == 3 else i % 13}" for i in range(100_000)]
    (tmp_path / "in.csv").write_text("\n".join(["t,a,b", *lines, ""]))
    assert command("impute", "in.csv", "-o", "out.csv", "-q").code == 0
    after = (tmp_path / "out.csv").read_text().splitlines()[1:]
    changed = np.flatnonzero([old != new for old, new in zip(lines, after, strict=True)])
    np.testing.assert_array_equal(changed, np.arange(3, 100_000, 11))
    assert len({after[i].partition(",")[2].partition(",")[2] for i in changed}) == 1  # the mean of the column


def test_a_replaced_file_keeps_its_permissions(command, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,20\n,40\n3,\n")
    (tmp_path / "out.csv").write_text("old")
    (tmp_path / "out.csv").chmod(0o640)
    assert command("impute", "in.csv", "-o", "out.csv", "--force").code == 0
    assert stat.S_IMODE((tmp_path / "out.csv").stat().st_mode) == 0o640
    assert (tmp_path / "out.csv").read_text() != "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.csv", "out.csv"]


def test_messages_of_the_command_name_files_columns_and_options(command, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,20\n,40\n3,\n")
    words = r"n_components|max_iter|random_state|\btol\b|engine|compiled|posterior|JAX|SFA|_\b"
    for arguments in (["impute", "in.csv", "-o", "o.csv"], ["fit", "in.csv", "-o", "m.npz"]):
        result = command(*arguments)
        assert result.code == 0 and not re.search(words, result.err + result.out)
