"""Random data files as written by people and programs, for tests of reading."""

from dataclasses import dataclass

from hypothesis import strategies as st

__all__ = ["CsvFile", "csv_files", "filling_files"]


@dataclass(frozen=True)
class CsvFile:
    """The bytes of a file, and options to read it."""

    data: bytes
    options: tuple[str, ...]


NAMES = st.sampled_from(
    [*"a b temp T é id station no 2001 0 1".split(), "rain (mm)", "x y", "", "a,b", 'say "x"'],
)
TIME_NAMES = st.sampled_from([*"time date ts epoch year day hour month when t index".split(), ""])
TIMES = {
    "iso": lambda i: f"2020-01-{i % 28 + 1:02d}",
    "iso with hours": lambda i: f"2020-02-{i // 24 + 1:02d} {i % 24:02d}:30",
    "zones": lambda i: f"2020-02-{i // 24 + 1:02d}T{i % 24:02d}:00:00+0{i % 9}:00",
    "day first": lambda i: f"{i % 28 + 1:02d}/03/2020",
    "month first": lambda i: f"3/{i % 28 + 1}/20",
    "points": lambda i: f"{i % 31 + 1:02d}.01.20",
    "clock": lambda i: f"{i % 24:02d}.00.00",
    "names": lambda i: f"{i % 28 + 1} Feb 2020",
    "quarters": lambda i: f"{1990 + i // 4}Q{i % 4 + 1}",
    "compact": lambda i: f"202001{i % 31 + 1:02d}",
    "compact hours": lambda i: f"20200101{i % 24:02d}",
    "seconds": lambda i: str(1_600_000_000 + 3600 * i),
    "milliseconds": lambda i: str(1_600_000_000_000 + i),
    "years": lambda i: f"{2000 + i / 12:.4f}",
    "hour of the day": lambda i: str(i % 24),
    "month of the year": lambda i: str(i % 12 + 1),
    "count": str,
    "same": lambda i: "2020-01-01",
    "out of range": lambda i: f"{i}-{i}-{i}",
    "far": lambda i: str(10**17 * i),
}
MISSING = st.sampled_from(["", "NA", "nan", "-999", "-99.9", " ", '""', "NULL", "?"])
ODD = st.sampled_from([*'x 1,234 1.234,5 5% inf 0x1 1e999 -- " "5 ٣ 1_0 2020-13-45'.split(), "1 000"])
NUMBERS = st.one_of(
    st.integers(-1000, 1000).map(str),
    st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: f"{value:.3f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),  # very large and very small numbers
    st.sampled_from("1e200 -1e300 1e-160 5e-324 1.7976931348623157e308 +1. .5 00 -0".split()),
)


@st.composite
def csv_files(draw: st.DrawFn) -> CsvFile:
    """Draw a file of up to 12 rows and 5 columns, valid or damaged, and suitable options."""
    n_rows, n_columns = draw(st.sampled_from([0, *range(1, 13)])), draw(st.integers(1, 4))
    decimal = draw(st.sampled_from(["."] * 3 + [","]))
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    columns = [draw(_column(n_rows, decimal, f"c{j}")) for j in range(n_columns)]
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2]))):
        write = TIMES[draw(st.sampled_from(sorted(TIMES)))]
        steps = draw(st.lists(st.sampled_from([1, 1, 1, 1, 1, 1, 2, 0]), min_size=n_rows, max_size=n_rows))
        cells = [write(sum(steps[:i])) for i in range(n_rows)]
        if draw(st.integers(0, 5)) == 0:
            cells = draw(st.permutations(cells))
        columns.insert(0, [draw(TIME_NAMES), *cells])
    quote = draw(st.sampled_from(["where needed"] * 5 + ["texts", "all", "none"]))
    lines = [
        delimiter.join(_quoted(cell, delimiter, quote) for cell in row) for row in zip(*columns, strict=True)
    ]
    lines = draw(_around(lines, delimiter, len(columns)))
    newline = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    text = newline.join(lines) + draw(st.sampled_from(["", newline]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    data = bytearray(text.encode(encoding, "replace"))
    if data and draw(st.integers(0, 11)) == 0:  # a damaged file
        place = draw(st.integers(0, len(data) - 1))
        data[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return CsvFile(bytes(data), tuple(draw(_options())))


@st.composite
def filling_files(draw: st.DrawFn) -> CsvFile:
    """Draw a file of eight rows and two columns with missing values; all have one shape for JAX."""
    decimal, delimiter = draw(st.sampled_from([(".", ","), (",", ";"), (".", "\t")]))
    cells = st.one_of(NUMBERS, st.floats(-10, 10).map(lambda value: f"{value:.2f}"))
    columns = [[name, *draw(st.lists(cells, min_size=8, max_size=8))] for name in "ab"]
    for column in columns:
        for row in draw(st.sets(st.integers(1, 8), min_size=1, max_size=4)):
            column[row] = draw(st.sampled_from(["", "NA", '""', "-999"]))
    columns = [[cell.replace(".", decimal) for cell in column] for column in columns]
    columns.insert(0, ["time", *(f"2020-01-01 {i:02d}:00" for i in range(8))])
    lines = [delimiter.join(row) for row in zip(*columns, strict=True)]
    return CsvFile(("\n".join(lines) + "\n").encode(), ("--missing-code", "-999"))


@st.composite
def _column(draw: st.DrawFn, n_rows: int, decimal: str, name: str) -> list[str]:
    """Draw a column of numbers, with missing and unusual values, and its name."""
    texts = st.sampled_from(["dry", "é", "wet", "N", "S"])
    kinds = {"number": NUMBERS, "missing": MISSING, "odd": ODD, "text": texts}
    usual = draw(st.sampled_from(["number"] * 6 + ["missing", "text"]))
    odd = draw(st.sampled_from(["missing"] * 5 + ["number"] * 4 + ["odd"]))
    chosen = draw(st.lists(st.sampled_from([usual] * 4 + [odd]), min_size=n_rows, max_size=n_rows))
    cells = [draw(kinds[kind]) for kind in chosen]
    if draw(st.integers(0, 6)) == 0:
        cells = [cells[0]] * n_rows if cells else cells
    return [
        draw(st.one_of(st.just(name), st.just(name), NAMES)),
        *(cell.replace(".", decimal) for cell in cells),
    ]


def _quoted(cell: str, delimiter: str, how: str) -> str:
    """Return a value with or without quotes, as written by different programs."""
    needs = delimiter in cell or '"' in cell
    texts = how == "texts" and not cell.replace(".", "").isdigit()
    if how == "none" or cell.startswith('"') or not (needs or texts or how == "all"):
        return cell
    return '"' + cell.replace('"', '""') + '"'


@st.composite
def _around(draw: st.DrawFn, lines: list[str], delimiter: str, width: int) -> list[str]:
    """Add or remove lines around those of a table."""
    odd = ["preamble", "blank", "trailing", "headless", "comment", "doubled"]
    what = draw(st.sampled_from(["as is"] * 12 + odd))
    blank = delimiter * (width - 1)
    return {
        "as is": lines,
        "preamble": ["made by a logger", "", *lines],
        "blank": [line for pair in zip(lines, [""] * len(lines), strict=True) for line in pair],
        "trailing": [*lines, blank, blank, ""],
        "headless": lines[1:],
        "comment": ["# units: °C", *lines],
        "doubled": [lines[0], *lines],
    }[what]


@st.composite
def _options(draw: st.DrawFn) -> list[str]:
    """Draw options, most of them rarely."""
    choices = [
        ["--missing-code", "-999,-99.9"],
        ["--missing-code", "?"],
        ["--missing-code", ""],
        ["--even"],
        ["--sort"],
        ["--dayfirst"],
        ["--no-dayfirst"],
        ["--epoch", "s"],
        ["--thousands", ","],
        ["--decimal", ","],
        ["--header", "yes"],
        ["--header", "no"],
        ["--skip-rows", "1"],
        ["--date-format", "%d.%m.%y"],
        ["--time", ""],
        ["--time", "time"],
        ["--exclude", "a"],
        ["--columns", "a,b"],
        ["--group", "station"],
    ]
    if draw(st.integers(0, 3)):
        return []
    return sum(draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2, unique_by=lambda c: c[0])), [])
