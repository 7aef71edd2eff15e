"""The errors that this package raises on purpose: on the driver, on executors and in the application.

    DynamicKafkaError
    ├── OptionError                    an option or an application setting is wrong (exit code 2)
    ├── MetadataError
    │   ├── MetadataInvalidError       a document does not parse or validate; names file, line and field
    │   │   └── MetadataConflictError  two streams define one cluster id differently
    │   ├── MetadataUnavailableError   metadata lookups fail: the first one, or more in a row than tolerated
    │   └── MetadataTooOldError        the revision that the application awaits did not arrive in time
    ├── SecretError                    a reference to a secret does not resolve; never contains the value
    │   └── SecretWithheldError        metadata would send a secret to a foreign server, or protect it less
    ├── OffsetDocumentError            a saved offset document does not parse, or a newer version wrote it
    │   ├── StaleCheckpointError       the checkpoint is older than the records already delivered or committed
    │   └── StateMismatchError         the state location does not hold the state that the query has used
    ├── IdentityError                  another physical cluster answers under a saved cluster id
    ├── PendingRangesError             a pending batch contains clusters or topics that metadata no longer names
    ├── DataLossError                  records that should have been read are gone
    ├── TopicIntegrityError            a topic that is checked was deleted or re-created; ends the query for good
    ├── RecordEvaluationError          a user's record evaluator or deserialiser fails for a record
    ├── RecordDecodingError            the value of a record is malformed, and `mode` is `failfast`
    ├── GroupInUseError                another query commits to this consumer group
    ├── DriverReplacedError            another driver has started on this checkpoint since
    ├── DeadLetterError                records that are refused cannot be written to their topic
    ├── MissingInternalTopicError      an internal topic of the application is missing, or was re-created
    ├── MisconfiguredInternalTopicError  internal topics differ from their declarations; names each deviation
    └── ClusterError                   a Kafka cluster failed; names the cluster
        ├── ClusterUnreachableError    no answer within the deadline
        ├── ClusterRefusedError        the login or the certificate is refused, or no client can be made
        ├── MissingSourceTopicError    a topic that metadata names does not exist
        ├── RecordTooLargeError        a topic does not take a record as large as one that the application writes
        ├── ReadTimeoutError           a range that is being read made no progress for `readTimeout`
        └── UnknownTopicError          a topic or partition does not exist (defined in `kafka/errors.py`)

A message says what is wrong, where, and what to do. It never contains a secret. The JVM passes a Python error on as
text only. `cause_of` finds our error in that text. Each cluster error starts with a code in brackets, such as
`[READ_TIMEOUT cluster=east]`, and the application finds it in any text with `ErrorCode.find`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self


class DynamicKafkaError(Exception):
    """Base class of all errors that this package raises on purpose."""


class OptionError(DynamicKafkaError, ValueError):
    """An option or an application setting is wrong."""


class MetadataError(DynamicKafkaError):
    """Base class of the errors about metadata."""


class MetadataInvalidError(MetadataError, ValueError):
    """A metadata document does not parse or validate.

    Attributes:
        problems: one line per finding.
        token: the revision that the document claims to be, `<lineage>/<counter>`; empty if it cannot be read.
    """

    token = ""  # of the class, too: a user's own subclass may have another constructor

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems or (message,)


class MetadataConflictError(MetadataInvalidError):
    """Two streams define one cluster id differently."""


class MetadataUnavailableError(MetadataError):
    """A metadata lookup failed. `metadataFailureThreshold` limits how many may fail in a row."""


class MetadataTooOldError(MetadataError):
    """The revision that the application awaits did not arrive within `metadataTimeout`."""


class SecretError(DynamicKafkaError):
    """A reference to a secret does not resolve."""


class SecretWithheldError(SecretError):
    """Metadata would send a secret to a server that nobody allowed, or protect it less than the options do."""


class OffsetDocumentError(DynamicKafkaError, ValueError):
    """A saved offset document is damaged, or a newer version wrote it."""


class StaleCheckpointError(OffsetDocumentError):
    """The checkpoint is older than the records that this query has already delivered or committed."""


class StateMismatchError(OffsetDocumentError):
    """The state location does not hold the state that this query has used."""


class IdentityError(DynamicKafkaError):
    """Another physical cluster than the saved one answers under a cluster id, or one answers under two ids."""


class PendingRangesError(DynamicKafkaError):
    """A pending batch contains clusters or topics that metadata no longer names."""


class DataLossError(DynamicKafkaError):
    """Records that should have been read are gone (`failOnDataLoss`)."""


class RecordEvaluationError(DynamicKafkaError):
    """A record evaluator or deserialiser of the user's fails for a record, or does not give one answer for it."""


class RecordDecodingError(DynamicKafkaError):
    """The value of a record is malformed, and `mode` is `failfast`."""


class TopicIntegrityError(DynamicKafkaError):
    """A topic is missing or was re-created, and metadata pins its id or `topicIntegrityCheck` is set.

    Attributes:
        changes: the topics (`planning.sameness.integrity.TopicChange`); none in an error that the JVM passed on as a
            text.
    """

    changes: tuple[object, ...] = ()


class GroupInUseError(DynamicKafkaError):
    """Another query commits its offsets to the same consumer group."""


class DriverReplacedError(DynamicKafkaError):
    """Another driver has started on this checkpoint since, or may have: this one may decide nothing any more."""


class DeadLetterError(DynamicKafkaError):
    """Records that are refused cannot be written to the dead-letter topic, so their batch fails."""


class MissingInternalTopicError(DynamicKafkaError):
    """An internal topic of the application is missing, or was deleted and made again."""


class MisconfiguredInternalTopicError(DynamicKafkaError):
    """Internal topics of the application differ from their declarations. The message lists each deviation."""


class ClusterError(DynamicKafkaError):
    """A Kafka cluster failed to answer, or answered with an error. `cluster` is the user's id for it."""

    code = "CLUSTER_ERROR"

    def __init__(self, cluster: str, message: str) -> None:
        super().__init__(f"[{self.code} cluster={cluster}] {message}")
        self.cluster = cluster
        self.message = message

    def __reduce__(self) -> tuple[type[ClusterError], tuple[str, str]]:
        # Executors pickle their errors. The default would call __init__ with the joined text alone.
        return type(self), (self.cluster, self.message)


class ClusterUnreachableError(ClusterError):
    """A cluster did not answer within the deadline."""

    code = "CLUSTER_UNREACHABLE"


class ClusterRefusedError(ClusterError):
    """A cluster refuses the login or a certificate, or no client can be made of the properties.

    A retry does not help: the user has to correct the cluster's properties or secrets.
    """

    code = "CLUSTER_REFUSED"


class MissingSourceTopicError(ClusterError):
    """A topic that metadata names does not exist on its cluster."""

    code = "MISSING_SOURCE_TOPIC"

    @classmethod
    def of(cls, cluster: str, topics: Iterable[str]) -> Self:
        """Return the error for topics of one cluster."""
        named = ", ".join(map(repr, sorted(topics)))
        return cls(cluster, f"has no topic {named}: create it, or remove it from the stream")


class RecordTooLargeError(ClusterError):
    """A topic does not take a record as large as one that the application writes to it."""


class ReadTimeoutError(ClusterError):
    """A range that is being read made no progress for `readTimeout`."""

    code = "READ_TIMEOUT"


@dataclass(frozen=True)
class ErrorCode:
    """The code at the start of a cluster error, as found in a text that the JVM passed on."""

    code: str
    cluster: str

    @classmethod
    def find(cls, text: str) -> ErrorCode | None:
        """Return the first code in `text`, or None. Cluster ids have no spaces or brackets, so the match is exact."""
        match = re.search(
            r"\[(CLUSTER_ERROR|CLUSTER_UNREACHABLE|CLUSTER_REFUSED|MISSING_SOURCE_TOPIC|READ_TIMEOUT)"
            r" cluster=([^\]\s]+)\]",
            text,
        )
        return cls(match.group(1), match.group(2)) if match else None


_RAISED = re.compile(
    r"\bdynamic_kafka\.(?:kafka\.)?errors\.(\w+): (.*?)"
    r"(?=\s*(?: SQLSTATE: |\n\tat |\nTraceback \(|\nDriver stacktrace|\n\n(?:During|The above)|\n=== |\Z))",
    re.DOTALL,
)
"""One of our errors in a traceback, up to the text that Python or Spark puts after it."""

_MISSING = re.compile(r"No module named '((?:dynamic_kafka|confluent_kafka|pyarrow|msgspec)\b[\w.]*)'")
_WORKERS = "Spark's workers cannot import {}: start Spark with a PYSPARK_PYTHON that has dynamic-kafka[spark]"


def cause_of(error: BaseException | None) -> DynamicKafkaError | None:
    """Return our error, which Spark's exception holds somewhere in its text; None if it holds none.

    Args:
        error: an exception of Spark's, such as a `StreamingQueryException` or a `PythonException`, or None as from
            `query.exception()` of a query that runs.

    Returns:
        An error of the class and with the message that were raised. It has no traceback.
    """
    return error if error is None or isinstance(error, DynamicKafkaError) else cause_in(str(error))


def cause_in(text: str) -> DynamicKafkaError | None:
    """Return our error in a text from the JVM, or None."""
    # A traceback prints the cause of an error before the error, so the last one in the text was raised.
    for name, message in reversed(_RAISED.findall(text)):
        kind = globals().get(name, ClusterError if name == "UnknownTopicError" else None)
        if not (isinstance(kind, type) and issubclass(kind, DynamicKafkaError)):
            continue
        if not issubclass(kind, ClusterError):
            return kind(message)
        if code := ErrorCode.find(message):
            return kind(code.cluster, message.partition("] ")[2])
    missing = _MISSING.search(text)
    return DynamicKafkaError(_WORKERS.format(missing[1])) if missing else None
