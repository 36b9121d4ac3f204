"""Readers of image sets, on small files in the published formats.

And what is said when a file is missing or wrong.
"""

import gzip
import pickle
import re
import struct
import sys

import numpy as np
import pytest

from spdlib.datasets import (IDX, MEDMNIST, PUBLISHED, load_cifar10, load_digits, load_histology,
                             load_idx, load_images, load_medmnist)


def sample(*shape, seed=0):
    return np.random.default_rng(seed).integers(256, size=shape, dtype=np.uint8)


def equal(pair, images, labels):
    assert pair[0].dtype == np.uint8 and pair[1].dtype == np.int64
    np.testing.assert_array_equal(pair[0], images)
    np.testing.assert_array_equal(pair[1], labels)


# --- sets that come with their packages

def test_digits_are_1797_labelled_images_between_0_and_1():
    images, labels = load_digits()
    assert images.shape == (1797, 8, 8) and labels.shape == (1797,)
    assert images.min() == 0 and images.max() == 1 and set(labels) == set(range(10))


def test_histology_tiles_are_cut_row_by_row():
    from skimage.data import immunohistochemistry

    tiles, image = load_histology(), immunohistochemistry()
    assert tiles.shape == (324, 28, 28, 3) and tiles.dtype == np.uint8
    for number, row, column in (0, 0, 0), (17, 0, 17), (18, 1, 0), (93, 5, 3), (323, 17, 17):
        expected = image[28 * row:28 * row + 28, 28 * column:28 * column + 28]
        np.testing.assert_array_equal(tiles[number], expected)


def test_histology_tiles_of_other_sizes():
    assert load_histology(512).shape == (1, 512, 512, 3)
    assert load_histology(np.int64(300)).shape == (1, 300, 300, 3)
    assert load_histology(1).shape == (512**2, 1, 1, 3)


@pytest.mark.parametrize("tile", [0, -1, 513, 28.0, "28", None])
def test_a_tile_that_does_not_fit_is_refused(tile):
    with pytest.raises(ValueError, match="^tile is .*; accepted are integers from 1 to 512"):
        load_histology(tile)


@pytest.mark.parametrize("load, module, package", [
    (load_digits, "sklearn.datasets", "scikit-learn"),
    (load_histology, "skimage.data", "scikit-image"),
])
def test_a_missing_package_is_named(load, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"{module}.*the package {package}"):
        load()


# --- MedMNIST

def write_medmnist(folder, name, **arrays):
    np.savez(folder / f"{name}.npz", **arrays)


@pytest.mark.parametrize("name", MEDMNIST)
@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize("shape", [(5, 28, 28), (5, 28, 28, 3)])
def test_medmnist_is_read_as_written(name, split, shape, tmp_path):
    images, labels = sample(*shape), sample(5, 1) % 9
    others = {f"{other}_{part}": np.zeros((1, 1), np.uint8)
              for other in {"train", "val", "test"} - {split} for part in ("images", "labels")}
    arrays = {f"{split}_images": images, f"{split}_labels": labels}
    write_medmnist(tmp_path, name, **arrays, **others)
    equal(load_medmnist(name, tmp_path, split), images, labels[:, 0])


def test_train_is_the_default_split_and_the_folder_may_be_a_string(tmp_path):
    labels = np.array([[3], [1]])
    write_medmnist(tmp_path, "octmnist", train_images=sample(2, 4, 4), train_labels=labels)
    equal(load_medmnist("octmnist", str(tmp_path)), sample(2, 4, 4), [3, 1])


class Bomb:
    """An object whose pickle creates a file when it is executed."""
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_in_an_npz_file_is_refused_and_not_executed(tmp_path):
    trace = tmp_path / "executed"
    images, labels = np.array([Bomb(trace)]), np.array([[1]])
    write_medmnist(tmp_path, "pathmnist", train_images=images, train_labels=labels)
    with pytest.raises(ValueError, match="pathmnist.npz is not an npz file.*allow_pickle"):
        load_medmnist("pathmnist", tmp_path)
    assert not trace.exists()


@pytest.mark.parametrize("content", [
    b"", b"garbage", b"PK\x03\x04garbage", pickle.dumps({"train_images": 1})])
def test_a_file_that_is_no_npz_is_refused(content, tmp_path):
    (tmp_path / "octmnist.npz").write_bytes(content)
    expected = "octmnist.npz is not an npz file with train_images and train_labels: "
    with pytest.raises(ValueError, match=expected):
        load_medmnist("octmnist", tmp_path)


def test_a_truncated_npz_and_a_bare_npy_are_refused(tmp_path):
    write_medmnist(tmp_path, "octmnist", train_images=sample(50, 8, 8), train_labels=sample(50, 1))
    path = tmp_path / "octmnist.npz"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="octmnist.npz is not an npz file"):
        load_medmnist("octmnist", tmp_path)
    with path.open("wb") as stream:
        np.save(stream, sample(5, 8, 8))
    with pytest.raises(ValueError, match="octmnist.npz is not an npz file"):
        load_medmnist("octmnist", tmp_path)


def test_a_missing_array_is_named(tmp_path):
    write_medmnist(tmp_path, "octmnist", train_images=sample(2, 4, 4))
    expected = "with train_images and train_labels: KeyError.*train_labels"
    with pytest.raises(ValueError, match=expected):
        load_medmnist("octmnist", tmp_path)


@pytest.mark.parametrize("images, labels", [
    (np.zeros((2, 4, 4)), np.zeros((2, 1), int)),
    (sample(2, 4), np.zeros((2, 1), int)),
    (sample(2, 4, 4, 4), np.zeros((2, 1), int)),
    (sample(2, 4, 4), np.zeros((3, 1), int)),
    (sample(2, 4, 4), np.zeros((2, 2), int)),
    (sample(2, 4, 4), np.zeros((2, 1))),
    (sample(2, 4, 4), np.array(1)),
])
def test_arrays_of_another_form_are_refused_with_what_was_found(images, labels, tmp_path):
    write_medmnist(tmp_path, "octmnist", train_images=images, train_labels=labels)
    found = rf"octmnist.npz: images {images.dtype} .*labels {labels.dtype}.*expected are"
    with pytest.raises(ValueError, match=found):
        load_medmnist("octmnist", tmp_path)


# --- MNIST and its like

def idx(array, magic=None, shape=None):
    header = [magic or 2048 + array.ndim, *(shape or array.shape)]
    return struct.pack(f">{len(header)}I", *header) + array.tobytes()


def write_idx(folder, images, labels, split="train"):
    folder.mkdir(exist_ok=True)
    prefix = {"train": "train", "test": "t10k"}[split]
    (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
    (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


@pytest.mark.parametrize("name", IDX)
@pytest.mark.parametrize("split", ["train", "test"])
def test_idx_files_are_read_as_written_from_the_folder_of_their_set(name, split, tmp_path):
    images, labels = sample(7, 5, 4), sample(7) % 10
    write_idx(tmp_path / name, idx(images), idx(labels), split)
    pair = load_idx(name, tmp_path, split)
    equal(pair, images, labels)
    assert pair[0].flags.writeable


@pytest.mark.parametrize("content, found", [
    (idx(sample(3, 4, 4), magic=2049), r"found magic number 2049, sizes \[3, 4, 4\] and 48 bytes"),
    (idx(sample(3, 4, 4), shape=(4, 4, 4)),
     r"found magic number 2051, sizes \[4, 4, 4\] and 48 bytes"),
    (idx(sample(3, 4, 4), shape=(2**32 - 1,) * 3), r"found magic number 2051, sizes"),
    (idx(sample(3, 4, 4)) + b"\0", "and 49 bytes"),
    (idx(sample(3, 4, 4))[:10], "ValueError"),
    (b"", "ValueError"),
])
def test_an_idx_file_whose_header_does_not_fit_is_refused(content, found, tmp_path):
    write_idx(tmp_path / "mnist", content, idx(sample(3)))
    message = f"train-images.*is not a gzipped idx file.* number 2051: .*{found}"
    with pytest.raises(ValueError, match=message):
        load_idx("mnist", tmp_path)


def test_images_in_place_of_labels_are_refused(tmp_path):
    write_idx(tmp_path / "mnist", idx(sample(3, 4, 4)), idx(sample(3, 4, 4)))
    message = "train-labels.*magic number 2049.*found magic number 2051"
    with pytest.raises(ValueError, match=message):
        load_idx("mnist", tmp_path)


def test_another_number_of_labels_than_images_is_refused(tmp_path):
    write_idx(tmp_path / "mnist", idx(sample(3, 4, 4)), idx(sample(2)))
    message = r"train-labels.*images uint8 \(3, 4, 4\).*labels uint8 \(2,\); expected"
    with pytest.raises(ValueError, match=message):
        load_idx("mnist", tmp_path)


@pytest.mark.parametrize("spoil", [
    lambda raw: raw[:-9], lambda raw: raw[:5], lambda raw: b"no gzip", gzip.decompress,
    lambda raw: raw[:20] + bytes(255 - byte for byte in raw[20:])])
def test_a_truncated_or_damaged_gzip_file_is_refused(spoil, tmp_path):
    write_idx(tmp_path / "kmnist", idx(sample(30, 4, 4)), idx(sample(30)))
    path = tmp_path / "kmnist" / "train-images-idx3-ubyte.gz"
    path.write_bytes(spoil(path.read_bytes()))
    message = "kmnist.train-images.*is not a gzipped idx file of bytes, magic number 2051"
    with pytest.raises(ValueError, match=message):
        load_idx("kmnist", tmp_path)


# --- CIFAR10

def python2_pickle(value):
    """The opcodes that Python 2 writes for a value; its strings are byte strings."""
    if isinstance(value, str):
        return b"T" + struct.pack("<i", len(value)) + value.encode("latin1")
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if value is None:
        return b"N"
    if isinstance(value, Name):
        return f"c{value.module}\n{value.name}\n".encode()
    if isinstance(value, Call):
        built = b"" if value.state is None else python2_pickle(value.state) + b"b"
        return python2_pickle(value.function) + python2_pickle(value.arguments) + b"R" + built
    if isinstance(value, dict):
        items = (python2_pickle(item) for pair in value.items() for item in pair)
        return b"(" + b"".join(items) + b"d"
    return b"(" + b"".join(map(python2_pickle, value)) + {tuple: b"t", list: b"l"}[type(value)]


class Name:
    def __init__(self, module, name):
        self.module, self.name = module, name


class Call:
    def __init__(self, function, arguments, state=None):
        self.function, self.arguments, self.state = function, arguments, state


def python2_array(array, fortran=False):
    """What NumPy under Python 2 gave to pickle for an array of numbers."""
    code = array.dtype.str[1:]
    order = "|" if array.itemsize == 1 else "<"
    dtype = Call(Name("numpy", "dtype"), (code, 0, 1), (3, order, None, None, None, -1, -1, 0))
    raw = array.tobytes(order="F" if fortran else "C").decode("latin1")
    empty = (Name("numpy", "ndarray"), (0,), "b")
    state = (1, array.shape, dtype, fortran, raw)
    return Call(Name("numpy.core.multiarray", "_reconstruct"), empty, state)


def write_batch(folder, file, value):
    path = folder / "cifar-10-batches-py" / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\x80\x02" + python2_pickle(value) + b".")
    return path


def batch(data, labels, **options):
    names = [f"image_{i}.png" for i in range(len(labels))]
    return {"batch_label": "a batch", "labels": labels, "data": python2_array(data, **options),
            "filenames": names}


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")
def test_the_batches_written_here_are_pickles_that_numpy_reads():
    data = sample(2, 3072)
    raw = b"\x80\x02" + python2_pickle(batch(data, [3, 255])) + b"."
    read = pickle.loads(raw, encoding="bytes")
    np.testing.assert_array_equal(read[b"data"], data)
    assert read[b"data"].dtype == np.uint8 and read[b"labels"] == [3, 255]


@pytest.mark.parametrize("fortran", [False, True])
def test_cifar10_is_read_as_written_in_the_order_of_its_batches(fortran, tmp_path):
    images, labels = sample(12, 32, 32, 3), sample(12) % 10
    planes = images.transpose(0, 3, 1, 2).reshape(12, 3072)  # red, green, blue, each row by row
    files = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    for file, part in zip(files, np.arange(12).reshape(6, 2), strict=True):
        write_batch(tmp_path, file, batch(planes[part], labels[part].tolist(), fortran=fortran))
    equal(load_cifar10(tmp_path), images[:10], labels[:10])
    equal(load_cifar10(tmp_path, "test"), images[10:], labels[10:])


@pytest.mark.parametrize("module, name", [
    ("os", "mkdir"), ("posix", "mkdir"), ("__builtin__", "eval"), ("builtins", "open"),
    ("numpy", "load"), ("numpy", "core.multiarray._reconstruct"),
    ("numpy.core.multiarray", "scalar"), ("_codecs", "encode"),
])
@pytest.mark.parametrize("place", ["data", "labels", "filenames"])
def test_a_malicious_pickle_is_refused_and_not_executed(module, name, place, tmp_path):
    trace = tmp_path / "executed"
    malice = {place: Call(Name(module, name), (str(trace),))}
    write_batch(tmp_path, "test_batch", batch(sample(1, 3072), [1]) | malice)
    message = rf"test_batch is not .*refers to {module}.{name}, which is refused"
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path, "test")
    assert not trace.exists()


@pytest.mark.filterwarnings("ignore:numpy.core:DeprecationWarning")
def test_pickle_itself_would_have_executed_it(tmp_path):
    trace = tmp_path / "executed"
    malice = Call(Name("os", "mkdir"), (str(trace),))
    path = write_batch(tmp_path, "test_batch", batch(sample(1, 3072), [1]) | {"labels": malice})
    pickle.loads(path.read_bytes(), encoding="bytes")
    assert trace.exists()


@pytest.mark.parametrize("spoil", [
    lambda raw: raw[:-50], lambda raw: b"", lambda raw: b"garbage", lambda raw: b"\x80\x02N.",
    lambda raw: pickle.dumps({b"data": sample(1, 3072), b"labels": [1]}),
])
def test_a_file_that_is_no_published_batch_is_refused(spoil, tmp_path):
    path = write_batch(tmp_path, "test_batch", batch(sample(1, 3072), [1]))
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match="test_batch is not a CIFAR10 batch"):
        load_cifar10(tmp_path, "test")


@pytest.mark.parametrize("value, found", [
    ({"labels": [1]}, "KeyError: b'data'"),
    ({"data": python2_array(sample(1, 3072))}, "KeyError: b'labels'"),
    (batch(sample(1, 3071), [1]), r"found type b'u1' and shape \(1, 3071\)"),
    (batch(sample(2, 32, 96), [1, 1]), r"found type b'u1' and shape \(2, 32, 96\)"),
    (batch(np.zeros((1, 3072), np.float32), [1]), "found type b'f4'"),
    (batch(np.zeros((1, 3072), np.int8), [1]), "found type b'i1'"),
    (batch(sample(1, 3072), [1]) | {"data": "bytes"}, "AttributeError"),
])
def test_a_batch_without_its_bytes_or_labels_is_refused(value, found, tmp_path):
    write_batch(tmp_path, "test_batch", value)
    message = rf"test_batch is not .*bytes \(n, 3072\) and labels: .*{found}"
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path, "test")


@pytest.mark.parametrize("labels", [[1, 2], [], ["cat"], [[1]], [None]])
def test_batch_labels_that_do_not_fit_are_refused(labels, tmp_path):
    write_batch(tmp_path, "test_batch", batch(sample(1, 3072), labels))
    message = r"test_batch: images uint8 \(1, 32, 32, 3\), labels .*expected are"
    with pytest.raises(ValueError, match=message):
        load_cifar10(tmp_path, "test")


# --- whatever a folder holds of a set

@pytest.mark.parametrize("name", [*MEDMNIST, *IDX, "cifar10"])
def test_published_files_are_read_training_images_first(name, tmp_path):
    size = 32 if name == "cifar10" else 4
    shape = (size, size, 3) if name == "cifar10" else (size, size)
    images, labels = sample(12, *shape), sample(12) % 10
    if name in MEDMNIST:
        write_medmnist(tmp_path, name,
                       train_images=images[:10], train_labels=labels[:10, None],
                       test_images=images[10:], test_labels=labels[10:, None],
                       val_images=images[:1], val_labels=labels[:1, None])
    elif name in IDX:
        write_idx(tmp_path / name, idx(images[:10]), idx(labels[:10]))
        write_idx(tmp_path / name, idx(images[10:]), idx(labels[10:]), "test")
    else:
        planes = images.transpose(0, 3, 1, 2).reshape(12, 3072)
        for i, file in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
            part = slice(2 * i, 2 * i + 2)
            write_batch(tmp_path, file, batch(planes[part], labels[part].tolist()))
    # published files go first
    np.savez(tmp_path / f"{name}_part.npz", images=images[:1], labels=labels[:1])
    equal(load_images(name, tmp_path), images, labels)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_subset_is_read_with_its_labels_or_without(name, tmp_path):
    images, labels = sample(6, 4, 4, 3), sample(6) % 10
    np.savez(tmp_path / f"{name}_6.npz", images=images, labels=labels)
    equal(load_images(name, str(tmp_path)), images, labels)
    np.savez(tmp_path / f"{name}_6.npz", images=images)
    read, none = load_images(name, tmp_path)
    np.testing.assert_array_equal(read, images)
    assert none is None


def test_images_of_a_subset_that_are_not_whole_are_left_out(tmp_path):
    images, labels, whole = sample(6, 4, 4), sample(6) % 10, np.array([1, 0, 1, 1, 0, 1], bool)
    np.savez(tmp_path / "kmnist_6.npz", images=images, labels=labels, full28=whole)
    equal(load_images("kmnist", tmp_path), images[whole], labels[whole])


def test_a_subset_of_mnist_is_none_of_kmnist(tmp_path):
    np.savez(tmp_path / "kmnist_6.npz", images=sample(6, 4, 4))
    message = "train-images-idx3-ubyte.gz is missing; it is published at"
    with pytest.raises(FileNotFoundError, match=message):
        load_images("mnist", tmp_path)


@pytest.mark.parametrize("arrays, found", [
    ({"labels": sample(6)}, "is not an npz file with images, and labels or none: KeyError"),
    ({"images": sample(6, 4, 4).astype(float)},
     r"images float64 \(6, 4, 4\), .*expected are uint8"),
    ({"images": sample(6, 4, 4), "labels": sample(5)}, r"labels uint8 \(5,\); expected are"),
    ({"images": sample(6, 4, 4), "labels": sample(6) / 2}, r"labels float64 \(6,\); expected are"),
    ({"images": sample(6, 4, 4), "full28": np.ones(5, bool)}, "is not an npz file .*IndexError"),
    ({"images": np.array([Bomb("executed")])}, "is not an npz file .*allow_pickle"),
])
def test_a_subset_of_another_form_is_refused(arrays, found, tmp_path):
    np.savez(tmp_path / "octmnist_6.npz", **arrays)
    with pytest.raises(ValueError, match=f"octmnist_6.npz.*{found}"):
        load_images("octmnist", tmp_path)


def test_two_subsets_of_one_set_are_refused(tmp_path):
    for part in "ab":
        np.savez(tmp_path / f"mnist_{part}.npz", images=sample(6, 4, 4))
    message = "^folder holds the subsets mnist_a.npz, mnist_b.npz; accepted is one of mnist"
    with pytest.raises(ValueError, match=message):
        load_images("mnist", tmp_path)


# --- what every reader says

@pytest.mark.parametrize("load, missing, url", [
    *((lambda folder, name=name: load_medmnist(name, folder),
       f"{name}.npz", f"https://zenodo.org/.*/{name}.npz") for name in MEDMNIST),
    *((lambda folder, name=name: load_idx(name, folder, "test"),
       f"{name}.t10k-images-idx3-ubyte.gz", "http.*/t10k-im") for name in IDX),
    (load_cifar10, "cifar-10-batches-py.data_batch_1",
     "https://www.cs.toronto.edu/.*/cifar-10-python.tar.gz"),
])
def test_a_missing_file_is_named_with_its_source_and_checksum(load, missing, url, tmp_path):
    said = f"{missing} is missing; it is published at {url}.*, MD5 [0-9a-f]{{32}}$"
    with pytest.raises(FileNotFoundError, match=said):
        load(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_missing_labels_are_named_beside_present_images(tmp_path):
    write_idx(tmp_path / "mnist", idx(sample(3, 4, 4)), idx(sample(3)))
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    message = "train-labels.*MD5 d53e105ee54ea40749a09fcbcd1e9432"
    with pytest.raises(FileNotFoundError, match=message):
        load_idx("mnist", tmp_path)


def test_checksums_are_md5_and_all_different():
    checksums = [checksum for _, files in PUBLISHED.values() for checksum in files.values()]
    assert len(set(checksums)) == 17
    assert all(re.fullmatch("[0-9a-f]{32}", checksum) for checksum in checksums)


@pytest.mark.parametrize("call, argument", [
    (lambda folder: load_medmnist("mnist", folder), "name is 'mnist'; accepted are .*'pathmnist'"),
    (lambda folder: load_medmnist("octmnist", folder, "valid"),
     "split is 'valid'; accepted are .'test', 'train', 'val'"),
    (lambda folder: load_idx("MNIST", folder),
     "name is 'MNIST'; accepted are .'fashionmnist', 'kmnist', 'mnist'"),
    (lambda folder: load_idx("mnist", folder, "val"),
     "split is 'val'; accepted are .'test', 'train'"),
    (lambda folder: load_images("svhn", folder),
     "name is 'svhn'; accepted are .*'cifar10'"),
    (lambda folder: load_cifar10(folder, None), "split is None; accepted are .'test', 'train'"),
])
def test_an_unknown_name_or_split_is_refused(call, argument, tmp_path):
    with pytest.raises(ValueError, match=argument):
        call(tmp_path)


def test_other_errors_of_the_file_system_come_through(tmp_path):
    (tmp_path / "octmnist.npz").mkdir()
    with pytest.raises(IsADirectoryError):
        load_medmnist("octmnist", tmp_path)
