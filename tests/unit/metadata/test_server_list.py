"""Lists of servers that may get a secret: which texts are lists, and which servers they name."""

from __future__ import annotations

import pytest

from dynamic_kafka.metadata.server_list import check_server_list, foreign_servers


@pytest.mark.parametrize(
    ("servers", "allowed"),
    [
        ("e1:9092", "e1:9092"),
        ("E1.Example:9092", "e1.example:9092"),
        ("e1:9092,e2:9092", " e2:9092 , e1:9092"),
        ("[::1]:9092", "[0:0:0:0:0:0:0:1]:9092"),
        ("[FE80::A]:9092", "[fe80::a]:9092"),
        ("e1:09092", "e1:9092"),
        ("anything:1", "*"),
    ],
)
def test_a_server_is_named_however_it_is_written(servers: str, allowed: str) -> None:
    assert foreign_servers(servers, allowed) == []


@pytest.mark.parametrize(
    "server",
    [
        "evil:9092",
        "e1:9093",
        "e1",
        "e1.:9092",
        "xe1:9092",
        "e1:9092.evil:9092",
        "SASL_PLAINTEXT://e1:9092",
        "user@e1:9092",
        "e1:9092 evil:9092",
        "\u212a1:9092",  # the Kelvin sign, whose lower case is `k`
    ],
)
def test_another_server_is_foreign(server: str) -> None:
    assert foreign_servers(f"e1:9092,{server}", "e1:9092,k1:9092") == [server]


def test_an_empty_list_names_nobody() -> None:
    assert foreign_servers("e1:9092", "") == ["e1:9092"]


@pytest.mark.parametrize("text", ["e1:9092", "e1:9092, [::1]:9093", "*", " * "])
def test_a_list_has_hosts_with_ports_or_is_a_star(text: str) -> None:
    check_server_list(text)


@pytest.mark.parametrize("text", ["e1", "e1:9092,", "*:9092", "*,e1:9092", "*.example:9092", "e1:0", "u:p@e1:9092", ""])
def test_any_other_text_is_no_list(text: str) -> None:
    with pytest.raises(ValueError):
        check_server_list(text)
