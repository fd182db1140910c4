"""All estimators can be saved as arrays and text and loaded again; others raise an error."""

import json
import re
import zipfile
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler

import probsfa
from probsfa import (
    IGSFA,
    SFA,
    XSFA,
    DiffusionMap,
    GraphSFA,
    GraphSFAClassifier,
    GraphSFARegressor,
    HierarchicalSFA,
    KernelSFA,
    LaplacianEigenmaps,
    Layer,
    ProbabilisticSFA,
    SpectralClustering,
    _saving,
)
from probsfa._times import seconds_of
from probsfa.expansions import (
    Clip,
    Concatenation,
    DelayEmbedding,
    FourierFeatures,
    Identity,
    Polynomial,
    Power,
    RadialBasis,
)
from probsfa.graphs import Serial, from_sparse, temporal
from tests.sampling import parametrize
from tests.saved import cases

N = 60
VERSION1 = Path(__file__).parent / "saved" / "version1"


def data(rng):
    X = np.cumsum(rng.standard_normal((N, 3)), axis=0)
    return X, np.repeat([0, 1, 2], N // 3), np.linspace(0, 1, N)


ESTIMATORS = {
    "SFA": SFA(2),
    "SFA with an expansion": SFA(2, expansion=Polynomial(2, whiten=True)),
    "SFA with scikit-learn's": SFA(2, expansion=make_pipeline(StandardScaler(), PolynomialFeatures(2))),
    "GraphSFA": GraphSFA(2, graph="temporal"),
    "GraphSFA of labels": GraphSFA(2, graph="clustered", expansion=Polynomial(2)),
    "GraphSFA of a graph": GraphSFA(2, graph=temporal(N)),
    "GraphSFA of a builder": GraphSFA(2, graph=Serial(5)),
    "IGSFA": IGSFA(2, graph="clustered", expansion=Polynomial(2)),
    "DiffusionMap": DiffusionMap(2),
    "GraphSFA of edges": GraphSFA(2, graph=from_sparse(np.ones((N, N)))),
    "classifier": GraphSFAClassifier(2, cv=2),
    "regressor": GraphSFARegressor(2, cv=2),
    "HierarchicalSFA": HierarchicalSFA([Layer(2, expansion=Polynomial(2))]),
    "eigenmaps": LaplacianEigenmaps(2, n_neighbors=8),
    "eigenmaps with a scale for each point": LaplacianEigenmaps(2, affinity="rbf", gamma="self_tuning"),
    "spectral clustering": SpectralClustering(3, n_neighbors=8, random_state=0),
    "KernelSFA": KernelSFA(2, n_support=20, regularization=1e-3),
    "KernelSFA of points": KernelSFA(2, support=np.eye(3) * 4, regularization=1e-3),
    "KernelSFA on a graph": KernelSFA(2, graph="serial", n_support=20, regularization=1e-3),
    "XSFA": XSFA(2, expansion=Polynomial(2), source_degree=2),
    "Clip": Clip(),
    "Concatenation": Concatenation([Identity(), Power(0.8)]),
    "FourierFeatures": FourierFeatures(random_state=np.random.RandomState(3)),
    "RadialBasis": RadialBasis(5, random_state=0),
    "DelayEmbedding": DelayEmbedding(3),
    "pipeline": make_pipeline(DelayEmbedding(2), PCA(3), SFA(1)),
    "ProbabilisticSFA": ProbabilisticSFA(1, tol=10.0),
}


OF_NUMBERS = ("regressor", "KernelSFA on a graph", "GraphSFA of a builder")


def fitted(name, rng):
    X, classes, labels = data(rng)
    return X, ESTIMATORS[name].fit(X, labels if name in OF_NUMBERS else classes)


def results(estimator, X):
    methods = [method for method in ("transform", "predict", "predict_proba") if hasattr(estimator, method)]
    found = {method: getattr(estimator, method)(X) for method in methods}
    for name in ("labels_", "embedding_", "delta_values_", "classes_"):
        if hasattr(estimator, name):
            found[name] = getattr(estimator, name)
    return found


@pytest.mark.filterwarnings("ignore:Graph is not fully connected")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_has_the_same_results_after_loading(rng, tmp_path, name):
    X, estimator = fitted(name, rng)
    path = tmp_path / "model.npz"
    probsfa.save(estimator, path)
    again = probsfa.load(path)
    assert type(again) is type(estimator)
    expected, found = results(estimator, X), results(again, X)
    assert set(found) == set(expected) and expected
    for method, value in expected.items():
        np.testing.assert_array_equal(found[method], value, err_msg=method)
    plain = {key: v for key, v in estimator.get_params().items() if isinstance(v, (int, float, str))}
    assert {key: again.get_params()[key] for key in plain} == plain
    X, classes, labels = data(rng)
    again.fit(X, labels if name in OF_NUMBERS else classes)  # it is an estimator, too


@pytest.mark.parametrize("name", ["SFA", "KernelSFA", "classifier", "HierarchicalSFA", "Clip"])
def test_the_method_is_the_function(rng, tmp_path, name):
    X, estimator = fitted(name, rng)
    estimator.save(tmp_path / "model.npz")
    np.testing.assert_equal(results(probsfa.load(tmp_path / "model.npz"), X), results(estimator, X))


def test_streams_go_on_after_loading(rng, tmp_path):
    X = np.cumsum(rng.standard_normal((90, 3)), axis=0)
    sfa = SFA(2).partial_fit(X[:40])
    sfa.save(tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz").partial_fit(X[40:])
    np.testing.assert_array_equal(again.delta_values_, sfa.partial_fit(X[40:]).delta_values_)


def test_names_of_columns_and_frames_are_kept(rng, tmp_path):
    frame = pd.DataFrame(np.cumsum(rng.standard_normal((50, 2)), axis=0), columns=["a", "b"])
    sfa = SFA(1).set_output(transform="pandas").fit(frame)
    sfa.save(tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    assert again.feature_names_in_.tolist() == ["a", "b"]
    pd.testing.assert_frame_equal(again.transform(frame), sfa.transform(frame))


def test_labels_that_are_text_are_kept(rng, tmp_path):
    X, classes, _ = data(rng)
    y = np.array(["low", "mid", "high"], dtype=object)[classes]
    GraphSFAClassifier(2, cv=2).fit(X, y).save(tmp_path / "model.npz")
    assert set(probsfa.load(tmp_path / "model.npz").predict(X)) <= {"low", "mid", "high"}


def test_a_subclass_of_a_probabilistic_model_is_saved_as_that_model(rng, tmp_path):
    class Subclass(ProbabilisticSFA):
        pass

    X, _, _ = data(rng)
    model = Subclass(1, tol=10.0).fit(X)
    model.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    assert type(loaded) is ProbabilisticSFA
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))


def test_a_pipeline_with_a_probabilistic_model_is_saved(rng, tmp_path):
    X, _, _ = data(rng)
    pipeline = make_pipeline(StandardScaler(), ProbabilisticSFA(1, tol=10.0)).fit(X)
    probsfa.save(pipeline, tmp_path / "model.npz")
    again = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_allclose(again.transform(X), pipeline.transform(X), rtol=1e-12)
    assert again[-1].status_ == pipeline[-1].status_


def test_a_file_of_version_1_does_not_contain_itself(tmp_path):
    source = VERSION1 / "probabilistic_pipeline.npz"

    def nest(header, arrays):
        [name] = [one["file"] for one, key in nodes(header["tree"]) if key == "file"]
        arrays[name] = np.frombuffer(source.read_bytes(), dtype=np.uint8)

    with pytest.raises(ValueError, match="unexpected kind"):
        probsfa.load(rewritten(source, tmp_path / "nested.npz", nest))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: GraphSFA(1, graph=lambda X, y: temporal(len(X))),
            r"GraphSFA.graph.*\(",
        ),
        (
            lambda: KernelSFA(1, kernel=lambda x, z: x @ z, regularization=0.1),
            "KernelSFA.kernel",
        ),
        (
            lambda: SFA(1, expansion=FunctionTransformer(np.tanh)),
            r"SFA.expansion.func is a function \(ufunc\)|ufunc",
        ),
        (
            lambda: GraphSFAClassifier(2, classifier=RandomForestClassifier(2), cv=2),
            "saved",
        ),
    ],
)
def test_attributes_that_cannot_be_saved_raise_an_error(rng, tmp_path, make, message):
    X, classes, _ = data(rng)
    estimator = make().fit(X, classes)
    with pytest.raises(ValueError, match=message):
        estimator.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())  # no incomplete file


def test_estimators_that_are_not_fitted_are_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        SFA().save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="estimator.*got a dict"):
        probsfa.save({}, tmp_path / "model.npz")


def test_durations_are_saved_as_texts():
    """For example those in `rhythms`; the texts are read as durations."""
    durations = [timedelta(hours=6), np.timedelta64(6, "h"), pd.Timedelta("6h")]
    node = _saving._Arrays().encode(durations, "rhythms")
    assert _saving._decode(node, {}) == ["21600.0 s"] * 3
    assert seconds_of("21600.0 s") == 6 * 3600.0


@pytest.mark.parametrize(
    "array",
    [
        np.array([True, False]),
        np.array(["a", "bc"], dtype=object),
        np.array(["2024-01-01", "NaT"], dtype="datetime64[ms]"),
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.float32(2.5),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_are_restored_with_their_types(array):
    arrays = _saving._Arrays()
    found = _saving._decode(json.loads(json.dumps(arrays.encode(array, "x"))), arrays.by_name)
    assert found.dtype == array.dtype and found.shape == array.shape
    np.testing.assert_array_equal(found, array)


# ------------------------------------------------------------------ files of earlier versions

EXPECTED = cases.read_results(VERSION1)


@pytest.mark.parametrize("case", EXPECTED)
def test_files_of_earlier_versions_are_read(case):
    estimator, data, given = cases.CASES[case]
    loaded = probsfa.load(VERSION1 / f"{case}.npz")
    assert type(loaded) is type(estimator)
    found = cases.results(loaded, data, given)
    for name, expected in EXPECTED[case].items():
        if name == "status_":  # its text may change
            continue
        if expected.dtype.kind == "f":
            size = np.nanmax(np.abs(expected), initial=0.0)
            np.testing.assert_allclose(found[name], expected, rtol=1e-7, atol=1e-7 * size, err_msg=name)
        elif name != "status_":  # a text, whose wording may change
            assert found[name].astype(str).tolist() == expected.astype(str).tolist(), name


# ------------------------------------------------------------------ invalid files


def rewritten(path, target, change, update_checksum=True):
    """Write a copy of a file with changed header or arrays, and by default an updated checksum."""
    with np.load(path) as stored:
        arrays = dict(stored)
    header = json.loads(str(arrays.pop("header")))
    change(header, arrays)
    if update_checksum:
        header["digest"] = _saving._digest(header["tree"], arrays)
    np.savez_compressed(target, header=np.array(json.dumps(header)), **arrays)
    return target


def nodes(tree):
    """Yield all nodes of a tree that contain others, and their places."""
    if isinstance(tree, dict):
        for key, item in tree.items():
            yield tree, key
            yield from nodes(item)
    elif isinstance(tree, list):
        for i, item in enumerate(tree):
            yield tree, i
            yield from nodes(item)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.npz"
    X, classes, _ = data(np.random.default_rng(0))
    GraphSFA(2, graph="clustered", expansion=Polynomial(2)).fit(X, classes).save(path)
    return path, X


@parametrize("seed", range(60), quick=16)
def test_changed_files_raise_an_error_of_one_line_or_give_the_same_results(saved, tmp_path, seed):
    path, X = saved
    rng = np.random.default_rng(seed)

    def change(header, arrays):
        kind = seed % 4
        if kind == 0:  # a number, a text or a key of the tree
            places = list(nodes(header["tree"]))
            at, key = places[rng.integers(len(places))]
            at[key] = [None, -1, "x", [], {}, {"array": "a0"}, 1e300, True][rng.integers(8)]
        elif kind == 1:  # an array of another shape or type
            name = sorted(arrays)[rng.integers(len(arrays))]
            array = arrays[name]
            arrays[name] = [array[:0], array.astype(str), array[None], np.zeros(3)][rng.integers(4)]
        elif kind == 2:  # other numbers
            name = sorted(arrays)[rng.integers(len(arrays))]
            if arrays[name].dtype.kind == "f":
                arrays[name] = arrays[name] * np.nan if rng.integers(2) else arrays[name] + 1.0
        else:  # an omitted entry
            if rng.integers(2):
                del arrays[sorted(arrays)[rng.integers(len(arrays))]]
            else:
                places = [(at, key) for at, key in nodes(header["tree"]) if isinstance(at, dict)]
                at, key = places[rng.integers(len(places))]
                del at[key]

    target = rewritten(path, tmp_path / "changed.npz", change)
    try:
        model = probsfa.load(target)
    except ValueError as error:
        assert "\n" not in str(error) and str(target) in str(error) and len(str(error)) < 500
    else:  # the changed value does not affect its outputs
        np.testing.assert_allclose(model.transform(X), probsfa.load(path).transform(X), rtol=1e-5, atol=1e-5)


@parametrize("seed", range(30), quick=12)
def test_damaged_bytes_raise_an_error_of_one_line(saved, tmp_path, seed):
    path, X = saved
    rng = np.random.default_rng(seed)
    content = bytearray(path.read_bytes())
    if seed % 3 == 0:
        content = content[: rng.integers(len(content))]
    else:
        for at in rng.integers(len(content), size=1 + seed % 5):
            content[at] ^= int(rng.integers(1, 256))
    target = tmp_path / "damaged.npz"
    target.write_bytes(content)
    try:
        model = probsfa.load(target)
    except ValueError as error:
        assert "\n" not in str(error) and str(target) in str(error)
    else:  # dates and comments of the archive are not read
        np.testing.assert_array_equal(model.transform(X), probsfa.load(path).transform(X))


@pytest.mark.parametrize(
    "name",
    ["os:system", "subprocess:Popen", "sklearn.utils:check_array", "probsfa.cli._main:main", "builtins:eval"],
)
@pytest.mark.parametrize("kind", ["estimator", "record", "object"])
def test_a_file_runs_no_other_code(saved, tmp_path, kind, name):
    def change(header, arrays):
        header["tree"] = {kind: name, "state": {}}

    target = rewritten(saved[0], tmp_path / "changed.npz", change)
    with pytest.raises(ValueError, match="contains no usable model: .*(is not a module|is not a class)"):
        probsfa.load(target)


def test_a_class_that_was_moved_is_found(tmp_path):
    """A public class, and one that is named only in a saved graph."""
    source = VERSION1 / "graph_builder.npz"

    def change(header, arrays):
        text = json.dumps(header["tree"])
        for name in ("GraphSFA", "Serial", "GraphMoments"):
            text = re.sub(rf"probsfa\.(\w+)\.[\w.]+:{name}\b", rf"probsfa.\1.moved_since:{name}", text)
        assert text.count("moved_since") == 4  # moments twice
        header["tree"] = json.loads(text)

    loaded = probsfa.load(rewritten(source, tmp_path / "moved.npz", change))
    np.testing.assert_array_equal(loaded.transform(cases.X), probsfa.load(source).transform(cases.X))


def test_any_damage_of_the_directory_names_the_file(saved, tmp_path):
    """Offsets before the file, and another kind of compression, raise errors of the system."""
    content = bytearray(saved[0].read_bytes())
    target = tmp_path / "damaged.npz"
    directory = content.index(b"PK\x01\x02")
    for at in [*range(directory, directory + 46), *range(len(content) - 22, len(content))]:
        changed = bytearray(content)
        changed[at] ^= 4
        target.write_bytes(changed)
        try:
            probsfa.load(target)
        except ValueError as error:
            assert str(target) in str(error)


def test_a_text_cannot_request_more_memory_than_its_size(saved, tmp_path):
    def change(header, arrays):
        header["tree"] = {"scalar": "a", "dtype": "U400000"}

    with pytest.raises(ValueError, match="number or text"):
        probsfa.load(rewritten(saved[0], tmp_path / "changed.npz", change))
    assert _saving._decode({"scalar": "ab", "dtype": "<U2"}, {}) == "ab"


@pytest.mark.parametrize(("megabytes", "read"), [(1.5, True), (3.0, False)])
def test_the_compression_ratio_is_limited_to_100(rng, tmp_path, monkeypatch, megabytes, read):
    monkeypatch.setattr(_saving, "_MAX_BYTES", 1000)
    path = tmp_path / "model.npz"
    noise, zeros = rng.integers(256, size=20_000, dtype=np.uint8), np.zeros(int(megabytes * 1e6), np.uint8)
    header = json.dumps({"format": "probsfa", "version": 1, "kind": "estimator"})
    np.savez_compressed(path, header=np.array(header), noise=noise, zeros=zeros)
    with path.open("rb") as file:
        if read:
            assert _saving._read(file, path.stat().st_size, "it")[1]["zeros"].size == zeros.size
        else:
            with pytest.raises(ValueError, match="impossible"):
                _saving._read(file, path.stat().st_size, "it")


def test_declared_sizes_are_limited_before_data_are_unpacked(saved, tmp_path):
    content = bytearray(saved[0].read_bytes())
    declared_size = content.index(b"PK\x01\x02") + 24  # of the first array, in the directory
    content[declared_size : declared_size + 4] = (2**31).to_bytes(4, "little")
    path = tmp_path / "declared.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"bytes in \d+ bytes: impossible"):
        probsfa.load(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({f"a{i}": np.zeros(1) for i in range(1000)}, "1001 arrays of .*: impossible"),
        ({"a": np.zeros((1,) * 6)}, "invalid shape"),
        ({"a": np.array("a" * (2**22 + 1))}, "text that is too long"),  # four bytes for each character
    ],
    ids=["many arrays", "many dimensions", "long text"],
)
def test_numbers_of_arrays_dimensions_and_characters_are_limited(tmp_path, arrays, message):
    header = json.dumps({"format": "probsfa", "version": 1, "kind": "estimator"})
    np.savez_compressed(tmp_path / "model.npz", header=np.array(header), **arrays)
    with pytest.raises(ValueError, match=message):
        probsfa.load(tmp_path / "model.npz")


def test_a_later_version_and_a_swapped_array_are_refused(saved, tmp_path):
    later = rewritten(saved[0], tmp_path / "later.npz", lambda header, arrays: header.update(version=99))
    with pytest.raises(ValueError, match="version 99"):
        probsfa.load(later)

    def turn(header, arrays):
        for name, array in arrays.items():
            if array.shape == (2, 9):
                arrays[name] = array[::-1].copy()

    with pytest.raises(ValueError, match="outputs differ"):
        probsfa.load(rewritten(saved[0], tmp_path / "turned.npz", turn))
    with pytest.raises(ValueError, match="changed after"):
        probsfa.load(rewritten(saved[0], tmp_path / "turned.npz", turn, update_checksum=False))


@pytest.mark.filterwarnings("ignore:Output .* on held-out rows")
@parametrize("seed", range(12), quick=4)
@pytest.mark.parametrize("name", ["XSFA", "spectral clustering", "HierarchicalSFA", "ProbabilisticSFA"])
def test_any_change_of_a_model_is_reported(rng, tmp_path, name, seed):
    path = tmp_path / "model.npz"
    probsfa.save(fitted(name, rng)[1], path)
    rng_of_change = np.random.default_rng(seed)

    def change(header, arrays):
        if seed % 2:
            places = [place for place in nodes(header["tree"]) if place[0][place[1]] != -7]
            at, key = places[rng_of_change.integers(len(places))]
            at[key] = -7
        else:
            chosen = sorted(arrays)[rng_of_change.integers(len(arrays))]
            arrays[chosen] = arrays[chosen][:0] if arrays[chosen].size else np.ones(1)

    with pytest.raises(ValueError, match="changed after"):
        probsfa.load(rewritten(path, tmp_path / "changed.npz", change, update_checksum=False))


def test_no_pickle_is_in_the_file(saved):
    with zipfile.ZipFile(saved[0]) as archive:
        for member in archive.namelist():
            with archive.open(member) as packed:
                array = np.lib.format.read_array(packed, allow_pickle=False)
            assert array.dtype.kind in "fiuU"


def test_earlier_names_of_attributes_and_fields_are_loaded(rng, tmp_path):
    X = rng.standard_normal((60, 3))
    sfa = SFA(2).partial_fit(X)
    path = tmp_path / "model.npz"
    sfa.save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(str(arrays.pop("header")))
    state = header["tree"]["state"]
    state["_seen"] = state.pop("_batches")
    header["digest"] = _saving._digest(header["tree"], arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
    loaded = probsfa.load(path)
    np.testing.assert_array_equal(loaded.partial_fit(X).delta_values_, sfa.partial_fit(X).delta_values_)
