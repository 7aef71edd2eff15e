"""Lookups at the start and while a query runs, and the metadata in force after them."""

from __future__ import annotations

from typing import ClassVar

import pytest

from dynamic_kafka.errors import (
    MetadataConflictError,
    MetadataInvalidError,
    MetadataUnavailableError,
)
from dynamic_kafka.metadata import (
    Revision,
    StreamPatternSubscriber,
)
from tests.support.waiting import eventually
from tests.unit.metadata.fakes import (
    INTERVAL_S,
    PATIENCE_S,
    Discoveries,
    FakeService,
    cluster,
    stream,
    warnings,
)

# --- At start -------------------------------------------------------------------------------------------


def test_the_first_look_up_is_in_force_when_start_returns(discoveries: Discoveries) -> None:
    discovery = discoveries.start(FakeService(stream()))

    metadata = discovery.current()

    assert metadata.sequence == 1
    assert list(metadata.subscription.clusters) == ["east"]


def test_a_service_without_revisions_gets_one_from_the_content(discoveries: Discoveries) -> None:
    metadata = discoveries.start(FakeService(stream())).current()
    assert metadata.revision == Revision(metadata.subscription.fingerprint)


def test_without_an_answer_at_start_there_is_no_tolerance(discoveries: Discoveries) -> None:
    service = FakeService()
    service.error = ConnectionError("refused")
    discovery = discoveries.make(service, failure_threshold=5)

    with pytest.raises(MetadataUnavailableError, match="ConnectionError: refused"):
        discovery.start()

    with pytest.raises(MetadataUnavailableError, match=r"no metadata yet.*refused.*metadata service"):
        discovery.current()
    assert service.closed.wait(PATIENCE_S)


def test_an_invalid_document_at_start_stops_the_application(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService()
    service.error = MetadataInvalidError("streams.yaml:3: topcs: unknown field")
    with pytest.raises(MetadataInvalidError, match="topcs"):
        discoveries.start(service)
    assert not caplog.records  # the error says it


def test_streams_that_disagree_at_start_stop_the_application(discoveries: Discoveries) -> None:
    service = FakeService(stream("a"), stream("b", east=cluster("t", servers="other:1")))
    with pytest.raises(MetadataConflictError, match="'a' and 'b' disagree"):
        discoveries.start(service, "a", "b")


def test_an_unknown_stream_at_start_names_the_known_ones(discoveries: Discoveries) -> None:
    with pytest.raises(MetadataInvalidError, match=r"'ordes'.*not exist.*known are orders"):
        discoveries.start(FakeService(stream()), "ordes")


def test_a_restored_query_goes_on_without_a_removed_stream(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    discovery = discoveries.make(FakeService(stream()), "orders", "returns")
    discovery.start(refuse_missing=False)
    assert discovery.current().subscription.stream_ids == ("orders",)
    assert discovery.status().missing == ("returns",)
    assert discovery.status().rejected is None
    assert "'returns' does not exist" in str(discovery.deferred_refusal)
    assert "'returns' is not in" in caplog.text


def test_a_pattern_may_match_nothing_yet(discoveries: Discoveries) -> None:
    service = FakeService()
    discovery = discoveries.start(service, subscriber=StreamPatternSubscriber("orders-.*"))
    assert discovery.current().subscription.stream_ids == ()


def test_a_first_look_up_that_hangs_ends_at_its_deadline(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    service.hang()
    with pytest.raises(MetadataUnavailableError, match=r"no answer within 0\.05 s"):
        discoveries.start(service, lookup_deadline_s=0.05)
    service.release()


# --- While running --------------------------------------------------------------------------------------


@pytest.mark.scenario(11)
def test_with_interval_0_there_is_no_later_look_up(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, interval_s=0)

    service.is_changed = True
    service.set(stream("orders", west=cluster("t")))
    discoveries.clock.now += 24 * 3600

    assert not eventually(lambda: discovery.current().sequence != 1, 0.2)
    assert service.lookups == 1
    assert list(discovery.current().subscription.clusters) == ["east"]


def test_with_interval_0_a_refresh_still_looks_up(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service, interval_s=0)

    service.set(stream("orders", west=cluster("t")))
    discovery.refresh()

    assert list(discovery.current().subscription.clusters) == ["west"]


def test_a_cluster_is_inactive_when_metadata_names_it_no_more(discoveries: Discoveries) -> None:
    service = FakeService(stream("orders", east=cluster("t"), west=cluster("t", servers="w:1")))
    discovery = discoveries.start(service)
    assert discovery.refresh(["east", "west"]) == frozenset()

    service.set(stream("orders", east=cluster("t")))

    assert discovery.refresh(["east", "west"]) == {"west"}
    assert list(discovery.current().subscription.clusters) == ["east"]


def test_a_service_that_denies_a_cluster_is_asked_only_then(discoveries: Discoveries) -> None:
    class Denying(FakeService):
        asked: ClassVar[list[str]] = []

        def is_cluster_active(self, cluster_id: str) -> bool:
            self.asked.append(cluster_id)
            if cluster_id == "north":
                raise ConnectionError("refused")
            return cluster_id != "west"

    named = {name: cluster("t", servers=f"{name}:1") for name in ("east", "west", "north")}
    service = Denying(stream("orders", **named))
    discovery = discoveries.start(service)
    discovery.refresh()
    assert not service.asked

    # A service that raises leaves the cluster active; one that has no answer at all leaves all of them.
    assert discovery.refresh(["east", "west", "north"]) == {"west"}
    assert sorted(service.asked) == ["east", "north", "west"]
    lookups = service.lookups
    discoveries.clock.now += INTERVAL_S
    assert service.await_lookups(lookups + 1)
    discovery.refresh()
    assert len(service.asked) == 3
    service.error = ConnectionError("refused")
    assert discovery.refresh(["west"]) == frozenset()
    discovery.refresh()
    assert len(service.asked) == 3


@pytest.mark.scenario(12)
def test_continuous_discovery_looks_up_once_per_interval(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    discoveries.clock.now += INTERVAL_S - 0.1
    assert not eventually(lambda: discovery.current().sequence != 1, 0.1)
    assert service.lookups == 1, "not before the interval is over"

    for round_ in range(2, 5):
        discoveries.clock.now += INTERVAL_S
        assert service.await_lookups(round_)
    discovery.refresh()  # a barrier: every lookup that was due comes before it
    assert service.lookups == 5


def test_a_change_takes_effect_after_the_interval(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    service.set(stream("orders", east=cluster("orders"), west=cluster("orders", servers="w:1")))
    discoveries.clock.now += INTERVAL_S

    assert eventually(lambda: discovery.current().sequence == 2, PATIENCE_S)
    assert set(discovery.current().subscription.clusters) == {"east", "west"}


def test_a_look_up_with_an_equal_answer_changes_nothing(discoveries: Discoveries) -> None:
    discovery = discoveries.start(FakeService(stream()))
    before = discovery.current()

    discovery.refresh()

    assert discovery.current() is before


def test_equal_content_under_a_new_revision_comes_into_force(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    service.next_revision = Revision("sha256:a", counter=1)
    discovery = discoveries.start(service)

    service.next_revision = Revision("sha256:b", counter=2)
    discovery.refresh()

    assert (discovery.current().revision.counter, discovery.current().sequence) == (2, 2)


def test_a_changed_file_is_read_before_the_interval_ends(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    service.set(stream("orders", west=cluster("t")))
    service.is_changed = True

    assert eventually(lambda: discovery.current().sequence != 1, PATIENCE_S)
    assert list(discovery.current().subscription.clusters) == ["west"]


def test_a_new_stream_that_matches_the_pattern_is_picked_up(discoveries: Discoveries) -> None:
    service = FakeService(stream("orders-eu"))
    discovery = discoveries.start(service, subscriber=StreamPatternSubscriber("orders-.*"))

    service.set(stream("orders-eu"), stream("orders-us"), stream("old-orders-us"))
    discovery.refresh()

    assert discovery.current().subscription.stream_ids == ("orders-eu", "orders-us")


def test_a_removed_stream_is_no_longer_read_and_is_logged_once(
    discoveries: Discoveries, caplog: pytest.LogCaptureFixture
) -> None:
    service = FakeService(stream())
    discovery = discoveries.start(service)

    # The stream id is mistyped.
    service.set(stream("order"))
    for _ in range(3):
        discovery.refresh()

    # Nothing of the stream is read, and one warning says so.
    assert discovery.current().subscription.clusters == {}
    assert (discovery.status().rejected, discovery.status().missing) == (None, ("orders",))
    assert warnings(caplog) == [
        "subscribed stream 'orders' is no longer in the metadata: it is not read; known are order;"
        " did you mean 'order'?"
    ]

    # When the stream is back and removed again, there is another warning.
    service.set(stream())
    discovery.refresh()
    assert discovery.status().missing == ()
    service.set()
    discovery.refresh()
    assert len(warnings(caplog)) == 2 and "the metadata names no streams at all" in warnings(caplog)[1]


def test_one_removed_stream_of_two_is_logged(discoveries: Discoveries, caplog: pytest.LogCaptureFixture) -> None:
    service = FakeService(stream("orders"), stream("payments", west=cluster("payments")))
    discovery = discoveries.start(service, "orders", "payments")

    service.set(stream("orders"))
    discovery.refresh()

    assert discovery.status().missing == ("payments",)
    assert "'payments' is no longer in the metadata" in caplog.text
