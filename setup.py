"""The native reader's extension in C; everything else is in pyproject.toml.

The environment variable DYNAMIC_KAFKA_NATIVE decides: `no` builds none, so that a wheel is pure; `yes` fails where it
cannot be built. Otherwise it is built where a C compiler is.
"""

import os
import platform

from setuptools import Extension, setup

NATIVE = os.environ.get("DYNAMIC_KAFKA_NATIVE", "")
FOLDER = "spark_app/dynamic_kafka/executor/native"
# The stable interface of Python 3.11 and newer, and of the C library since 2.34, which has dlopen and threads.
TAGS = {"py_limited_api": "cp311", "plat_name": f"manylinux_2_34_{platform.machine()}"}

setup(
    ext_modules=[]
    if NATIVE == "no"
    else [
        Extension(
            "dynamic_kafka.executor.native._reader",
            [f"{FOLDER}/reader.c"],
            depends=[f"{FOLDER}/fetch.h", f"{FOLDER}/rows.h"],
            extra_compile_args=["-std=gnu11", "-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra"],
            # No paths, times or ids of the machine that builds: the same sources give the same bytes.
            extra_link_args=["-Wl,--build-id=none", "-Wl,-s", "-ldl", "-lpthread"],
            py_limited_api=True,
            optional=NATIVE != "yes",
        )
    ],
    options={"bdist_wheel": TAGS} if NATIVE == "yes" else {},
)
