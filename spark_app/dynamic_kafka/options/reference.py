"""The generated part of `docs/options.md`: one table per section of the registry. Pure."""

from __future__ import annotations

from dynamic_kafka.options.java_client import FORBIDDEN
from dynamic_kafka.options.registry import OPTIONS, SECTIONS, Option


def render_reference() -> str:
    """Markdown with every option, ending in a line break."""
    lines: list[str] = []
    for section, options in SECTIONS.items():
        lines += [f"### {section}", "", "| Option | Values | Default | What it does |", "|---|---|---|---|"]
        lines += [_row(option) for option in options]
        lines.append("")
    later = ", ".join(f"`{option.name}`" for option in OPTIONS.values() if option.status == "later")
    lines += [
        "### Known, but not in this version",
        "",
        f"Refused, so that nobody relies on them: {later}.",
        "",
    ]
    lines += [
        "### Client properties that are refused",
        "",
        "| Property | Why, or what instead |",
        "|---|---|",
    ]
    lines += [f"| `kafka.{key}` | {_cell(why)} |" for key, why in FORBIDDEN.items()]
    return "\n".join(lines) + "\n"


def _row(option: Option) -> str:
    doc = option.doc
    if option.aliases:
        doc += f" Alias: {', '.join(f'`{alias}`' for alias in option.aliases)}."
    if option.streaming_only:
        doc += " Streaming only."
    default = f"`{option.default}`" if option.default is not None else "–"
    return f"| `{option.name}` | {_cell(_values(option))} | {default} | {_cell(doc)} |"


def _values(option: Option) -> str:
    if option.values:
        return option.values
    if option.kind == "boolean":
        return "`true`, `false`"
    if option.kind == "word":
        return ", ".join(f"`{word}`" for word in option.words)
    return f"{option.kind}, at least {option.minimum}" if option.kind == "count" else option.kind


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
