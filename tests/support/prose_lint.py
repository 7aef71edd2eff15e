"""A lint of the project's English: `python -m tests.support.prose_lint [--statistics] [FILE …]`.

It checks the rules of CONTRIBUTING.md ("Plain English") that a program can check, in comments, docstrings, messages,
Markdown pages and names of tests. `make lint` calls it for all files that git tracks.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from tests.support.places import ROOT

MAX_WORDS = 35
LONG_TEST_NAME = r"test_.{56,}"
MAX_PARAGRAPH_LINES = 5

BANNED_OPENING = re.compile(r"(What|Who|Whom|Whose|Whoever|Whatever|Nobody|Of)\b(?!.*\?$)", re.DOTALL)
BANNED_WORDS = re.compile(
    r"\b(tells?|told|hears?|heard|knows|goes aside|go aside|(?:is|are|was|were) said|taken for lost)\b", re.IGNORECASE
)
IMPERATIVES = re.compile(
    r"(Add|Ask|Build|Call|Check|Close|Collect|Compare|Compute|Convert|Copy|Count|Create|Decide|Delete|Fetch|Find|Get|Give"
    r"|Keep|List|Load|Look|Make|Move|Notice|Parse|Plan|Print|Raise|Read|Refuse|Remove|Report|Resolve|Return|Run|Save|Say"
    r"|Send|Set|Show|Skip|Start|Stop|Store|Take|Turn|Use|Wait|Walk|Watch|Write|Yield) "
)
SENTENCE_END = re.compile(
    r"(?<=[.!?])\s+(?=[A-Z`*\"'(])|\n\s*\n|\n(?=\s*[-*|>#│├└])|\n(?=\s*\w[\w_]*: )|(?<=[:;])\s*\n\s*\n"
)
CELL_END = re.compile(r"(?<!\\)\|(?=\s|$)")
BANNED_IN_NAMES = frozenset(
    {"tell", "tells", "told", "hear", "hears", "heard", "said", "says", "aside", "whoever", "knows"}
)
CODE = re.compile(r"``?[^`]*``?|https?://\S+|\[[^\]]*\]\([^)]*\)")

Kind = Literal["comment", "docstring", "message", "page"]


class Text(NamedTuple):
    """One piece of prose: a comment, a docstring, a message or a paragraph of a page."""

    line: int
    kind: Kind
    text: str


class Finding(NamedTuple):
    """A rule that a text breaks."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


def sentences(text: str) -> Iterator[str]:
    """Split prose into sentences; list items, cells of tables and paragraphs end one."""
    parts = CELL_END.split(text) if text.lstrip().startswith("|") else [text]
    for sentence in (piece for part in parts for piece in SENTENCE_END.split(part)):
        plain = " ".join(sentence.split()).lstrip("-*|># ")
        if plain:
            yield plain


def words(sentence: str) -> int:
    """Return the number of words; code in back quotes counts as one."""
    return len(re.findall(r"\w[\w'’-]*", CODE.sub(" code ", sentence)))


def python_texts(source: str) -> Iterator[Text]:  # noqa: PLR0912  # three passes over one file
    """Return the comments, docstrings and messages of a Python file."""
    start = 0
    lines: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#").strip()
            alone = token.line.strip().startswith("#")
            if lines and (not alone or token.start[0] != start + len(lines)):
                yield Text(start, "comment", "\n".join(lines))
                lines = []
            if not lines:
                start = token.start[0]
            if not re.match(r"noqa|type:|pragma|!|fmt:| *--", text):
                lines.append(text)
    if lines:
        yield Text(start, "comment", "\n".join(lines))
    tree = ast.parse(source)
    doc_nodes = set()
    for node in ast.walk(tree):
        for statement in getattr(node, "body", ()) if isinstance(getattr(node, "body", ()), list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                doc_nodes.add(id(statement.value))
                if isinstance(statement.value.value, str):
                    yield Text(statement.lineno, "docstring", statement.value.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            doc_nodes |= {id(part) for part in node.values}
            yield Text(node.lineno, "message", "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in doc_nodes:
            yield Text(node.lineno, "message", node.value)


def page_texts(source: str) -> Iterator[Text]:
    """Return the paragraphs, list items and table rows of a Markdown page, without its blocks of code."""
    paragraph: list[str] = []
    start, fenced = 1, False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        ends = fence or fenced or not line.strip() or re.match(r"\s*([-*|>#]|\d+\.) ?", line) or line.startswith("    ")
        if ends and paragraph:
            yield Text(start, "page", "\n".join(paragraph))
            paragraph = []
        fenced ^= fence
        if fence or fenced or not line.strip() or (line.startswith("    ") and not paragraph):
            continue
        if not paragraph:
            start = number
        paragraph.append(line)
    if paragraph:
        yield Text(start, "page", "\n".join(paragraph))


def check_text(text: Text) -> Iterator[tuple[int, str]]:
    """Find banned openings and words, and sentences that are too long."""
    if text.kind == "message" and (" " not in text.text.strip() or "\n" in text.text.strip()):
        return
    for sentence in sentences(text.text):
        plain = CODE.sub("code", sentence)
        at = text.line + text.text[: text.text.find(sentence.split()[0])].count("\n")
        # Headings of columns and short messages are no sentences.
        short = (text.kind == "message" or text.text.lstrip().startswith("|")) and words(sentence) <= 3
        if BANNED_OPENING.match(plain) and not short:
            yield at, f"the sentence opens with {plain.split()[0]!r}: {sentence[:60]!r}"
        for banned in BANNED_WORDS.finditer(plain):
            yield at, f"say it without {banned[0]!r}: {sentence[:80]!r}"
        if text.kind != "message" and not text.text.lstrip().startswith("|") and words(sentence) > MAX_WORDS:
            yield at, f"{words(sentence)} words in one sentence: {sentence[:60]!r}"


def check_python(file: str, source: str) -> Iterator[Finding]:
    """Check one Python file."""
    in_tests = file.startswith("tests/")
    for text in python_texts(source):
        if not (in_tests and text.kind == "message"):
            yield from (Finding(file, line, problem) for line, problem in check_text(text))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and re.match(LONG_TEST_NAME, node.name):
            yield Finding(file, node.lineno, f"the test's name has {len(node.name)} characters: {node.name}")
        name = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else getattr(node, "arg", None)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        for word in BANNED_IN_NAMES.intersection((name or "").lower().split("_")):
            if not (in_tests and (name or "").startswith("test_")):
                yield Finding(file, node.lineno, f"a name without {word!r}: {name}")  # type: ignore[attr-defined]
        if isinstance(node, ast.ClassDef):
            first = ast.get_docstring(node) or ""
            if IMPERATIVES.match(first):
                yield Finding(file, node.lineno, f"a class's docstring starts with a noun: {first[:60]!r}")


def check_page(file: str, source: str) -> Iterator[Finding]:
    """Check one Markdown page."""
    for text in page_texts(source):
        yield from (Finding(file, line, problem) for line, problem in check_text(text))
        lines = text.text.count("\n") + 1
        if lines > MAX_PARAGRAPH_LINES:
            yield Finding(file, text.line, f"a paragraph of {lines} lines")


def tracked_files() -> list[str]:
    """List the Python files and Markdown pages that git tracks."""
    listing = subprocess.run(["git", "ls-files", "*.py", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [file for file in listing.stdout.split() if (ROOT / file).exists()]


def statistics(files: Iterable[str]) -> str:
    """Return a table of sentences, their length and what the rules find, by top folder."""
    rows: dict[str, list[int]] = {}
    findings: dict[str, int] = {}
    for file in files:
        source = (ROOT / file).read_text(encoding="utf-8")
        python = file.endswith(".py")
        folder = file.split("/")[0] if "/" in file else "."
        for text in python_texts(source) if python else page_texts(source):
            if text.kind != "message":
                rows.setdefault(folder, []).extend(words(sentence) for sentence in sentences(text.text))
        checked = check_python(file, source) if python else check_page(file, source)
        findings[folder] = findings.get(folder, 0) + len(list(checked))
    lines = [f"{'folder':<12}{'sentences':>10}{'mean words':>12}{'over 20':>9}{'over 35':>9}{'findings':>10}"]
    for folder, lengths in sorted(rows.items()):
        over = [sum(length > limit for length in lengths) / len(lengths) for limit in (20, MAX_WORDS)]
        mean = sum(lengths) / len(lengths)
        lines.append(f"{folder:<12}{len(lengths):>10}{mean:>12.1f}{over[0]:>9.1%}{over[1]:>9.1%}{findings[folder]:>10}")
    return "\n".join(lines)


def main() -> int:
    """Check the files that are named, or all that git tracks."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.prose_lint")
    parser.add_argument("--statistics", action="store_true", help="print a table by folder instead of findings")
    parser.add_argument("files", nargs="*", metavar="FILE", help="files or folders; default: all that git tracks")
    arguments = parser.parse_args()
    chosen = tuple(str(Path(path).resolve().relative_to(ROOT)) for path in arguments.files)
    folders = tuple(f"{path}/" for path in chosen)
    files = [path for path in tracked_files() if not chosen or path in chosen or path.startswith(folders)]
    if arguments.statistics:
        print(statistics(files))
        return 0
    findings: list[Finding] = []
    for file in files:
        source = (ROOT / file).read_text(encoding="utf-8")
        findings += check_python(file, source) if file.endswith(".py") else check_page(file, source)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings in {len(files)} files", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
