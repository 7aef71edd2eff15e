"""The page `build/bench/reader.html`: bars for all variants of each case, and the ratios. It needs no other file.

The style is the demo's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from tests.bench.reader.figures import GOALS, PEAK, PEAK_GOAL_MB, RATIOS, all_ratios
from tests.support.places import ROOT

LABELS = {
    "jvm_default": "Spark's source, defaults",
    "jvm_tuned": "Spark's source, tuned",
    "native": "ours, native",
    "python": "ours, in Python",
    "native_evaluator": "native, evaluator",
    "python_evaluator": "in Python, evaluator",
    "librdkafka": "librdkafka alone",
}
MEASURES = {
    "rows_per_s": ("rows a second", "longer is better", 1e-6, "M"),
    "cpu_us_per_row": ("CPU for a row", "shorter is better", 1.0, "µs"),
}
STYLE = """<style>
.bars { display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: 6px 34px }
.bars h3 { margin: 0 0 4px; font-size: 13px; font-weight: 500; color: var(--soft) }
.bar { display: grid; grid-template-columns: 168px 1fr 74px; gap: 10px; align-items: center; height: 26px }
.bar { font-size: 13px }
.bar b { text-align: right; font-variant-numeric: tabular-nums }
.track { position: relative; height: 15px }
.track i { position: absolute; inset: 0 auto 0 0; border-radius: 3px; background: var(--soft); opacity: .45 }
.ours .track i { background: var(--accent); opacity: 1 } .limit .track i { background: var(--b); opacity: .6 }
.track u { position: absolute; top: 6px; height: 3px; background: var(--ink); opacity: .65; min-width: 2px }
.chips { display: flex; flex-wrap: wrap; gap: 6px 10px; margin-bottom: 10px; font-size: 13px }
.chip { border: 1px solid var(--line); border-radius: 8px; padding: 2px 9px; font-variant-numeric: tabular-nums }
.chip b { margin-left: 5px } .chip.yes b { color: var(--good) } .chip.no b { color: var(--bad) }
header p { font-size: 14px }
</style>"""


def render(result: Mapping[str, Any], problems: list[str], *, progress: str = "") -> str:
    """Return the page as text.

    Args:
        problems: how the result falls behind the recorded one.
        progress: while the benchmark runs, how far it is; the page then loads itself again.
    """
    about = result["about"]
    machine = about["machine"]
    title = "A figure has fallen" if problems else "Reading, against Spark's own source"
    again = '<meta http-equiv="refresh" content="5">' if progress else ""
    lead = f"{machine['cores']} cores of {machine['cpu']}, {about['at']}, load {about['loadBefore']:g} before the run"
    fallen = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    notes = "".join(f"<li>{escape(reason)}</li>" for reason in about["leftOut"])
    cases = "".join(_case(name, case) for name, case in result.items() if isinstance(case, dict) and "variants" in case)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">{again}
<title>{title}</title>
{_demo_style()}
{STYLE}
<main>
<header class="{"wrong" if problems else "right"}"><h1>{escape(progress) or title}</h1><p>{escape(lead)}</p>
<ul>{fallen}</ul></header>
<div class="tiles">{_tiles(result)}</div>
{cases}
{_others(result)}
<footer><p>A bar is the median of the rounds, a line on it the least and the most. A ratio is above 1 if ours is better,
and green if it meets its goal. CPU is that of all processes but the broker.</p><ul>{notes}</ul></footer>
</main>
</html>
"""


def _demo_style() -> str:
    text = (ROOT / "examples" / "demo" / "page.html").read_text()
    style = re.search(r"<style>.*?</style>", text, re.DOTALL)
    assert style is not None
    return style[0]


def _tiles(result: Mapping[str, Any]) -> str:
    ratios = all_ratios(result)
    tiles = [
        (name, f"{ratios[name]:.2f}", ratios[name] >= goal, f"≥ {goal:g}")
        for name, goal in GOALS.items()
        if name in ratios
    ]
    if PEAK in result:
        peak = result[PEAK]
        tiles.append((PEAK, f"{peak:.0f} MB", peak <= PEAK_GOAL_MB, f"≤ {PEAK_GOAL_MB}"))
    return "".join(
        f'<div class="tile{"" if met else " wrong"}"><b>{value}</b>'
        f"<span>{escape(name.replace('.', ' ').replace('_', ' '))}, goal {goal}</span></div>"
        for name, value, met, goal in tiles
    )


def _case(name: str, case: Mapping[str, Any]) -> str:
    topic = case["topic"]
    packed = "" if topic["compression"] == "none" else f", {topic['compression']}"
    about = f"{topic['records']:,} records of {topic['size']:,} bytes{packed}; rounds: {case['rounds']}"
    chips = "".join(_chip(name, ratio, case) for ratio in RATIOS if ratio in case)
    charts = "".join(_chart(case["variants"], measure) for measure in MEASURES)
    return (
        f'<section id="{name}"><h2>{escape(name.replace("_", " "))}<small>{about}</small></h2>'
        f'<div class="chips">{chips}</div><div class="bars">{charts}</div></section>'
    )


def _chip(name: str, ratio: str, case: Mapping[str, Any]) -> str:
    goal, (least, most) = GOALS.get(f"{name}.{ratio}"), case["spread"][ratio]
    state = "" if goal is None else " yes" if case[ratio] >= goal else " no"
    wanted = "" if goal is None else f", goal {goal:g}"
    return (
        f'<span class="chip{state}" title="{least:.2f} to {most:.2f}{wanted}">{ratio.replace("_", " ")}'
        f"<b>{case[ratio]:.2f}</b></span>"
    )


def _chart(variants: Mapping[str, Any], measure: str) -> str:
    title, better, factor, unit = MEASURES[measure]
    most = max(variant[measure]["max"] for variant in variants.values()) or 1
    rows = []
    for name in sorted(variants, key=list(LABELS).index):
        measured = variants[name][measure]
        left, width = (100 * value / most for value in (measured["min"], measured["max"] - measured["min"]))
        kind = "limit" if name == "librdkafka" else "theirs" if name.startswith("jvm") else "ours"
        rows.append(
            f'<div class="bar {kind}"><span>{LABELS[name]}</span><span class="track">'
            f'<i style="width:{100 * measured["median"] / most:.1f}%"></i>'
            f'<u style="left:{left:.1f}%;width:{width:.1f}%"></u></span>'
            f"<b>{measured['median'] * factor:.2f} {unit}</b></div>"
        )
    return f"<div><h3>{title} ({better})</h3>{''.join(rows)}</div>"


def _others(result: Mapping[str, Any]) -> str:
    rows = [
        (
            f"latency at a trigger of 300 ms, {LABELS[name]}",
            f"p50 {measured['p50_ms']:.0f} ms, p99 {measured['p99_ms']:.0f} ms",
        )
        for name, measured in result.get("latency", {}).items()
    ]
    rows += [
        (f"2,000 partitions without news, {LABELS[name]}", f"{measured['median'] * 1000:.0f} ms of CPU a second")
        for name, measured in result.get("idle", {}).items()
    ]
    rows += [
        (f"a worker, {measured['bytes_each']:,} bytes a record", f"peak {measured['peak_mb']:.0f} MB")
        for measured in result.get("memory", ())
    ]
    body = "".join(f"<tr><td>{escape(what)}</td><td>{escape(value)}</td></tr>" for what, value in rows)
    title = "<h2>Latency, an idle query, memory<small>medians over all rounds</small></h2>"
    return f"<section>{title}<table><tbody>{body}</tbody></table></section>" if rows else ""
