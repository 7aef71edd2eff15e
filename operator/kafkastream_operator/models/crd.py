"""From the models to `crds/*.yaml`: structural schemas with list-maps and CEL rules. Pure but for `main`.

python -m kafkastream_operator.models.crd FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from pydantic import BaseModel

from dynamic_kafka.metadata.kubernetes_names import GROUP, VERSION
from kafkastream_operator.models import stream, subscription

_KEPT = (
    "type", "format", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems", "maxProperties", "minimum",
    "maximum", "default", "description", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-map-type",
)  # fmt: skip
INT_MAX = 2**63 - 1
CATEGORY = "dynamic-kafka"
"""For both kinds. The name of neither: `kubectl delete` of one would take the other along."""


def crd(module: ModuleType, spec: type[BaseModel], status: type[BaseModel]) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind.

    `module` has its PLURAL, SINGULAR, KIND, SHORT_NAMES, COLUMNS, LIST_KEYS and RULES.
    """
    schema = {
        "type": "object",
        "description": (module.__doc__ or "").split("\n", 1)[0].removesuffix(" Pure."),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": _structural(spec.model_json_schema(by_alias=True)),
            "status": _structural(status.model_json_schema(by_alias=True)),
        },
    }
    for path, key in module.LIST_KEYS.items():
        at = _at(schema, path)
        at["x-kubernetes-list-type"], at["x-kubernetes-list-map-keys"] = "map", [key]
    for path, rules in module.RULES.items():
        _at(schema, path)["x-kubernetes-validations"] = [{"rule": rule, "message": text} for rule, text in rules]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{module.PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": module.PLURAL,
                "singular": module.SINGULAR,
                "kind": module.KIND,
                "shortNames": list(module.SHORT_NAMES),
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [dict(each) for each in module.COLUMNS],
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def crds() -> Mapping[str, dict[str, Any]]:
    """All of them, by file name."""
    return {
        "kafkastreams.yaml": crd(stream, stream.KafkaStreamSpec, stream.KafkaStreamStatus),
        "kafkastreamsubscriptions.yaml": crd(
            subscription, subscription.SubscriptionSpec, subscription.SubscriptionStatus
        ),
    }


def text(content: Mapping[str, Any]) -> str:
    """The file."""
    head = "# Generated from operator/kafkastream_operator/models by `make crds`: edit those.\n"
    return head + yaml.safe_dump(dict(content), sort_keys=False, width=110, allow_unicode=True)


def _structural(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """pydantic's schema as Kubernetes wants it: no references, no unions with null, no titles."""
    known = definitions if definitions is not None else schema.get("$defs", {})
    if "$ref" in schema:
        merged = {**known[schema["$ref"].rsplit("/", 1)[1]], **{k: v for k, v in schema.items() if k != "$ref"}}
        return _structural(merged, known)
    if "anyOf" in schema:
        (some,) = [each for each in schema["anyOf"] if each.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        return _structural({**some, **rest}, known)
    found = {key: value for key, value in schema.items() if key in _KEPT and value is not None}
    if "const" in schema:
        found["type"], found["enum"] = "string", [schema["const"]]
    if found.get("default") in ([], {}):
        del found["default"]  # absent says the same, and nothing is written into users' objects
    if "description" in found:
        found["description"] = " ".join(str(found["description"]).split("\n\nAttributes:")[0].split())
    if "properties" in schema:
        found["properties"] = {name: _structural(each, known) for name, each in schema["properties"].items()}
        if schema.get("required"):
            found["required"] = list(schema["required"])
    if "items" in schema:
        found["items"] = _structural(schema["items"], known)
    values = schema.get("additionalProperties")
    if isinstance(values, Mapping):
        found["additionalProperties"] = _structural(values, known)
    if found.get("type") == "integer":
        found["format"] = "int64"
    return found


def _at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    for step in path.split(".") if path else ():
        schema = schema["items"] if step == "items" else schema["properties"][step]
    return schema


def main(folder: str) -> None:
    """Write the files."""
    for name, content in crds().items():
        Path(folder, name).write_text(text(content), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
