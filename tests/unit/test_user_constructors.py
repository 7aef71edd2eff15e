"""Users' classes whose constructors raise: the error names the class and the cause, and has an exit code."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from dynamic_kafka.app.failures import code_of
from dynamic_kafka.contract.exit_codes import ExitCode
from dynamic_kafka.driver.metadata_services import make_discovery
from dynamic_kafka.errors import DynamicKafkaError
from dynamic_kafka.metadata import KafkaMetadataService, KafkaStream, KafkaStreamSubscriber
from dynamic_kafka.options import parse_options

HERE = "tests.unit.test_user_constructors"


class _Service(KafkaMetadataService):
    def get_all_streams(self) -> list[KafkaStream]:
        return []

    def describe_streams(self, stream_ids: Collection[str]) -> dict[str, KafkaStream]:
        return {}


class Away(_Service):
    def __init__(self, options: Mapping[str, str]) -> None:
        raise ConnectionError(f"the registry at {options['metadataService.host']} does not answer")


class Exits(_Service):
    def __init__(self, options: Mapping[str, str]) -> None:
        raise SystemExit("no registry")


class TakesNothing(_Service):
    def __init__(self) -> None:
        pass


class TakesMore(_Service):
    def __init__(self, options: Mapping[str, str], host: str) -> None:
        pass


class Chooser(KafkaStreamSubscriber):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._team = options["streamSubscriber.team"]

    def get_subscribed_streams(self, service: KafkaMetadataService) -> list[KafkaStream]:
        return []


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            {"metadataService": f"{HERE}:Away", "streamIds": "s", "metadataService.host": "registry"},
            ExitCode.METADATA,
            f"{HERE}:Away cannot be made: ConnectionError: the registry at registry does not answer",
        ),
        (
            {"metadataService": f"{HERE}:Exits", "streamIds": "s"},
            ExitCode.METADATA,
            f"{HERE}:Exits cannot be made: SystemExit: no registry (test_user_constructors.py, line ",
        ),
        (
            {"metadataService": f"{HERE}:TakesMore", "streamIds": "s"},
            ExitCode.CONFIGURATION,
            f"{HERE}:TakesMore cannot be made: TypeError",
        ),
        (
            {"metadataService": "static", "metadataDocument": '{"streams": {}}', "streamSubscriber": f"{HERE}:Chooser"},
            ExitCode.CONFIGURATION,
            f"{HERE}:Chooser cannot be made: KeyError: 'streamSubscriber.team' (test_user_constructors.py, line ",
        ),
    ],
)
def test_a_failing_constructor_is_named_with_its_cause(options: dict[str, str], code: ExitCode, message: str) -> None:
    with pytest.raises(DynamicKafkaError) as raised:
        make_discovery(parse_options(options, mode="stream"))
    assert code_of(raised.value) == code
    assert message in str(raised.value)


def test_a_class_that_takes_nothing_is_made_without_the_options() -> None:
    make_discovery(parse_options({"metadataService": f"{HERE}:TakesNothing", "streamIds": "s"}, mode="stream"))
