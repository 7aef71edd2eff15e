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
from tests.unit.metadata.fakes import OPERATORS, PATIENCE_S, FakeService, Started, aside, stream


@pytest.mark.parametrize(
    ("awaited", "reached"),
    [
        ("17", [17, 18]),
        ("6f1c/17", [17, 18]),
        ("other/17", []),
        ("sha256:" + "a" * 64, [17]),
    ],
)
def test_start_waits_for_the_awaited_revision(discoveries: Started, awaited: str, reached: list[int]) -> None:
    for counter in (16, 17, 18):
        service = FakeService(stream())
        digest = "sha256:" + ("a" if counter == 17 else "b") * 64
        service.edition = Revision(digest, counter=counter, lineage="6f1c")
        discovery = discoveries.make(service, awaited_revision=awaited, awaited_timeout_s=0)
        if counter in reached:
            discovery.start()
            assert discovery.current().revision.counter == counter
        else:
            with pytest.raises(MetadataTooOldError, match=rf"at revision 6f1c/{counter} .*and {awaited} did not"):
                discovery.start()


def test_the_awaited_revision_may_arrive_late(discoveries: Started, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    service = FakeService(stream())
    service.edition = Revision("sha256:old", counter=16)
    discovery = discoveries.make(service, awaited_revision="17", awaited_timeout_s=60)
    starting, outcome = aside(discovery.start)
    assert service.await_lookups(3)
    assert starting.is_alive()
    with pytest.raises(MetadataUnavailableError, match="no metadata yet"):
        discovery.current()

    # it is said at the start, and every half minute
    discoveries.clock.now += 29
    assert service.await_lookups(service.lookups + 2)
    assert said(caplog) == ["waiting for revision 17, at most 60 s; there is 16 (sha256:old…)"]
    discoveries.clock.now += 2
    assert service.await_lookups(service.lookups + 3)
    assert said(caplog)[1:] == ["waiting for revision 17, at most 29 s; there is 16 (sha256:old…)"]

    service.edition = Revision("sha256:new", counter=17)

    starting.join(PATIENCE_S)
    assert outcome == [None]
    assert discovery.current().revision.counter == 17


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged of waiting."""
    messages = [record.getMessage() for record in caplog.records]
    return [message for message in messages if message.startswith("waiting for")]


def test_while_waiting_a_missing_or_invalid_document_may_still_be_put_right(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = Revision("sha256:new", counter=17)
    service.error = MetadataUnavailableError("streams.yaml: cannot be read")
    discovery = discoveries.make(service, awaited_revision="17", awaited_timeout_s=60)
    starting, outcome = aside(discovery.start)
    assert service.await_lookups(2)
    service.error = MetadataInvalidError("streams.yaml:1: the document is empty")
    assert service.await_lookups(service.lookups + 2)

    service.error = None

    starting.join(PATIENCE_S)
    assert outcome == [None]


def test_a_document_without_revisions_never_reaches_one(discoveries: Started) -> None:
    with pytest.raises(MetadataTooOldError, match="17 did not arrive within 0 s"):
        discoveries.start(FakeService(stream()), awaited_revision="17", awaited_timeout_s=0)


OF_A_USER = Revision("sha256:y", 1)


def test_what_the_environment_names_is_awaited_as_the_option_is(discoveries: Started) -> None:
    service = FakeService(stream())
    service.edition = OPERATORS
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "6f1c/17"})
    with pytest.raises(MetadataTooOldError, match=r"and 6f1c/17 \(KAFKASTREAMS_REVISION\) did not arrive"):
        discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0)

    service.edition = replace(OPERATORS, counter=17)
    assert discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0).current().revision.counter == 17


def test_what_the_environment_names_says_nothing_of_documents_that_the_operator_does_not_write(
    discoveries: Started,
) -> None:
    """One driver may read the operator's document and one of its user's."""
    service = FakeService(stream())
    service.edition = OF_A_USER
    awaited = AwaitedRevision.of_environment({"KAFKASTREAMS_REVISION": "6f1c/17"})
    assert discoveries.start(service, awaited_revision=awaited, awaited_timeout_s=0).current().revision == OF_A_USER


@pytest.mark.parametrize("environment", [{}, {"KAFKASTREAMS_REVISION": ""}])
def test_an_environment_that_names_nothing_awaits_nothing(environment: dict[str, str]) -> None:
    assert AwaitedRevision.of_environment(environment) is None


def test_a_wrong_revision_in_the_environment_is_told_with_its_name() -> None:
    with pytest.raises(OptionError, match="KAFKASTREAMS_REVISION in the environment: 'newest' is no revision"):
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
def test_the_environment_is_asked_where_the_option_is_silent(
    options: dict[str, str], environment: str | None, awaited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if environment is not None:
        monkeypatch.setenv("KAFKASTREAMS_REVISION", environment)
    discovery = make_discovery(parse_options({"streamIds": "s", **options}, mode="streaming"))
    assert str(discovery._awaited) == awaited


@pytest.mark.parametrize("awaited", ["", "v17", "-1", "sha256:12", "/"])
def test_what_is_no_revision_cannot_be_awaited(discoveries: Started, awaited: str) -> None:
    with pytest.raises(OptionError, match="is no revision"):
        discoveries.make(FakeService(), awaited_revision=awaited)
