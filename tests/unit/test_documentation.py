"""The documentation is right: links have targets, metrics exist, and copied examples work."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dynamic_kafka.app.config.loading import load_config
from dynamic_kafka.app.telemetry.metrics import METRICS, PREFIX
from dynamic_kafka.driver import enumerator, observer, read_tasks, replay
from dynamic_kafka.driver.report import report_content, reporter
from dynamic_kafka.executor.reading import range_reader
from dynamic_kafka.metadata import ClusterMetadata, KafkaMetadataService, KafkaStream, discovery, document, load_class
from dynamic_kafka.metadata.document import parse_document
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning import advance, plan
from dynamic_kafka.planning.document import codec
from dynamic_kafka.spark import stream_reader
from dynamic_kafka.state import store as state_store
from kafkastream_operator.core import decide
from kafkastream_operator.core.metrics import METRICS as OPERATOR_METRICS
from kafkastream_operator.core.metrics import PREFIX as OPERATOR_PREFIX
from kafkastream_operator.core.rollout import in_force, next_step
from kafkastream_operator.handlers import apply_plan, reconcile, subscription_view, watch
from tests.support import generated_docs
from tests.support.places import ROOT

ARCHITECTURE = (ROOT / "docs" / "contributing" / "architecture.md").read_text(encoding="utf-8")
HOPS = {
    "A metadata document becomes a read task": [document, discovery, observer, plan, read_tasks, range_reader],
    "An offset reaches the checkpoint, and comes back after a crash": [
        stream_reader,
        enumerator,
        codec,
        advance,
        replay,
        state_store,
    ],
    "A KafkaStream reaches the driver, and the driver confirms it": [
        watch,
        reconcile,
        subscription_view,
        decide,
        next_step,
        apply_plan,
        reporter,
        report_content,
        in_force,
    ],
}
"""The modules that each way through the code passes, by the heading in docs/contributing/architecture.md."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def test_the_generated_tables_are_those_of_the_code() -> None:
    assert [page.name for page in generated_docs.pages()] == ["runbooks.md", "conditions.md", "exit-codes.md"]
    for page in generated_docs.pages():
        assert page.read_text(encoding="utf-8") == generated_docs.with_parts(page), "run `make docs`"


def snippets(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_has_a_target(page: Path) -> None:
    text = re.sub(r"`[^`\n]+`", "", page.read_text())  # a regular expression may look like a link
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    files = [link.partition("#")[0] for link in links if "://" not in link and not link.startswith("mailto:")]
    assert [file for file in files if file and not (page.parent / file).exists()] == []


def test_no_page_is_longer_than_25_kb() -> None:
    generated = {"reference/options.md", "reference/crds.md"}
    long = {str(page.relative_to(ROOT / "docs")) for page in PAGES[2:] if page.stat().st_size > 25_000} - generated
    assert long == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_heading_has_one(page: Path) -> None:
    for file, anchor in re.findall(r"\]\(([\w./-]*)#([\w-]+)\)", page.read_text()):
        target = page.parent / file if file else page
        headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_metric_exists(page: Path) -> None:
    exported = {PREFIX + name + ("_total" if metric.counter else "") for name, metric in METRICS.items()}
    exported |= {OPERATOR_PREFIX + name for name in OPERATOR_METRICS}
    named = set(re.findall(r"(?<![\w/.])(?:dynamic_kafka|kafkastream_operator)_\w+", page.read_text()))
    assert named <= exported


def test_every_decision_is_listed_by_its_title() -> None:
    folder = ROOT / "docs" / "contributing" / "decisions"
    index = (folder / "README.md").read_text()
    for page in sorted(folder.glob("[0-9]*.md")):
        number, _, title = page.read_text().partition("\n")[0].removeprefix("# ").partition(": ")
        assert f"- [{number}]({page.name}): {title}\n" in index


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_file_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`([\w.-]+/[\w/.-]+\.(?:py|yaml))`", page.read_text(encoding="utf-8"))
    homes = [ROOT, ROOT / "spark_app" / "dynamic_kafka", ROOT / "operator", ROOT / "examples" / "gitops" / "repository"]
    made = [file for file in named if not file.startswith(("build/", "git/"))]
    assert [file for file in made if not any((home / file).exists() for home in homes)] == []


def test_each_folder_that_the_architecture_names_exists() -> None:
    files = re.findall(r"`(?!kafkastream_operator)([\w/]+\.py)`", ARCHITECTURE)
    folders = re.findall(r"`([\w/]+/)`", ARCHITECTURE)
    homes = {"kafkastream_operator": ROOT / "operator", "tests": ROOT, "examples": ROOT, "charts": ROOT, "crds": ROOT}
    inside = ROOT / "spark_app" / "dynamic_kafka"
    assert len(files) > 30
    assert len(folders) > 15
    assert [file for file in files if not (inside / file).is_file()] == []
    assert [folder for folder in folders if not (homes.get(folder.split("/")[0], inside) / folder).is_dir()] == []


def test_the_layers_are_those_that_import_linter_checks() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = {contract["id"]: contract["layers"] for contract in contracts if contract["type"] == "layers"}
    block = snippet_of_layers()
    assert block["dynamic_kafka"] == [re.findall(r"\w+", layer) for layer in layers["layers"]]
    assert block["kafkastream_operator"] == [re.findall(r"\w+", layer) for layer in layers["operator-layers"]]


def snippet_of_layers() -> dict[str, list[list[str]]]:
    """Return the modules of each line of the two columns in CONTRIBUTING.md, by the columns' headings."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    heading, *lines = re.findall(r"^ {4}(.*)$", text.partition("\n## Layers\n")[2].partition("\n## ")[0], re.MULTILINE)
    second = heading.rindex(" ") + 1
    columns = {heading.split()[0]: slice(0, second), heading.split()[1]: slice(second, None)}
    return {
        name: [re.split(r" {3}", line[part].strip())[0].split() for line in lines if line[part].strip()]
        for name, part in columns.items()
    }


@pytest.mark.parametrize(("heading", "modules"), HOPS.items(), ids=["document", "offset", "stream"])
def test_the_architecture_names_each_hop(heading: str, modules: list[ModuleType]) -> None:
    steps = ARCHITECTURE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    files = [module.__name__.removeprefix("dynamic_kafka.").replace(".", "/") + ".py" for module in modules]
    assert [file for file in files if f"`{file}`" not in steps] == []


def test_the_metadata_documents_are_valid() -> None:
    for page in ("README.md", "docs/reference/metadata.md", "docs/how-to/migrating.md"):
        texts = snippets(page, "yaml")
        assert texts
        for text in texts:
            assert parse_document(text, source=page).streams


def test_the_app_yaml_of_the_documentation_is_valid(tmp_path: Path) -> None:
    (text,) = snippets("docs/how-to/application.md", "yaml")
    (tmp_path / "app.yaml").write_text(text)
    assert [sink.name for sink in load_config(tmp_path / "app.yaml").sinks] == ["lake"]


def test_the_python_snippets_compile() -> None:
    for page in PAGES:
        name = str(page.relative_to(ROOT))
        for text in snippets(name, "python"):
            compile(text, name, "exec")


def test_the_documented_metadata_service_works_when_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = snippets("docs/reference/metadata.md", "python")
    (tmp_path / "copied_service.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    made: Any = load_class("copied_service:FromRegistry", KafkaMetadataService)
    service = made({"streamids": "orders"})
    orders = KafkaStream("orders", {"east": ClusterMetadata(("orders",), {"bootstrap.servers": "e1:9092"})})
    assert service.get_all_streams() == [orders]
    assert service.describe_streams(["orders", "gone"]) == {"orders": orders}
    assert service.is_cluster_active("east")
    assert not service.is_cluster_active("west")
    service.close()


def test_the_readme_job_reads_a_document_of_the_readme() -> None:
    (document,) = snippets("README.md", "yaml")
    (job,) = snippets("README.md", "python")
    options = dict(re.findall(r'\.option\("(\w+)", "([^"]+)"\)', job))
    assert options["streamIds"] in parse_document(document, source="README.md").streams


def test_the_readme_job_survives_a_cluster_that_is_down() -> None:
    (job,) = snippets("README.md", "python")
    given = {"streamids": "orders", "metadatapath": "x"}
    given |= {name.lower(): value for name, value in re.findall(r'\.option\("(\w+)", "([^"]+)"\)', job)}
    options = parse_options(
        {name: given[name] for name in given if name not in ("path", "checkpointlocation")}, mode="streaming"
    )
    assert options.state_location is not None
    assert options.cluster_failure_policy == "stall"
