"""Pydantic's validation errors as problems that name the field, the mistake and the remedy.

Driver, tools and operator; pure. Every file that users write by hand goes through here. pydantic's own messages show
the input, which may be a secret in the wrong place; the texts here show names only.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from dynamic_kafka.metadata.yaml.located import Findings, Path, Problem
from dynamic_kafka.wording import nearest_names

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


def explain(error: ValidationError, model: type[BaseModel], *, at: Path = ()) -> list[Problem]:
    """Return the problems of a value that does not validate against `model`.

    Args:
        at: the path of the value in its document; the problems' paths begin with it.
    """
    problems: list[Problem] = []
    misspelt: set[Path] = set()
    for finding in error.errors(include_url=False):
        loc = _as_written(finding["loc"], model)
        cause = finding.get("ctx", {}).get("error")
        if isinstance(cause, Findings):
            problems += [Problem((*at, *loc, *problem.path), problem.text) for problem in cause.problems]
        elif finding["type"] == "extra_forbidden":
            known = _fields_at(model, loc[:-1])
            close = nearest_names(str(loc[-1]), known)
            misspelt.update((*loc[:-1], name) for name in close)
            hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
            problems.append(Problem((*at, *loc), f"unknown field; {hint}"))
        else:
            problems.append(Problem((*at, *loc), _text(finding)))
    # A misspelt field is not missing as well: one mistake, one problem.
    missing = {(*at, *path) for path in misspelt}
    return [p for p in problems if not (p.path in missing and p.text == _TEXTS["missing"])]


def _as_written(loc: tuple[str | int, ...], model: type[BaseModel]) -> Path:
    """Replace a field's Python name, which pydantic reports for a wrong default, by its name in the file."""
    last = loc[-1] if loc else None
    if isinstance(last, str) and "_" in last and to_camel(last) in _fields_at(model, loc[:-1]):
        return (*loc[:-1], to_camel(last))
    return loc


def _text(error: Any) -> str:
    kind = error["type"]
    if kind in _TEXTS:
        return _TEXTS[kind]
    if kind == "literal_error":
        # As everywhere here, the text shows the known word and not the input.
        words = re.findall(r"'([^']+)'", error["ctx"]["expected"])
        close = nearest_names(error["input"], words) if isinstance(error["input"], str) else []
        return f"must be {error['ctx']['expected']}" + (f"; did you mean {close[0]!r}?" if close else "")
    if kind == "greater_than_equal":
        return f"must be at least {error['ctx']['ge']}"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    return str(error["msg"])


def _fields_at(model: type[BaseModel], loc: Path) -> list[str]:
    """Return the field names, as a file writes them, that the mapping at `loc` below `model` may hold."""
    here: Any = model
    for step in loc:
        if isinstance(here, type) and issubclass(here, BaseModel):
            by_name = {field.alias or name: field.annotation for name, field in here.model_fields.items()}
            here = by_name.get(str(step))
        else:  # an item of a list, or a value of a mapping
            here = get_args(here)[-1] if get_args(here) else None
        here = _without_validators(here)
        if type(None) in get_args(here):
            members = [_without_validators(member) for member in get_args(here)]
            here = next(
                (member for member in members if isinstance(member, type) and issubclass(member, BaseModel)), here
            )
    if isinstance(here, type) and issubclass(here, BaseModel):
        return [field.alias or name for name, field in here.model_fields.items()]
    return []


def _without_validators(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
