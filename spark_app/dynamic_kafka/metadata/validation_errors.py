"""From pydantic's findings to problems that name field, fault and remedy. Driver and tools; pure.

Serves every file that users of this project write by hand. pydantic's own messages show the input, which may
be a secret in the wrong place: the texts here show names only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from dynamic_kafka.metadata.properties import nearest
from dynamic_kafka.metadata.yaml.located import Path, Problem

_FINDINGS = "findings"

_TEXTS = {
    "missing": "is missing",
    "string_type": "must be a string; put the value in quotes",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "too_short": "must not be empty; name at least one",
    "string_too_short": "must not be empty",
}


def findings(problems: Iterable[tuple[Path, str]]) -> PydanticCustomError:
    """What a validator raises that found several things: each with its path below the validator's own
    field."""
    return PydanticCustomError(_FINDINGS, "several problems", {"problems": list(problems)})


def explain(error: ValidationError, model: type[BaseModel], *, at: Path = ()) -> list[Problem]:
    """The findings of `error`, raised by validating against `model` what stands at the path `at` of a
    document."""
    problems: list[Problem] = []
    misspelt: set[Path] = set()
    for each in error.errors(include_url=False):
        loc = _as_written(each["loc"], model)
        if each["type"] == _FINDINGS:
            problems += [Problem((*at, *loc, *path), text) for path, text in each["ctx"]["problems"]]
        elif each["type"] == "extra_forbidden":
            known = _fields_at(model, loc[:-1])
            close = nearest(str(loc[-1]), known)
            misspelt.update((*loc[:-1], name) for name in close)
            hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
            problems.append(Problem((*at, *loc), f"unknown field; {hint}"))
        else:
            problems.append(Problem((*at, *loc), _text(each)))
    # A misspelt field is not missing as well: one mistake, one finding.
    missing = {(*at, *path) for path in misspelt}
    return [p for p in problems if not (p.path in missing and p.text == _TEXTS["missing"])]


def _as_written(loc: tuple[str | int, ...], model: type[BaseModel]) -> Path:
    """pydantic gives a default's finding the field's Python name: put the name of the file in its place."""
    last = loc[-1] if loc else None
    if isinstance(last, str) and "_" in last and to_camel(last) in _fields_at(model, loc[:-1]):
        return (*loc[:-1], to_camel(last))
    return loc


def _text(error: Any) -> str:
    kind = error["type"]
    if kind in _TEXTS:
        return _TEXTS[kind]
    if kind == "literal_error":
        # The input itself is not shown, as everywhere here: only the known word that is like it.
        words = re.findall(r"'([^']+)'", error["ctx"]["expected"])
        close = nearest(error["input"], words) if isinstance(error["input"], str) else []
        return f"must be {error['ctx']['expected']}" + (f"; did you mean {close[0]!r}?" if close else "")
    if kind == "greater_than_equal":
        return f"must be at least {error['ctx']['ge']}"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    return str(error["msg"])


def _fields_at(model: type[BaseModel], loc: Path) -> list[str]:
    """The names that the mapping at `loc` below `model` may hold, as they are written in a file."""
    here: Any = model
    for step in loc:
        if isinstance(here, type) and issubclass(here, BaseModel):
            by_name = {field.alias or name: field.annotation for name, field in here.model_fields.items()}
            here = by_name.get(str(step))
        else:  # a list's item, or a mapping's value
            here = get_args(here)[-1] if get_args(here) else None
        here = _bare(here)
        if type(None) in get_args(here):
            offered = [_bare(each) for each in get_args(here)]
            here = next((each for each in offered if isinstance(each, type) and issubclass(each, BaseModel)), here)
    if isinstance(here, type) and issubclass(here, BaseModel):
        return [field.alias or name for name, field in here.model_fields.items()]
    return []


def _bare(annotation: Any) -> Any:
    """An annotation without the validators that stand around it."""
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
