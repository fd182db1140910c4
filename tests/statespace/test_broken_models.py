"""Corrupt model files raise a ValueError, or are read as a model whose imputations contain no NaN."""

import gzip
import io
import json
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import probsfa
from probsfa import _saving
from tests.saved import cases

VERSION1 = Path(cases.__file__).parent / "version1"


@pytest.fixture(scope="module")
def data():
    return cases.X, cases.GAPS


@pytest.fixture(scope="module")
def saved():
    """Bytes of a model with noise and of a noise-free model, in version 1 of the format, without checksum."""
    return [(VERSION1 / f"probabilistic_{name}.npz").read_bytes() for name in ("fixed", "limit")]


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def as_npy(array, **options):
    file = io.BytesIO()
    np.save(file, np.asarray(array), **options)
    return file.getvalue()


def with_header(content, **changes):
    """Return the file with changed scalars; scalars with the value `...` are removed."""
    members = unpacked(content)
    header = json.loads(str(np.load(io.BytesIO(members["header.npy"]))))
    header = {name: value for name, value in {**header, **changes}.items() if value is not ...}
    return packed({**members, "header.npy": as_npy(json.dumps(header))})


def with_array(content, name, array):
    return packed({**unpacked(content), f"{name}.npy": array if isinstance(array, bytes) else as_npy(array)})


def without(content, name):
    members = unpacked(content)
    del members[f"{name}.npy"]
    return packed(members)


pytestmark = pytest.mark.filterwarnings("ignore:Observed values left out")


def assert_refused(tmp_path, content, match):
    path = tmp_path / "model.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=match) as caught:
        probsfa.load(path)
    message = str(caught.value)
    assert str(path) in message and message.endswith(".") and "\n" not in message, message


def test_truncated_and_damaged_files_are_refused(saved, tmp_path):
    for content in saved:
        for part in (0, 1, 10, 100, len(content) // 2, len(content) - 1):
            assert_refused(tmp_path, content[:part], "broken")
        for start in range(60, len(content) - 400, 97):
            damaged = bytearray(content)
            damaged[start : start + 30] = bytes(255 - byte for byte in content[start : start + 30])
            assert_refused(tmp_path, bytes(damaged), "model.npz")


def test_invalid_compressed_data_are_refused(saved, tmp_path):
    members = unpacked(saved[0])
    content = bytearray(packed(members))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        member = archive.getinfo("loadings.npy")
    start = member.header_offset + 30 + len("loadings.npy")
    content[start : start + 8] = b"\xff" * 8  # zlib.error: invalid block type
    assert_refused(tmp_path, bytes(content), "broken")


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"abc", mtime=0), gzip.compress(b"abc" * 999, mtime=0)[:20]],
    ids=["text", "whole", "cut"],
)
def test_gzip_files_are_refused(tmp_path, content):
    assert_refused(tmp_path, content, "broken")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_methods_of_zip_files_are_read(saved, data, tmp_path, method):
    (tmp_path / "model.npz").write_bytes(packed(unpacked(saved[0]), method))
    assert np.isfinite(probsfa.load(tmp_path / "model.npz").impute(data[1])).all()


@pytest.mark.parametrize(
    "name", ["decay", "loadings", "noise_variance", "offset", "shift", "scale", "history"]
)
def test_a_missing_array_is_named(saved, tmp_path, name):
    assert_refused(tmp_path, without(saved[0], name), f"has no '{name}'")


@pytest.mark.parametrize("name", ["limit_decay", "limit_components", "limit_loadings", "limit_mean"])
def test_a_missing_array_of_the_limit_is_named(saved, tmp_path, name):
    assert_refused(tmp_path, without(saved[1], name), f"has no '{name}'")


@pytest.mark.parametrize(
    "name", ["options", "time_unit", "log_likelihood", "n_evaluations", "converged", "status"]
)
def test_a_missing_scalar_is_named(saved, tmp_path, name):
    assert_refused(tmp_path, with_header(saved[0], **{name: ...}), f"has no '{name}'")


@pytest.mark.parametrize(
    "name,value",
    [
        ("time_unit", 0.0),
        ("time_unit", -1),
        ("time_unit", float("nan")),
        ("time_unit", "1"),
        ("time_unit", None),
        ("log_likelihood", float("inf")),
        ("log_likelihood", True),
        ("n_evaluations", -1),
        ("n_evaluations", 1.5),
        ("converged", "yes"),
        ("status", 3),
        ("options", []),
        ("fitted_with", "diagonal"),
    ],
)
def test_an_invalid_scalar_is_named(saved, tmp_path, name, value):
    assert_refused(tmp_path, with_header(saved[0], **{name: value}), name)


@pytest.mark.parametrize("version", [0, "1", None, 1.0, True, [1]])
def test_an_invalid_version_is_reported(saved, tmp_path, version):
    assert_refused(tmp_path, with_header(saved[0], version=version), "version")


@pytest.mark.parametrize("changes", [{"colour": "red"}, {"noise": "loud"}, {"max_iter": -1}, {"tol": None}])
def test_invalid_options_are_reported(saved, tmp_path, changes):
    header = json.loads(str(np.load(io.BytesIO(unpacked(saved[0])["header.npy"]))))
    options = {**header["options"], **changes}
    assert_refused(tmp_path, with_header(saved[0], options=options), next(iter(changes)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "name", ["decay", "loadings", "noise_variance", "offset", "shift", "scale", "history"]
)
def test_parameters_that_are_not_finite_are_named(saved, tmp_path, name, value):
    array = np.load(io.BytesIO(unpacked(saved[0])[f"{name}.npy"]))
    array.flat[0] = value
    assert_refused(tmp_path, with_array(saved[0], name, array), f"{name}.*not finite")


@pytest.mark.parametrize(
    "name,array",
    [
        ("decay", [1.0, 0.5]),
        ("decay", [0.5, -1.5]),
        ("decay", [0.5, 0.5, 0.5]),
        ("decay", 0.5),
        ("loadings", np.ones((2, 3))),
        ("loadings", np.ones((3, 2, 1))),
        ("loadings", np.ones((0, 2))),
        ("noise_variance", [1.0, 0.0, 1.0]),
        ("noise_variance", [1.0, -1.0, 1.0]),
        ("scale", [1.0, 0.0, 1.0]),
        ("offset", ["a", "b", "c"]),
        ("offset", [0.0, 1.0]),
        ("feature_names", ["a", "b"]),
        ("feature_names", [1.0, 2.0, 3.0]),
    ],
)
def test_parameters_out_of_range_or_shape_are_named(saved, tmp_path, name, array):
    match = f"{name}|does not fit the other arrays"
    assert_refused(tmp_path, with_array(saved[0], name, np.asarray(array)), match)


def test_objects_are_not_unpickled(saved, tmp_path):
    array = as_npy(np.array([{}], dtype=object), allow_pickle=True)
    assert_refused(tmp_path, with_array(saved[0], "decay", array), "broken")


def test_a_deeply_nested_header_is_refused(saved, tmp_path):
    assert_refused(tmp_path, with_array(saved[0], "header", np.array("[" * 100_000)), "broken")


def npy_that_claims(shape, n_bytes):
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return head.getvalue() + bytes(n_bytes)


def test_zip_bombs_are_not_decompressed(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(_saving, "_MAX_BYTES", 2**22)
    bombs = {
        "claims": with_array(saved[0], "loadings", npy_that_claims((10**9, 300), 16)),
        "zeros": with_array(saved[0], "loadings", npy_that_claims((2**23,), 2**26)),
        "members": packed({**unpacked(saved[0]), **{f"a{i}.npy": as_npy(0.0) for i in range(2000)}}),
    }
    assert len(bombs["zeros"]) < 2**20
    for content in bombs.values():
        tracemalloc.start()
        assert_refused(tmp_path, content, "broken|impossible for a model")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * 2**20


# ------------------------------------------------------------------ mutations


def mutated(content, rng):
    """Return a file with one to three random changes."""
    for _ in range(rng.integers(1, 4)):
        kind = rng.integers(7)
        if kind == 0 or not content.startswith(b"PK"):
            damaged = bytearray(content)
            for place in rng.integers(len(content), size=rng.integers(1, 9)):
                damaged[place] = rng.integers(256)
            content = bytes(damaged)
            continue
        try:
            members = unpacked(content)
            name = str(rng.choice(list(members)))
            member = members[name]
            array = np.load(io.BytesIO(member))
        except Exception:
            return content
        if kind == 1:
            return content[: rng.integers(len(content))]
        if kind == 2:
            del members[name]
        elif kind == 3:
            members[name] = members[str(rng.choice(list(members)))]
        elif kind == 4:
            damaged = bytearray(member)
            damaged[rng.integers(len(member))] ^= 1 << rng.integers(8)
            members[name] = bytes(damaged)
        elif kind == 5 and array.dtype.kind == "f" and array.size:
            array.flat[rng.integers(array.size)] = rng.choice(
                [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-320, 1e-200, -1e200, 1e308, 0.999999999]
            )
            members[name] = as_npy(array)
        elif kind == 5:
            try:
                header = json.loads(str(np.load(io.BytesIO(members["header.npy"]))))
            except ValueError:
                return content
            place = header if rng.random() < 0.5 else header.get("options", header)
            value = [None, True, -1, 0, 1e308, float("nan"), "x", [], [1.0, 2.0], {}, 10**30]
            place[str(rng.choice(list(place)))] = value[rng.integers(len(value))]
            members["header.npy"] = as_npy(json.dumps(header))
        else:
            shape = [int(n) for n in rng.integers(0, 5, size=rng.integers(0, 4))]
            other = rng.standard_normal(shape).astype(rng.choice(["f8", "f4", "i8", "U3"]))
            members[name] = as_npy(other, allow_pickle=False)
        content = packed(members)
    return content


def read_mutated_files(saved, data, tmp_path, seed):
    """Read mutated files; return the number of files that were read as a model."""
    rng = np.random.default_rng(seed)
    n_read = 0
    path = tmp_path / "model.npz"
    for i in range(20):
        path.write_bytes(mutated(saved[i % len(saved)], rng))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = probsfa.load(path)
        except ValueError as error:
            assert str(path) in str(error) and str(error).endswith("."), repr(error)
            continue
        n_read += 1
        X = data[i % len(saved) == 0]
        try:
            filled = model.impute(X)
        except ValueError as error:  # the number of columns differs, or values are too large
            assert str(error).endswith(".") or "feature" in str(error), repr(error)
            continue
        assert not np.isnan(filled).any()
        np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    return n_read


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_are_refused_or_impute_without_nan(saved, data, tmp_path, seed):
    read_mutated_files(saved, data, tmp_path, seed)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_many_mutated_files_are_refused_or_impute_without_nan(saved, data, tmp_path):
    n_read = sum(read_mutated_files(saved, data, tmp_path, seed) for seed in range(100, 180))
    assert n_read > 20  # some mutations change no validated value
