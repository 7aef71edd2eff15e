from __future__ import annotations

import json

import pytest

from dynamic_kafka.errors import MetadataInvalidError
from dynamic_kafka.metadata import document_hash, parse_document

LIST_FORM = """\
- streamId: orders
  clusterMetadataList:
    - clusterId: east
      bootstrapServers: e1:9092
      topics: [orders]
      properties: {client.id: me}
      startingOffsets: earliest
      stoppingOffsets: latest
      renamedFrom: us-east
"""

MAPPING_FORM = """\
lineage: 6f1c
revision: 17
hash: sha256:0000
minReader: 1
streams:
  orders:
    clusters:
      east:
        bootstrapServers: e1:9092
        topics: [orders]
        properties: {client.id: me}
        startingOffsets: earliest
        stoppingOffsets: latest
        renamedFrom: us-east
        secretFolder: east
        state: Active
"""

BY_HAND = MAPPING_FORM.replace("hash: sha256:0000\n", "")
RENDERED = "contract: 1\nsomething: newer\n" + MAPPING_FORM


def refused(text: str) -> tuple[str, ...]:
    with pytest.raises(MetadataInvalidError) as caught:
        parse_document(text, source="streams.yaml")
    assert all(problem in str(caught.value) for problem in caught.value.problems)
    return caught.value.problems


def the_one(text: str) -> str:
    problems = refused(text)
    assert len(problems) == 1, problems
    return problems[0]


def with_typo(text: str, field: str) -> tuple[str, str, int]:
    """`text` with two letters of `field`'s name swapped, the misspelt name, and its line."""
    wrong = field[:2] + field[3] + field[2] + field[4:]
    if wrong == field:
        wrong = field[:-1]
    line = next(n for n, text_line in enumerate(text.splitlines(), 1) if f"{field}:" in text_line)
    return text.replace(f"{field}:", f"{wrong}:", 1), wrong, line


LIST_FIELDS = [
    "streamId",
    "clusterMetadataList",
    "clusterId",
    "bootstrapServers",
    "topics",
    "properties",
    "startingOffsets",
    "stoppingOffsets",
    "renamedFrom",
]


@pytest.mark.parametrize("field", LIST_FIELDS)
def test_a_typo_in_a_field_of_the_list_form_has_its_line(field: str) -> None:
    text, wrong, line = with_typo(LIST_FORM, field)

    problem = the_one(text)

    assert problem.startswith(f"streams.yaml:{line}: ")
    assert f".{wrong}: unknown field; did you mean {field!r}?" in problem


MAPPING_FIELDS = [
    "lineage",
    "revision",
    "hash",
    "minReader",
    "streams",
    "clusters",
    "bootstrapServers",
    "topics",
    "properties",
    "startingOffsets",
    "stoppingOffsets",
    "renamedFrom",
    "secretFolder",
    "state",
]


@pytest.mark.parametrize("field", MAPPING_FIELDS)
def test_a_typo_in_a_field_of_the_mapping_form_has_its_line(field: str) -> None:
    sound = MAPPING_FORM if field == "hash" else MAPPING_FORM.replace("hash: sha256:0000\n", "")
    text, wrong, line = with_typo(sound, field)

    problem = the_one(text)

    assert problem.startswith(f"streams.yaml:{line}: ")
    assert f"{wrong}: unknown field; did you mean {field!r}?" in problem


@pytest.mark.parametrize("field", ["streamId", "clusterMetadataList", "bootstrapServers", "topics"])
def test_a_missing_required_field_is_reported(field: str) -> None:
    lines = LIST_FORM.splitlines()
    n = next(n for n, line in enumerate(lines) if f"{field}:" in line)
    lines[n] = lines[n].replace(f"{field}:", "#")
    if field == "clusterMetadataList":
        del lines[2:]
    if field == "streamId":
        lines[0:2] = ["- clusterMetadataList:"]

    assert f".{field}: is missing" in the_one("\n".join(lines))


def test_all_problems_are_reported_in_the_order_of_lines() -> None:
    text = LIST_FORM.replace("e1:9092", "e1").replace("[orders]", "[orders, 'a b']").replace("client.id", "clinet.id")
    text += "      secretRef: x\n"

    problems = refused(text)

    assert [problem.split(":")[1] for problem in problems] == ["4", "5", "6", "10"]
    assert "'e1' is not `host:port`" in problems[0]
    assert "topics[1]: 'a b' is no topic name" in problems[1]
    assert "did you mean 'client.id'" in problems[2]
    assert "`secretRef` and writes `secretFolder`" in problems[3]


@pytest.mark.parametrize(
    ("wrong", "line", "reason"),
    [
        (LIST_FORM.replace("[orders]", "[]"), 5, "topics: must not be empty"),
        (LIST_FORM.replace("[orders]", "[orders, orders]"), 5, "'orders' is listed twice"),
        (LIST_FORM.replace("[orders]", "orders"), 5, "topics: must be a list"),
        (LIST_FORM.replace("[orders]", "[17]"), 5, "must be a string; put the value in quotes"),
        (LIST_FORM.replace("[orders]", ""), 5, "topics: must be a list"),
        (LIST_FORM.replace("clusterId: east", "clusterId: 'ea st'"), 3, "a cluster id has 1 to 253"),
        (LIST_FORM.replace("clusterId: east", "clusterId: 'ea]st'"), 3, "a cluster id has 1 to 253"),
        (LIST_FORM.replace("clusterId: east", "clusterId: ''"), 3, "a cluster id has 1 to 253"),
        (LIST_FORM.replace("streamId: orders", "streamId: ' x'"), 1, "a stream id has"),
        (LIST_FORM.replace("e1:9092", "e1:99999"), 4, "is not `host:port`"),
        (LIST_FORM.replace("e1:9092", "e1:9092,"), 4, "is not `host:port`"),
        (LIST_FORM.replace("renamedFrom: us-east", "renamedFrom: east"), 9, "names the cluster itself"),
        (LIST_FORM.replace("renamedFrom: us-east", "renamedFrom:"), 9, "has no value"),
        (LIST_FORM.replace(": earliest", ": soonest"), 7, "must be earliest, latest, committed,"),
        (LIST_FORM.replace(": earliest", ": {}"), 7, "must be earliest, latest, committed,"),
        (LIST_FORM.replace(": earliest", ": {timestamp: 2026-11-01T00:00:00}"), 7, "has no zone"),
        (LIST_FORM.replace(": earliest", ": {timestamp: yesterday}"), 7, "or ISO 8601 with a zone"),
        (LIST_FORM.replace(": earliest", ": {timestamp: -5}"), 7, "before 1970"),
        (LIST_FORM.replace(": earliest", ": {payments: {0: 1}}"), 7, "not among this cluster's topics"),
        (LIST_FORM.replace(": earliest", ": {orders: {x: 1}}"), 7, "is no partition number"),
        (LIST_FORM.replace(": earliest", ": {orders: {0: -3}}"), 7, "whole number from 0, or -2 (earliest)"),
        (LIST_FORM.replace(": latest", ": earliest"), 8, "must be latest, committed, {\"timestamp"),
        (LIST_FORM.replace(": latest", ": {orders: {0: -2}}"), 8, "whole number from 0, or -1 (latest)"),
        (LIST_FORM.replace("{client.id: me}", "{client.id: }"), 6, "must be a string"),
        (LIST_FORM.replace("{client.id: me}", "[a]"), 6, "must be a mapping"),
        (LIST_FORM.replace("renamedFrom: us-east", "secretFolder: x"), 9, "write the mapping form"),
        (MAPPING_FORM.replace("secretFolder: east", "secretFolder: a/b"), 15, "plain name of a folder"),
        (MAPPING_FORM.replace("secretFolder: east", "secretFolder: .."), 15, "plain name of a folder"),
        (MAPPING_FORM.replace("state: Active", "state: Gone"), 16, "must be 'Active', 'Announced' or 'Draining'"),
        (LIST_FORM.replace("renamedFrom: us-east", "state: Draining"), 9, "mapping form has the state Draining"),
        (LIST_FORM.replace("renamedFrom: us-east", "drainingTopics: [orders]"), 9, "only the operator's document has"),
        (LIST_FORM + "  subscription: uid\n", 10, "only the operator's document names a `subscription`"),
        (BY_HAND + "        drainingTopics: [orders]\n", 16, "only the operator's document has `drainingTopics`"),
        (BY_HAND + "subscription: uid\n", 16, "only the operator's document names a `subscription`"),
        (RENDERED.replace("[orders]", "[orders]\n        drainingTopics: [ordres]"), 13,
         "drainingTopics[0]: 'ordres' is not among this cluster's topics"),
        (RENDERED.replace("[orders]", "[orders]\n        drainingTopics: [orders, orders]"), 13, "is listed twice"),
        (RENDERED.replace("[orders]", "[orders]\n        drainingTopics: orders"), 13, "must be a list"),
        (RENDERED + "subscription: 17\n", 19, "subscription: must be a string"),
        (MAPPING_FORM.replace("revision: 17", "revision: many"), 2, "revision: must be a whole number"),
        (MAPPING_FORM.replace("revision: 17", "revision: -1"), 2, "revision: must be at least 0"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_line_and_field(wrong: str, line: int, reason: str) -> None:
    problem = the_one(wrong)
    assert problem.startswith(f"streams.yaml:{line}: "), problem
    assert reason in problem


def test_a_duplicate_stream_id_is_refused_with_both_lines() -> None:
    problem = the_one(LIST_FORM + LIST_FORM)
    assert problem.startswith("streams.yaml:10: [1].streamId: ")
    assert "'orders' occurs twice, first on line 1" in problem


def test_a_duplicate_stream_id_in_json_is_refused() -> None:
    one = {"streamId": "s", "clusterMetadataList": [{"bootstrapServers": "e:1", "topics": ["t"]}]}
    assert "'s' occurs twice, first on line 3" in the_one(json.dumps([one, one], indent=0))


def test_a_duplicate_cluster_id_is_refused_with_both_lines() -> None:
    text = LIST_FORM + "    - {clusterId: east, bootstrapServers: 'e1:9092', topics: [more]}\n"
    problem = the_one(text)
    assert problem.startswith("streams.yaml:10: [0].clusterMetadataList[1]: ")
    assert "first on line 3; merge their topics" in problem


def test_two_clusters_cannot_be_renamed_from_one() -> None:
    text = LIST_FORM + "    - {clusterId: e2, bootstrapServers: 'e2:1', topics: [t], renamedFrom: us-east}\n"
    assert "'east' was renamed from 'us-east'" in the_one(text)


@pytest.mark.parametrize(
    ("wrong", "token"),
    [
        (MAPPING_FORM.replace("state: Active", "state: Gone"), "6f1c/17"),
        (MAPPING_FORM.replace("minReader: 1", "minReader: 99"), "6f1c/17"),
        (MAPPING_FORM, "6f1c/17"),
        (MAPPING_FORM.replace("revision: 17", "revision: many"), ""),
        (MAPPING_FORM.replace("lineage: 6f1c", "lineage:"), ""),
        (LIST_FORM.replace("topics", "topicz"), ""),
        (MAPPING_FORM[:60], ""),
    ],
    ids=["a wrong value", "a newer reader", "another hash", "no counter", "no lineage", "a list", "half-written"],
)
def test_a_refused_document_has_the_revision_that_it_claims(wrong: str, token: str) -> None:
    with pytest.raises(MetadataInvalidError) as caught:
        parse_document(wrong, source="f")
    assert caught.value.token == token


def test_a_duplicate_yaml_key_is_refused_with_both_lines() -> None:
    problem = the_one(LIST_FORM + "      topics: [more]\n")
    assert problem.startswith("streams.yaml:10: [0].clusterMetadataList[0].topics: ")
    assert "duplicate key, first on line 5" in problem


def test_a_duplicate_json_key_names_both_lines() -> None:
    text = "".join(refused('{\n"lineage": "a",\n"lineage": "b",\n"streams": {}}'))
    assert "streams.yaml:3: lineage: duplicate key" in text
    assert "first on line 2" in text


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "the document is empty"),
        ("\n# only a comment\n", 1, "the document is empty"),
        ("---\n", 2, "the document is empty"),
        ("orders", 1, "is no list or mapping"),
        ("17", 1, "is no list or mapping"),
        ("streamId: orders\nclusterMetadataList: []\n", 1, "a single stream is still a list"),
        (LIST_FORM + "---\n" + LIST_FORM, 10, "a second YAML document starts here"),
        (LIST_FORM.replace("      topics", "     topics"), 5, "not valid YAML"),
        (LIST_FORM.replace("      topics", "\ttopics"), 5, "not valid YAML"),
        (LIST_FORM.replace("[orders]", "[orders"), 6, "not valid YAML"),
        (LIST_FORM.replace("me}", "'me}"), 6, "not valid YAML"),
        (LIST_FORM.replace("east", "ea\x07st", 1), 3, "not valid YAML"),
        ('{"streams": {"a": ', 2, "not valid YAML"),
        ("- !!python/object/apply:os.system [id]", 1, "a tag (!…) is not allowed"),
        ("- &a [*a]", 1, "an alias (*…) names nothing that was defined before it"),
        ("- <<: 5", 1, "the value of << is a mapping, or a list of mappings"),
        ("- a: 1\n  <<:\n    - {b: 1}\n    - c", 3, "the value of << is a mapping, or a list of mappings"),
        ("[" * 100_000, 1, "nested more than 32 levels deep"),
        ("? [a]\n: b", 1, "cannot be a key"),
    ],
)
def test_a_text_that_is_no_document_is_refused_with_its_line(text: str, line: int, reason: str) -> None:
    problem = the_one(text)
    assert problem.startswith(f"streams.yaml:{line}: "), problem
    assert reason in problem


def test_a_rendered_document_cut_off_anywhere_is_refused() -> None:
    streams = {f"s{n}": {"clusters": {"e": {"bootstrapServers": "e:1", "topics": ["t"]}}} for n in range(3)}
    lines = [f"contract: 1\nrevision: 4\nhash: {document_hash(streams)}\nstreams:\n"]
    for name in streams:
        lines.append(f"  {name}:\n    clusters:\n      e:\n        bootstrapServers: e:1\n        topics: [t]\n")
    whole = "".join(lines)
    assert len(parse_document(whole, source="f").streams) == 3

    for length in range(len(whole) - 2):
        refused(whole[:length])


def test_aliases_cannot_stand_for_billions_of_values() -> None:
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert "values, aliases counted" in the_one("\n".join(lines))


def test_thousands_of_problems_are_cut_to_fifty() -> None:
    problems = refused("[" + "x, " * 5000 + "]")
    assert len(problems) == 51
    assert problems[-1] == "streams.yaml: and 4950 more problems"


def test_no_value_that_may_be_secret_is_ever_shown() -> None:
    text = LIST_FORM.replace("{client.id: me}", "{sasl.password: hunter2, sasl.jaas.config: hunter2, passwrd: hunter2}")
    text += "      secretFolder: hunter2/\n      secretRef: {password: hunter2}\n      password: hunter2\n"
    assert "hunter2" not in "\n".join(refused(text))


@pytest.mark.parametrize("value", ["*hunter2", "!hunter2", "!hunter2 {}", "&x *hunter2"])
def test_an_unquoted_password_is_not_shown(value: str) -> None:
    reason = "\n".join(refused(LIST_FORM.replace("{client.id: me}", f"{{sasl.password: {value}}}")))
    assert "hunter2" not in reason


def test_credentials_in_servers_are_not_shown() -> None:
    reason = "\n".join(refused(LIST_FORM.replace("e1:9092", "me:hunt,er2@e1:9092")))
    assert "hunt" not in reason
    assert "without an `@`" in reason


def test_an_unclosed_quote_is_reported_where_it_opens() -> None:
    text = LIST_FORM.replace("clusterId: east", 'clusterId: "east') + LIST_FORM.replace("orders", "bills")
    assert the_one(text).startswith("streams.yaml:3: ")


def test_an_app_yaml_in_the_place_of_a_document_is_named() -> None:
    text = "name: shop\nmetadata: streams.yaml\ncheckpoint: /c\nsinks: [{name: out, type: console}]\n"
    assert "looks like an app.yaml" in the_one(text)
