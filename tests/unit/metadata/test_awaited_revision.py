"""The start waits for a revision, which an option or the environment names."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.errors import (
    MetadataInvalidError,
    MetadataTooOldError,
    MetadataUnavailableError,
    OptionError,
)
from dynamic_kafka.metadata import (
    AwaitedRevision,
    Revision,
)
from dynamic_kafka.options import parse_options
from tests.unit.metadata.fakes import OPERATOR_REVISION, PATIENCE_S, Discoveries, FakeService, in_background, stream


@pytest.mark.parametrize(
    ("awaited", "reached"),
    [
        ("17", [17, 18]),
        ("6f1c/17", [17, 18]),
        ("other/17", []),
        ("sha256:" + "a" * 64, [17]),
    ],
)
def test_start_waits_for_the_awaited_revision(discoveries: Discoveries, awaited: str, reached: list[int]) -> None:
    for counter in (16, 17, 18):
        service = FakeService(stream())
        digest = "sha256:" + ("a" if counter == 17 else "b") * 64
        service.next_revision = Revision(digest, counter=counter, lineage="6f1c")
        discovery = discoveries.make(service, awaited_revision=awaited, awaited_timeout_s=0)
        if counter in reached:
            discovery.start()
            assert discovery.current().revision.counter == counter
        else:
            with pytest.raises(MetadataTooOldError, match=rf"at revision 6f1c/{counter} .*, {awaited} did not"):
                discovery.start()


def test_the_awaited_revision_may_arrive_late(discoveries: Discoveries, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    service = FakeService(stream())
    service.next_revision = Revision("sha256:old", counter=16)
    discovery = discoveries.make(service, awaited_revision="17", awaited_timeout_s=60)
    starting, outcome = in_background(discovery.start)
    assert service.await_lookups(3)
    assert starting.is_alive()
    with pytest.raises(MetadataUnavailableError, match="no metadata yet"):
        discovery.current()

    # The wait is logged at its start and every 30 s.
    discoveries.clock.now += 29
    assert service.await_lookups(service.lookups + 2)
    assert waits_logged(caplog) == ["waiting for revision 17, at most 60 s; there is 16 (sha256:old…)"]
    discoveries.clock.now += 2
    assert service.await_lookups(service.lookups + 3)
    assert waits_logged(caplog)[1:] == ["waiting for revision 17, at most 29 s; there is 16 (sha256:old…)"]

    service.next_revision = Revision("sha256:new", counter=17)

    starting.join(PATIENCE_S)
    assert outcome == [None]
    assert discovery.current().revision.counter == 17


def waits_logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log lines about the wait."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if message.startswith("waiting for")]


def test_a_bad_document_may_be_corrected_during_the_wait(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    service.next_revision = Revision("sha256:new", counter=17)
    service.error = MetadataUnavailableError("streams.yaml: cannot be read")
    discovery = discoveries.make(service, awaited_revision="17", awaited_timeout_s=60)
    starting, outcome = in_background(discovery.start)
    assert service.await_lookups(2)
    service.error = MetadataInvalidError("streams.yaml:1: the document is empty")
    assert service.await_lookups(service.lookups + 2)

    service.error = None

    starting.join(PATIENCE_S)
    assert outcome == [None]


def test_a_document_without_revisions_never_reaches_one(discoveries: Discoveries) -> None:
    with pytest.raises(MetadataTooOldError, match="17 did not arrive within 0 s"):
        discoveries.start(FakeService(stream()), awaited_revision="17", awaited_timeout_s=0)


USERS_REVISION = Revision("sha256:y", 1)


def test_the_environments_revision_is_awaited_like_the_options(discoveries: Discoveries) -> None:
    service = FakeService(stream())
    service.next_revision = OPERATOR_REVISION
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "6f1c/17"})
    with pytest.raises(MetadataTooOldError, match=r", 6f1c/17 \(KAFKASTREAMS_REVISION\).*not arrive"):
        discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0)

    service.next_revision = replace(OPERATOR_REVISION, counter=17)
    assert discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0).current().revision.counter == 17


def test_the_environments_revision_ignores_a_users_own_document(
    discoveries: Discoveries,
) -> None:
    """One driver may read the operator's document and a user's."""
    service = FakeService(stream())
    service.next_revision = USERS_REVISION
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "6f1c/17"})
    assert (
        discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0).current().revision == USERS_REVISION
    )


@pytest.mark.parametrize("environment", [{}, {"KAFKASTREAMS_REVISION": ""}])
def test_without_a_revision_in_the_environment_none_is_awaited(environment: dict[str, str]) -> None:
    assert AwaitedRevision.of_environment(environment) is None


def test_a_wrong_revision_in_the_environment_is_refused_by_name() -> None:
    with pytest.raises(OptionError, match=r"KAFKASTREAMS_REVISION.*'newest' is no `metadataRevision`"):
        AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "newest"})


@pytest.mark.parametrize(
    ("options", "environment", "awaited"),
    [
        ({"metadataPath": "/streams.yaml"}, "6f1c/17", "6f1c/17 (KAFKASTREAMS_REVISION)"),
        ({"metadataPath": "/streams.yaml", "metadataRevision": "6f1c/18"}, "6f1c/17", "6f1c/18"),
        ({"metadataService": "static", "metadataDocument": "[]"}, "6f1c/17", "None"),
        ({"metadataPath": "/streams.yaml"}, None, "None"),
    ],
    ids=["environment", "the option wins", "no document of the operator's", "nothing"],
)
def test_the_option_overrides_the_revision_in_the_environment(
    options: dict[str, str], environment: str | None, awaited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment is not None:
        monkeypatch.setenv("KAFKASTREAMS_REVISION", environment)
    discovery = make_discovery(parse_options({"streamIds": "s", **options}, mode="streaming"))
    assert str(discovery._awaited) == awaited


@pytest.mark.parametrize("awaited", ["", "v17", "-1", "sha256:12", "/"])
def test_a_text_that_is_no_revision_is_refused(discoveries: Discoveries, awaited: str) -> None:
    with pytest.raises(OptionError, match="is no `metadataRevision`"):
        discoveries.make(FakeService(), awaited_revision=awaited)
