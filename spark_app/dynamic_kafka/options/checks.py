"""Checks of single options beyond their kind. Pure; `definitions` names them.

Each check gets the text of the option and the phrase that names the option in a message.
"""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo, available_timezones

from dynamic_kafka.errors import OptionError
from dynamic_kafka.metadata.names import check_cluster_id
from dynamic_kafka.metadata.revision import AwaitedRevision
from dynamic_kafka.metadata.server_list import check_server_list
from dynamic_kafka.user_code import is_import_path
from dynamic_kafka.wording import did_you_mean

_REGISTERED_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
"""A name that `register(spark, evaluators={name: function})` takes."""


def check_absolute_path(text: str, where: str) -> None:
    """Refuse a relative path."""
    if not text.startswith("/"):
        raise OptionError(f"{where} is '{text}'; it must be an absolute path")


def check_cluster(text: str, where: str) -> None:
    """Refuse a text that is no cluster id."""
    try:
        check_cluster_id(text)
    except ValueError as error:
        raise OptionError(f"{where} is '{text}'; {error}") from None


def check_allowed_servers(text: str, where: str) -> None:
    """Refuse anything but `host:port,host:port` or `*`."""
    try:
        check_server_list(text)
    except ValueError as error:
        raise OptionError(f"{where} is '{text}'; {error}") from None


def check_report_address(text: str, where: str) -> None:
    """Refuse anything but `host:port/key`."""
    if not re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}/\w+", text):
        raise OptionError(f"{where} is '{text}'; it must be host:port/key")


def check_time_zone(text: str, where: str) -> None:
    """Refuse anything but the name of a zone, or an offset."""
    try:
        known = re.fullmatch(r"[+-](0\d|1[0-7]):[0-5]\d", text) is not None or ZoneInfo(text).key == text
    except (KeyError, ValueError, OSError):  # unknown, or the name of a folder
        known = False
    if not known:
        near = did_you_mean(text, available_timezones())
        raise OptionError(f"{where} is '{text}'; it must be a zone such as Europe/Berlin, or an offset as +01:00{near}")


def check_revision(text: str, where: str) -> None:
    """Refuse anything but a counter, `lineage/counter` or `sha256:…`."""
    try:
        AwaitedRevision.parse(text)
    except OptionError:
        raise OptionError(
            f"{where} is '{text}'; it must be a counter (17), a lineage and its counter"
            " (lineage/17), or a hash (sha256: and 64 hexadecimal digits)"
        ) from None


def check_evaluator(text: str, where: str) -> None:
    """Refuse anything but `module:Name` or a name for `register`. Expressions of SQL are for a later version."""
    if not is_import_path(text) and not _REGISTERED_NAME.fullmatch(text):
        raise OptionError(
            f"{where} is '{text}'; it must be `package.module:Name`, or a name that"
            " register(spark, evaluators={name: function}) was given. This version takes no SQL expression and no Java"
            " class: write the condition as a Python function"
        )


def check_import_path(text: str, where: str) -> None:
    """Refuse anything but `module:Name`."""
    if not is_import_path(text):
        raise OptionError(f"{where} is '{text}'; it must be `package.module:Name`")


def check_timestamp_assigner(text: str, where: str) -> None:
    """Refuse anything but `value.<field>` and `module:Name`."""
    if not is_import_path(text) and not re.fullmatch(r"value(\.[^.]+)+", text):
        raise OptionError(
            f"{where} is '{text}'; it must be a field of the value (`value.ordered_at`), or `package.module:Name`"
        )


def check_evaluator_name(name: str) -> None:
    """Refuse a name that the option `recordEvaluator` would not take."""
    if not _REGISTERED_NAME.fullmatch(name):
        raise OptionError(f"evaluators: the name {name!r} is wrong: it has letters, digits, `_` and `-`")


def check_time_characteristic(text: str, where: str) -> None:
    """Refuse ingestion time, which Spark has."""
    if text.lower() == "ingestion":
        raise OptionError(
            f"{where} is '{text}', which Spark has by itself: take the option out, and put the watermark on a column of"
            " `current_timestamp()`, one logged value for each batch (docs/how-to/time.md)"
        )


def check_watermark_mode(text: str, where: str) -> None:
    """Refuse a clock that records set."""
    if text.lower() == "punctuated":
        raise OptionError(
            f"{where} is '{text}', but the driver chooses the clock before a record is read, so no record can set it;"
            " set watermarkMode=periodic (docs/how-to/time.md)"
        )


def check_watermark_delay(delay_ms: int, least_ms: int | None, where: str) -> None:
    """Refuse a watermark under which Spark would drop rows of a cluster that lags.

    Args:
        least_ms: `watermarkAlignmentMaxDrift` and `allowedLateness` together; None without the first.
    """
    if least_ms is None:
        raise OptionError(
            f"{where} drops the rows of a cluster that lags, since the source does not align its clusters: set the"
            " option 'watermarkAlignmentMaxDrift' (docs/how-to/time.md), or use Spark's withWatermark"
        )
    if delay_ms < least_ms:
        raise OptionError(
            f"{where} has a delay of {delay_ms} ms, less than the {least_ms} ms of 'watermarkAlignmentMaxDrift' and"
            " 'allowedLateness': it drops rows of a cluster that lags"
        )
