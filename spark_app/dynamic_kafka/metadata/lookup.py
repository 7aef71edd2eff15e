"""One lookup: ask the service for the subscribed streams, check and unite them. Driver; discovery calls it.

Owns the translation of whatever a user's own class raises into the errors that discovery counts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dynamic_kafka.errors import MetadataInvalidError, MetadataTooOldError, MetadataUnavailableError
from dynamic_kafka.metadata.missing_streams import MissingStreams
from dynamic_kafka.metadata.model import KafkaStream, Revision
from dynamic_kafka.metadata.revision import AwaitedRevision, described
from dynamic_kafka.metadata.services.returned_streams import check_returned_revision, check_returned_streams
from dynamic_kafka.metadata.services.service import KafkaMetadataService
from dynamic_kafka.metadata.subscriber import KafkaStreamSubscriber
from dynamic_kafka.metadata.subscription import Subscription, unite
from dynamic_kafka.user_code import error_text

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """The valid answer of one lookup.

    Attributes:
        missing: the ids of subscribed streams that the answer does not name.
        warnings: the texts about those that are missing for the first time.
    """

    subscription: Subscription
    revision: Revision
    missing: tuple[str, ...]
    warnings: list[str]


class Lookup:
    """The lookups of one discovery at one service.

    Args:
        awaited: the revision that the first lookup must find; None for any.
        awaited_timeout_s: how long discovery waits for it, for the error's text.

    Attributes:
        older_revision: the revision that was found instead of the awaited one, for log lines.
        deferred_refusal: the error of `check_at_start`, when the first lookup does not raise it.
    """

    def __init__(
        self,
        service: KafkaMetadataService,
        subscriber: KafkaStreamSubscriber,
        missing: MissingStreams,
        awaited: AwaitedRevision | None,
        awaited_timeout_s: float,
    ) -> None:
        self._service = service
        self._subscriber = subscriber
        self._missing = missing
        self._awaited = awaited
        self._awaited_timeout_s = awaited_timeout_s
        self.refuse_missing = True
        self.older_revision: str | None = None
        self.deferred_refusal: MetadataInvalidError | None = None

    def run(self, *, first: bool, in_force: Revision | None) -> Found:
        """Make one lookup.

        Args:
            first: also check that the awaited revision and every subscribed stream are there.

        Raises:
            MetadataInvalidError: the answer cannot be used; `token` is its revision, if known.
            MetadataTooOldError: the answer is older than the awaited revision.
            MetadataUnavailableError: there was no answer; any other exception of a user's class becomes this one,
                without secrets.
        """
        try:
            streams = check_returned_streams(self._subscriber.get_subscribed_streams(self._service), self._subscriber)
            subscription = unite(streams)
            revision = check_returned_revision(self._service.revision, self._service)
            revision = revision or Revision(subscription.fingerprint)
            if first:
                self._check_awaited(revision)
                self._check_at_start(streams)
            missing = self._missing.among(subscription)
            return Found(subscription, revision, missing, self._missing.warnings(missing, subscription))
        except MetadataInvalidError as error:
            error.token = error.token or self._token_of_other(in_force)
            raise
        except BaseException as error:  # a user's class may raise anything, and must not end discovery's thread
            if first and isinstance(error, MetadataTooOldError):
                raise
            raise MetadataUnavailableError(error_text(error)) from None

    def inactive(self, asked: Collection[str], named: Collection[str]) -> frozenset[str]:
        """Return the clusters that are not active: metadata does not name them, or the service denies it (FLIP-246).

        Without an answer of the service a cluster counts as active.
        """
        return frozenset(cluster for cluster in asked if cluster not in named or not self._is_active(cluster))

    def _is_active(self, cluster: str) -> bool:
        try:
            return bool(self._service.is_cluster_active(cluster))
        except BaseException as error:  # see `run`
            _log.info("the metadata service does not say whether cluster %s is active: %s", cluster, error_text(error))
            return True

    def has_changed(self) -> bool:
        """Return whether the service reports a change; False if it raises, since the next lookup then raises too."""
        try:
            return bool(self._service.changed())
        except BaseException:  # see `run`
            return False

    def close(self) -> None:
        """Close the service, and log an error of that."""
        try:
            self._service.close()
        except BaseException as error:  # see `run`
            _log.info("closing the metadata service failed: %s", error_text(error))

    def _check_awaited(self, revision: Revision) -> None:
        if self._awaited is None or self._awaited.reached_by(revision):
            return
        found, awaited, limit = described(revision), self._awaited, self._awaited_timeout_s
        self.older_revision = found
        raise MetadataTooOldError(
            f"metadata is at revision {found}, {awaited} did not arrive within {limit:g} s; check what renders it, or"
            " metadataRevision"
        )

    def _check_at_start(self, streams: Sequence[KafkaStream]) -> None:
        try:
            self._subscriber.check_at_start(self._service, streams)
        except MetadataInvalidError as error:
            if self.refuse_missing:
                raise
            self.deferred_refusal = error

    def _token_of_other(self, in_force: Revision | None) -> str:
        """Return the token of the revision that the service has found, or an empty text for the one in force.

        The document may be valid and its streams may still contradict each other: then only the service has its token.
        """
        try:
            revision = self._service.revision
            return "" if revision is None or revision == in_force else revision.token
        except BaseException:  # see `run`
            return ""
