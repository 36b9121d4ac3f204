"""Image sets: two inside Python packages, and readers of published files in a user's folder.

Nothing is downloaded. A missing file is an error that says where it is published and which MD5
checksum it has there. The checksum is for the user to compare; a reader checks the format, so a
smaller set in the same format is welcome. `load_images` reads whatever a folder holds of a set,
be it the published files or a subset in one npz file. Readers return images, uint8 of shape
(n, h, w) or (n, h, w, 3), and integer labels of shape (n,); they raise ValueError for an unknown
name or split and for a file that is not what its name says.
"""

import gzip
import math
import pickle
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from ._checks import choice, integer

IDX_FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
             "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
MEDMNIST = ("pathmnist", "octmnist", "bloodmnist", "breastmnist")
IDX = ("mnist", "kmnist", "fashionmnist")
ZENODO = "https://zenodo.org/records/10519652/files/"


def _idx_set(url, *checksums):
    """Where a set of `IDX_FILES` is published, and their checksums in this order."""
    return url, dict(zip(IDX_FILES, checksums, strict=True))


PUBLISHED = {  # where each set is published, and the MD5 checksum of each file there
    "pathmnist": (ZENODO, {"pathmnist.npz": "a8b06965200029087d5bd730944a56c1"}),
    "octmnist": (ZENODO, {"octmnist.npz": "c68d92d5b585d8d81f7112f81e2d0842"}),
    "bloodmnist": (ZENODO, {"bloodmnist.npz": "7053d0359d879ad8a5505303e11de1dc"}),
    "breastmnist": (ZENODO, {"breastmnist.npz": "750601b1f35ba3300ea97c75c52ff8f6"}),
    "mnist": _idx_set("https://ossci-datasets.s3.amazonaws.com/mnist/",
                      "f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                      "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
    "kmnist": _idx_set("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
                       "bdb82020997e1d708af4cf47b453dcf7", "e144d726b3acfaa3e44228e80efcd344",
                       "5c965bf0a639b31b8f53240b1b52f4d7", "7320c461ea6c1c855c0b718fb2a4b134"),
    "fashionmnist": _idx_set(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
    "cifar10": ("https://www.cs.toronto.edu/~kriz/",
                {"cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a"}),
}


def load_digits():
    """Handwritten digits of scikit-learn: images, floats in [0, 1], and labels.

    The shapes are (1797, 8, 8) and (1797,).
    """
    digits = _package("sklearn.datasets", "scikit-learn").load_digits()
    return digits.images / 16, digits.target


def load_histology(tile=28):
    """Tiles of scikit-image's stained tissue, row by row, uint8 of shape (m², tile, tile, 3).

    There are m = 512 // tile of them in a row.
    """
    tile = integer(tile, "tile", 1, 512)
    image, m = _package("skimage.data", "scikit-image").immunohistochemistry(), 512 // tile
    tiles = image[:m * tile, :m * tile].reshape(m, tile, m, tile, 3).swapaxes(1, 2)
    return tiles.reshape(m**2, tile, tile, 3)


def load_images(name, folder):
    """Images and labels of a set of `PUBLISHED`, or those of a subset in the folder.

    Training images go before test images. A subset is a file name_*.npz, of which there may be one,
    with `images` and, where these are known, `labels`; else the labels are None. Where it has
    `full28`, images that are not whole are left out. Published files go first.
    """
    choice(name, "name", PUBLISHED)
    if name == "cifar10":
        load, published = load_cifar10, "cifar-10-batches-py"
    elif name in IDX:
        load, published = partial(load_idx, name), name
    else:
        load, published = partial(load_medmnist, name), f"{name}.npz"
    subsets = sorted(Path(folder).glob(f"{name}_*.npz"))
    if subsets and not Path(folder, published).exists():
        return _subset(name, subsets)
    return _joined(load(folder, split) for split in ("train", "test"))


def load_medmnist(name, folder, split="train"):
    """Images and labels of a MedMNIST v2 set, from folder/name.npz.

    The split is "train", "val" or "test".
    """
    choice(name, "name", MEDMNIST)
    choice(split, "split", ("train", "val", "test"))
    path = Path(folder) / f"{name}.npz"
    expected = f"an npz file with {split}_images and {split}_labels"
    with _reading(path, name, path.name, expected) as stream:
        arrays = np.load(stream, allow_pickle=False)
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
    return _checked(path, images, labels.ravel())


def load_idx(name, folder, split="train"):
    """Images and labels of the split "train" or "test" of an MNIST-like set.

    Its idx files are in folder/name.
    """
    choice(name, "name", IDX)
    choice(split, "split", ("train", "test"))
    files, pair = IDX_FILES[:2] if split == "train" else IDX_FILES[2:], []
    for file, ndim in zip(files, (3, 1), strict=True):
        path, expected = Path(folder) / name / file, f"magic number {2048 + ndim}"
        with _reading(path, name, file, f"a gzipped idx file of bytes, {expected}") as stream:
            pair.append(_idx(gzip.decompress(stream.read()), ndim))
    return _checked(path, *pair)


def load_cifar10(folder, split="train"):
    """Images and labels of the split "train" or "test" of CIFAR10.

    Its batches are in folder/cifar-10-batches-py.
    """
    choice(split, "split", ("train", "test"))
    files = [f"data_batch_{i}" for i in range(1, 6)] if split == "train" else ["test_batch"]
    return _joined(_cifar10_batch(Path(folder) / "cifar-10-batches-py" / file) for file in files)


def _joined(parts):
    """Images and labels of all parts, one after another."""
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def _subset(name, paths):
    if len(paths) > 1:
        found = ", ".join(path.name for path in paths)
        raise ValueError(f"folder holds the subsets {found}; accepted is one of {name}")
    with _reading(paths[0], name, "", "an npz file with images, and labels or none") as stream:
        arrays = np.load(stream, allow_pickle=False)
        whole = arrays["full28"] if "full28" in arrays else slice(None)
        images = arrays["images"][whole]
        labelled = "labels" in arrays
        labels = arrays["labels"][whole] if labelled else np.zeros(len(images), int)
    images, labels = _checked(paths[0], images, labels)
    return images, labels if labelled else None


def _idx(raw, ndim):
    magic, *shape = np.frombuffer(raw, ">u4", ndim + 1).tolist()
    body = raw[4 * (ndim + 1):]
    if magic != 2048 + ndim or math.prod(shape) != len(body):
        raise ValueError(f"found magic number {magic}, sizes {shape} and {len(body)} bytes")
    return np.frombuffer(bytearray(body), np.uint8).reshape(shape)


def _cifar10_batch(path):
    expected = "a CIFAR10 batch, bytes (n, 3072) and labels"
    with _reading(path, "cifar10", "cifar-10-python.tar.gz", expected) as stream:
        batch = _ByteUnpickler(stream, encoding="bytes").load()
        _, shape, dtype, fortran, raw = batch[b"data"].state
        if dtype.arguments[0] != b"u1" or shape[1:] != (3072,):
            raise ValueError(f"found type {dtype.arguments[0]} and shape {shape}")
        data = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")
        images, labels = data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), batch[b"labels"]
    return _checked(path, images, np.array(labels))


class _ByteUnpickler(pickle.Unpickler):
    """Unpickler that calls nothing: the three names that an array needs only record.

    Every other name is refused.
    """
    RECORDED = {("numpy.core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype")}

    def find_class(self, module, name):
        if (module, name) in self.RECORDED:
            return _Record
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is refused")


class _Record:
    """What a pickle would have passed to NumPy: arguments, then the state of the result."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __setstate__(self, state):
        self.state = state


def _checked(path, images, labels):
    is_stack = images.ndim == 3 or images.ndim == 4 and images.shape[-1] == 3
    is_whole = images.dtype == np.uint8 and np.issubdtype(labels.dtype, np.integer)
    if not is_stack or not is_whole or labels.shape != images.shape[:1]:
        raise ValueError(f"{path}: images {images.dtype} {images.shape}, labels {labels.dtype} "
                         f"{labels.shape}; expected are uint8 (n, h, w) or (n, h, w, 3) and "
                         "integers (n,)")
    return images, labels.astype(int)


@contextmanager
def _reading(path, name, file, expected):
    """The opened file; what its parser raises becomes a ValueError that says what was expected."""
    url, checksums = PUBLISHED[name]
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; it is published at {url}{file}, "
                                f"MD5 {checksums[file]}")
    with path.open("rb") as stream:
        try:
            yield stream
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path} is not {expected}: {found}") from error


def _package(module, package):
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{module} cannot be imported; it comes with the package {package}") from error
