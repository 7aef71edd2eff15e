"""Explain a package that is missing or too old: what to install, and where. Imports nothing but Python's own."""

from __future__ import annotations

import sys

OLDEST_SPARK = (4, 2)
"""The oldest PySpark with the classes that the source derives from."""
_OF_EXTRA = {
    "pyspark": "pyspark",
    "confluent_kafka": "confluent-kafka",
    "pyarrow": "pyarrow",
    "msgspec": "msgspec",
    "prometheus_client": "prometheus-client",
    "rich": "rich",
}
"""The packages of the extra `spark`, by the name that code imports."""


def explained(error: ImportError) -> ImportError:
    """Return the error to raise when an import of this package fails, with the remedy if one is known."""
    package, python = (error.name or "").partition(".")[0], sys.executable
    if package == "pyspark" and (spark := _old_spark()):
        return ImportError(
            f"dynamic_kafka needs PySpark >= 4.2, and {python} has {spark}. Install it: pip install 'pyspark>=4.2'",
            name="pyspark",
        )
    if package not in _OF_EXTRA:
        return error
    missing = _OF_EXTRA[package]
    return ImportError(
        f"{python} lacks {missing}: run pip install 'dynamic-kafka[spark]' there, or in a clone '.[spark]'",
        name=package,
    )


def _old_spark() -> str | None:
    """Return the version of the installed PySpark if it is too old."""
    try:
        import pyspark
    except ImportError:
        return None
    version = str(pyspark.__version__)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return version if numbers < OLDEST_SPARK else None
