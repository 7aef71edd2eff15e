"""An S3 of our own on loopback, for tests of what is kept in an object store: gofakes3, built from the pins here."""

from __future__ import annotations

import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.go import GoProgram, executable
from tests.support.ports import reserve_ports
from tests.support.supervise import Process
from tests.support.waiting import eventually

BUCKET = "states"
GOFAKES3 = GoProgram(
    name="gofakes3",
    source=Path(__file__).parent,
    module="github.com/johannesboyne/gofakes3",
    package="github.com/johannesboyne/gofakes3/cmd/gofakes3",
)


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """Run a store with one empty bucket, `BUCKET`, in memory, until the block is left.

    Yields:
        The environment by which AWS's own clients, and pyarrow, find it and log in.
    """
    [port] = reserve_ports(1)
    with tempfile.TemporaryDirectory() as folder:
        process = Process("The object store", Path(folder) / "log")
        at = f"127.0.0.1:{port}"
        try:
            process.launch(
                [str(executable(GOFAKES3)), "-backend=memory", f"-host={at}", f"-initialbucket={BUCKET}", "-quiet"]
            )
            assert eventually(lambda: process.running and _answers(at)), process.log.read_text()
            yield {
                "AWS_ENDPOINT_URL": f"http://{at}",
                "AWS_ACCESS_KEY_ID": "tester",
                "AWS_SECRET_ACCESS_KEY": "secret-of-the-test",
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_EC2_METADATA_DISABLED": "true",
                # The store does not know uploads whose checksum comes in a trailer.
                "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            }
        finally:
            process.kill()


def _answers(at: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{at}/{BUCKET}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
