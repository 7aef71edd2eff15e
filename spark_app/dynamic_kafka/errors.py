"""Every error this package raises on purpose, on driver, executors and in the application.

    DynamicKafkaError
    ├── OptionError                    an option or application setting is wrong (exit code 2)
    ├── MetadataError
    │   ├── MetadataInvalidError       a document does not parse or validate: file, line, field
    │   ├── MetadataConflictError      two streams disagree about one cluster
    │   ├── MetadataUnavailableError   a look-up had no answer, more often than tolerated
    │   └── MetadataTooOldError        the awaited revision did not arrive in time
    ├── SecretError                    a reference to a secret does not resolve (never holds the value)
    ├── OffsetDocumentError            a saved offset document does not parse, or is newer than this version
    │   └── StaleCheckpointError       the checkpoint is older than what was already delivered
    ├── IdentityError                  a cluster id is answered by another physical cluster
    ├── PendingRangesError             a planned batch names clusters that metadata no longer names
    ├── DataLossError                  records between two offsets are gone
    ├── GroupInUseError                another query commits to this consumer group
    └── ClusterError                   a Kafka cluster did not do as asked; names the cluster
        ├── ClusterUnreachableError    no answer within the deadline
        ├── ClusterRefusedError        it refuses the login or the certificate, or its client cannot be made
        ├── ReadTimeoutError           a range in flight made no progress for `readTimeout`
        └── UnknownTopicError          a topic or partition is not there (in `kafka/errors.py`)

Messages say what is wrong, where, and what to do; they never carry a secret. The JVM hands a Python error on as text
only, so the errors that the application acts upon start with a code in brackets, `[READ_TIMEOUT cluster=east]`, which
`ErrorCode.find` reads back out of any text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


class DynamicKafkaError(Exception):
    """Root of all errors raised on purpose by this package."""


class OptionError(DynamicKafkaError, ValueError):
    """An option or a setting of the application is wrong."""


class MetadataError(DynamicKafkaError):
    """Root of the errors of the metadata service."""


class MetadataInvalidError(MetadataError, ValueError):
    """A metadata document does not parse or validate. `problems` has one line per finding; `token` is the revision
    that the document claims to be, `<lineage>/<counter>`, as far as it can be read."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (message,)
        self.token = ""


class MetadataConflictError(MetadataInvalidError):
    """Two streams say different things of one cluster id."""


class MetadataUnavailableError(MetadataError):
    """A look-up had no answer. Counted against `metadataFailureThreshold`."""


class MetadataTooOldError(MetadataError):
    """The revision that the application waits for did not arrive within `metadataTimeout`."""


class SecretError(DynamicKafkaError):
    """A reference to a secret does not resolve."""


class OffsetDocumentError(DynamicKafkaError, ValueError):
    """A saved offset document is damaged, or was written by a newer version."""


class StaleCheckpointError(OffsetDocumentError):
    """The checkpoint is older than what this query has already delivered or committed."""


class IdentityError(DynamicKafkaError):
    """A cluster id is answered by another physical cluster than the saved one, or two ids by the same one."""


class PendingRangesError(DynamicKafkaError):
    """A planned but uncommitted batch names clusters or topics that metadata no longer names."""


class DataLossError(DynamicKafkaError):
    """Records that should have been read are no longer there (`failOnDataLoss`)."""


class GroupInUseError(DynamicKafkaError):
    """Another query commits its offsets to the same consumer group."""


class ClusterError(DynamicKafkaError):
    """A Kafka cluster did not do as asked. `cluster` is the user's id for it."""

    code = "CLUSTER_ERROR"

    def __init__(self, cluster: str, message: str) -> None:
        super().__init__(f"[{self.code} cluster={cluster}] {message}")
        self.cluster = cluster
        self.message = message

    def __reduce__(self) -> tuple[type[ClusterError], tuple[str, str]]:
        # Executors pickle their errors: the default would call __init__ with the joined text alone.
        return type(self), (self.cluster, self.message)


class ClusterUnreachableError(ClusterError):
    """No answer from a cluster within its deadline."""

    code = "CLUSTER_UNREACHABLE"


class ClusterRefusedError(ClusterError):
    """A cluster refuses the login or a certificate, or no client can be made with what is given: trying again does not
    help, the cluster's properties and secrets have to be put right."""

    code = "CLUSTER_REFUSED"


class ReadTimeoutError(ClusterError):
    """A range in flight made no progress for `readTimeout`."""

    code = "READ_TIMEOUT"


@dataclass(frozen=True)
class ErrorCode:
    """The code at the head of a cluster error, as found in a text that crossed the JVM."""

    code: str
    cluster: str

    @classmethod
    def find(cls, text: str) -> ErrorCode | None:
        """The first code in `text`, or None. Cluster ids hold no spaces or brackets, so the match is exact."""
        found = re.search(
            r"\[(CLUSTER_ERROR|CLUSTER_UNREACHABLE|CLUSTER_REFUSED|READ_TIMEOUT) cluster=([^\]\s]+)\]", text
        )
        return cls(found.group(1), found.group(2)) if found else None
