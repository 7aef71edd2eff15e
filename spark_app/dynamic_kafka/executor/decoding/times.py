"""Dates and timestamps of JSON texts, read as Spark's `from_json` reads them without a format. Runs on executors.

The forms are those of Spark's cast of a text, such as `2026-11-01`, `2026-11-01T10:00:00.5Z` and `2026-11-1 1:00`. A
result is a number, as Arrow has it: days or microseconds since the epoch. Python's `datetime` would not do: it has no
year 0, and none beyond 9999.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
_INT_MAX = 2**31 - 1
_DAY = 86_400_000_000
_BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
"""Spark trims white space and control characters."""

_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_DAYS_TEXT = re.compile(r"[+-]?\d+")
_OFFSET = re.compile(r"([+-])(?:(\d{1,2})|(\d\d):?(\d\d)|(\d\d):(\d\d):(\d\d)|(\d\d)(\d\d)(\d\d))", re.ASCII)
_SHORT_IDS = {
    "EST": "-05:00", "HST": "-10:00", "MST": "-07:00", "ACT": "Australia/Darwin", "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo", "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
}  # fmt: skip
"""Java's short ids of zones, which Spark accepts."""


def days_of(text: str) -> int | None:
    """Return the days since the epoch; None if the text is no date."""
    for written in (text, text.replace("GMT", "")):
        match = _DATE.fullmatch(written.strip(_BLANKS))
        if match is not None:
            sign, year, month, day = match.groups()
            days = _days(int(sign + year), int(month or 1), int(day or 1))
            if days is not None and -_INT_MAX - 1 <= days <= _INT_MAX:
                return days
    # Spark 1.5 wrote dates as days since the epoch. Texts of four to seven digits are years.
    match = _DAYS_TEXT.fullmatch(text)
    number = int(text) if match is not None and len(text) <= 12 else _INT_MAX + 1
    return number if -1000 < number <= _INT_MAX else None


def micros_of(text: str, zone: tzinfo | None) -> int | None:
    """Return the microseconds since the epoch; None if the text is no timestamp.

    Args:
        zone: the zone of a text that has none. None: timestamps without a zone, whose texts must not have any.
    """
    micros = _micros(text, zone)
    return _micros(text.replace("GMT", ""), zone) if micros is None and zone is not None and "GMT" in text else micros


def _micros(text: str, zone: tzinfo | None) -> int | None:
    match = _TIMESTAMP.fullmatch(text.strip(_BLANKS))
    if match is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, name = match.groups()
    days = _days(int(sign + year), int(month or 1), int(day or 1))
    if days is None or int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 59:
        return None
    seconds = (int(hour or 0) * 60 + int(minute or 0)) * 60 + int(second or 0)
    micros = days * _DAY + seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    if name is not None:
        named = zone_of(name.strip(" "))
        if named is None or zone is None:
            return None
        zone = named
    if zone is not None:
        micros -= _offset(zone, int(sign + year), days, seconds)
    return micros if _LONG_MIN <= micros <= _LONG_MAX else None


@functools.lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo | None:
    """Return a zone by its name in Java's sense, such as `Z`, `+01:00`, `UTC+1` or `Europe/Berlin`; None if unknown."""
    name = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1, flags=re.ASCII)
    name = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", name, count=1, flags=re.ASCII)
    name = _SHORT_IDS.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    prefix = re.match(r"UTC|GMT|UT", name)
    match = _OFFSET.fullmatch(name[prefix.end() :] if prefix else name)
    if match is not None:
        hours, minutes, seconds = ([int(group) for group in match.groups()[1:] if group is not None] + [0, 0])[:3]
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > 18 * 3600:
            return None
        return timezone(timedelta(seconds=-total if match[1] == "-" else total))
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9~/._+-]+", name) or ".." in name:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, or the name of a folder
        return None


def _days(year: int, month: int, day: int) -> int | None:
    """Return the days since the epoch of a date of the Gregorian calendar, which holds for all years; None if none."""
    if not 1 <= month <= 12 or not 1 <= day <= _last_day(year, month):
        return None
    # Years begin in March, so that the leap day is the last one.
    year -= month <= 2
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return year * 365 + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _last_day(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _offset(zone: tzinfo, year: int, days: int, seconds: int) -> int:
    """Return the microseconds by which a zone is ahead of UTC at a local time.

    In a gap the offset before it counts, and where clocks go back, the earlier of both times: as in Java.
    """
    # The calendar repeats every 400 years, and so do the rules of zones after the last change that is known.
    shift = 0 if 2 <= year <= 9998 else (year - 2 if year < 2 else year - 9600) // 400 * 400
    shifted = days - shift // 400 * 146_097
    local = datetime(1970, 1, 1, tzinfo=zone) + timedelta(days=shifted, seconds=seconds)
    utc_offset = zone.utcoffset(local)
    assert utc_offset is not None
    return utc_offset // timedelta(microseconds=1)
