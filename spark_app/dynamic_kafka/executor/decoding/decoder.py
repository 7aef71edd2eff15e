"""The interface of decoders: records' values in, values of one Spark type out. Runs on executors.

One implementation: `json_decoder`. The rows are made the same way with any of them (`typed_rows`).
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Decoder(Protocol):
    """A decoder of one schema. The answer for a value depends on that value alone, so that a replay decodes alike.

    Attributes:
        type: the type of the decoded values, a struct.
    """

    type: pa.DataType

    def decode(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Decode values of Arrow's type `binary`, in their order. No bytes make it fail.

        Returns:
            The decoded values; and for each whether it is malformed. A null stays null. A malformed value
            keeps the fields that can be read.
        """
        ...

    def cause(self, value: bytes) -> str:
        """Return why a value is malformed. The text quotes nothing of it, since logs show the text."""
        ...
