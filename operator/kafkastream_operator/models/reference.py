"""From the models to `docs/crds.md`: every field with its type, default, bounds and meaning. Pure but for `main`.

python -m kafkastream_operator.models.reference FILE

Bounds are those of the CRD; the meaning is what the models' docstrings say under `Attributes:`.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, get_args

from pydantic import BaseModel

from dynamic_kafka.metadata.kubernetes_names import GROUP, VERSION
from kafkastream_operator.models import stream, subscription
from kafkastream_operator.models.crd import CATEGORY, crd

HEAD = """<!-- Generated from operator/kafkastream_operator/models by `make crds`: edit those. -->
# Custom resources

API group `{group}`, version `{version}`; everything is namespaced, and no reference leads out of its namespace. What to
do with them is in [operator.md](operator.md). Unknown fields are dropped by the API server; `kubectl
apply --validate=strict` refuses them.
"""
KINDS: tuple[tuple[ModuleType, type[BaseModel], type[BaseModel]], ...] = (
    (stream, stream.KafkaStreamSpec, stream.KafkaStreamStatus),
    (subscription, subscription.SubscriptionSpec, subscription.SubscriptionStatus),
)
_BOUNDS = (
    ("minLength", "maxLength", "characters"),
    ("minItems", "maxItems", "of them"),
    ("minProperties", "maxProperties", "keys"),
    ("minimum", "maximum", ""),
)


class Row(NamedTuple):
    """A field: `path` from the object, `[]` for each of a list."""

    path: str
    kind: str
    given: str
    bounds: str
    meaning: str


def reference() -> str:
    """The page."""
    parts = [HEAD.format(group=GROUP, version=VERSION)]
    for module, spec, status in KINDS:
        schema = crd(module, spec, status)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        parts.append(f"\n## {module.KIND}\n\n{_about(module)}\n")
        for name, model in (("spec", spec), ("status", status)):
            parts.append(f"\n### {module.KIND}: {name}\n\n{_summary(model)}\n\n")
            parts.append("| Field | Type | Required, or default | Bounds | Meaning |\n|---|---|---|---|---|\n")
            parts += [_line(row) for row in rows(model, schema["properties"][name], name)]
        parts.append(f"\n### {module.KIND}: what the API server refuses\n\n| At | Message |\n|---|---|\n")
        parts += [f"| {_shown(path)} | {_cell(text)} |\n" for path, rules in module.RULES.items() for _, text in rules]
    return "".join(parts)


def rows(model: type[BaseModel], schema: Mapping[str, Any], path: str) -> Iterator[Row]:
    """The fields of a model and of what it is made of, in order. `schema` is the model's part of the CRD."""
    meanings = attributes(model)
    for name, field in model.model_fields.items():
        alias = field.alias or name
        node = schema["properties"][alias]
        here = f"{path}.{alias}"
        if node.get("type") == "array":
            here += "[]"
        given = "required" if field.is_required() else _default(node)
        yield Row(here, _kind(node), given, _bounds(node), meanings.get(name, ""))
        part = _model_in(field.annotation)
        if part is not None:
            yield from rows(part, node.get("items", node), here)


def attributes(model: type[BaseModel]) -> dict[str, str]:
    """What a model's docstring says of its fields, by their Python names."""
    _, _, text = inspect.cleandoc(model.__doc__ or "").partition("\nAttributes:\n")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \S)", text):
        names, _, meaning = " ".join(entry.split()).partition(": ")
        found |= {name.strip(): meaning for name in names.split(",") if name.strip()}
    return found


def _about(module: ModuleType) -> str:
    about = (module.__doc__ or "").split("\n", 1)[0].removesuffix(" Pure.").partition(": ")[2]
    return f"{about[:1].upper()}{about[1:]} Short name: `{module.SHORT_NAMES[0]}`; category: `{CATEGORY}`."


def _summary(model: type[BaseModel]) -> str:
    return " ".join(inspect.cleandoc(model.__doc__ or "").partition("\n\nAttributes:")[0].split())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each)) is not None), None)


def _kind(node: Mapping[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{each}`" for each in node["enum"])
    if node.get("type") == "array":
        items = node["items"]
        return f"list of {'objects' if items.get('type') == 'object' else _kind(items) + 's'}"
    if isinstance(node.get("additionalProperties"), Mapping):
        return f"map of {_kind(node['additionalProperties'])}s"
    if node.get("format") == "date-time":
        return "moment"
    return str(node.get("type", "any"))


def _default(node: Mapping[str, Any]) -> str:
    value = node.get("default")
    if value is None or value == "":
        return "–"
    if isinstance(value, Mapping):
        return "as below"
    return f"`{value}`"


def _bounds(node: Mapping[str, Any]) -> str:
    found = [text for low, high, what in _BOUNDS if (text := _range(node.get(low), node.get(high), what))]
    if "x-kubernetes-list-map-keys" in node:
        found.append(f"one per `{node['x-kubernetes-list-map-keys'][0]}`")
    if "pattern" in node:
        found.append(f"`{node['pattern']}`")
    inner = node.get("items") or node.get("additionalProperties")
    if isinstance(inner, Mapping) and inner.get("type") != "object":
        each = _bounds(inner)
        found += [f"each: {each}"] if each != "–" else []
    return "; ".join(found) or "–"


def _range(low: int | None, high: int | None, what: str) -> str:
    words = f"{low} to {high}" if low and high else f"at most {high}" if high else f"at least {low}" if low else ""
    return f"{words} {what}".strip() if words else ""


def _shown(path: str) -> str:
    return f"`{path.replace('.items', '[]')}`" if path else "the object"


def _line(row: Row) -> str:
    return f"| `{row.path}` | {' | '.join(_cell(each) for each in row[1:])} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(file: str) -> None:
    """Write the page."""
    Path(file).write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
