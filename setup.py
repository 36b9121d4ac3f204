"""Builds the kernel where there is a compiler; all else is in pyproject.toml."""

import hashlib
import pathlib

from setuptools import Extension, setup

SOURCE = "spdlib/_fast.c"
DIGEST = hashlib.sha256(pathlib.Path(__file__).with_name("spdlib").joinpath(
    "_fast.c").read_bytes()).hexdigest()
# without contraction a record has the same bits on every processor; a √ needs no errno
FLAGS = ["-std=c99", "-O3", "-ffp-contract=off", "-fno-fast-math", "-fno-math-errno", "-Wno-psabi"]

setup(ext_modules=[
    Extension("spdlib._fast", [SOURCE], define_macros=[("SOURCE_DIGEST", f'"{DIGEST}"')],
              extra_compile_args=FLAGS, optional=True)
])
