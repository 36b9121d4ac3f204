"""Builds the kernel where there is a compiler; all else is in pyproject.toml."""

import hashlib
import pathlib

from setuptools import Extension, setup

SOURCE = "spdlib/_fast.c"
DIGEST = hashlib.sha256((pathlib.Path(__file__).parent / SOURCE).read_bytes()).hexdigest()
# without contraction a record has the same bits on every processor; a √ needs no errno
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-Wno-psabi"]

kernel = Extension("spdlib._fast", [SOURCE], extra_compile_args=FLAGS, optional=True)
kernel.define_macros.append(("SOURCE_DIGEST", f'"{DIGEST}"'))
setup(ext_modules=[kernel])
