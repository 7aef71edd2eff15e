"""Secrets by reference and by folder: resolved, read again after a rotation, and never shown."""

from __future__ import annotations

import builtins
import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from dynamic_kafka.errors import SecretError
from dynamic_kafka.kafka.secrets import parse_properties, read_secret_folder, resolve

SECRET = "hunter2"


def refusal_of(value: str) -> str:
    with pytest.raises(SecretError) as refused:
        resolve({"sasl.password": value}, cluster="east")
    assert_hidden(refused.value)
    return str(refused.value)


def assert_hidden(error: BaseException | None) -> None:
    """Check that neither the shown error nor any error behind it holds the secret."""
    assert SECRET not in "".join(traceback.format_exception(error))
    while error is not None:
        assert SECRET not in repr(vars(error)) + repr(error.args)
        error = error.__cause__ or error.__context__


def folder(tmp_path: Path, files: dict[str, str]) -> Path:
    path = tmp_path / "east"
    path.mkdir()
    for name, content in files.items():
        (path / name).write_text(content)
    return path


class Kubelet:
    """A kubelet that mounts a Secret: files are links through `..data`, which is swapped as a whole."""

    def __init__(self, path: Path) -> None:
        self.path, self.edition = path, 0
        path.mkdir()

    def mount(self, files: dict[str, str]) -> None:
        self.edition += 1
        real = self.path / f"..2026_11_0{self.edition}"
        real.mkdir()
        for name, content in files.items():
            (real / name).write_text(content)
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")
        (self.path / "..data_tmp").symlink_to(real.name)
        os.replace(self.path / "..data_tmp", self.path / "..data")


def test_each_form_of_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.properties").write_text("user = alice\npw=a=b\\\n  c\n")
    (tmp_path / "token").write_text("t\n\n")
    monkeypatch.setenv("POD", "p-1")
    given = {
        "a": f"${{file:{tmp_path}/s.properties:pw}}",
        "b": f"${{dir:{tmp_path}:token}}",
        "c": f"x-${{env:POD}}-${{file:{tmp_path}/s.properties:user}}",
        "d": "plain",
    }
    assert resolve(given, cluster="east") == {"a": "a=bc", "b": "t\n", "c": "x-p-1-alice", "d": "plain"}


def test_a_reference_in_a_secret_is_not_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "${env:INNER}")
    assert resolve({"a": "${env:OUTER}"}, cluster="east") == {"a": "${env:INNER}"}


def test_a_rotated_file_is_read_at_the_next_use(tmp_path: Path) -> None:
    mounted = Kubelet(tmp_path / "s")
    mounted.mount({"pw": "one"})
    reference = {"sasl.password": f"${{dir:{tmp_path}/s:pw}}"}
    assert resolve(reference, cluster="east") == {"sasl.password": "one"}
    mounted.mount({"pw": "two"})
    assert resolve(reference, cluster="east") == {"sasl.password": "two"}


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pw").write_text("one")
    reference = {"a": f"${{dir:{tmp_path}:pw}}"}
    resolve(reference, cluster="east")

    def opened(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr("builtins.open", opened)
    assert resolve(reference, cluster="east") == {"a": "one"}


def test_an_error_names_the_reference_and_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "s").write_text(f"pw={SECRET}\n")
    reference = f"${{file:{tmp_path}/s:other}}"
    message = refusal_of(reference)
    assert message.startswith(f"cluster 'east': property 'sasl.password': {reference}:")
    assert "no such key" in message
    assert "be read (No such file or directory)" in refusal_of("${dir:/nowhere:pw}")
    assert "no such variable" in refusal_of("${env:DYNAMIC_KAFKA_NOT_SET}")


def test_no_error_shows_the_content_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(SECRET.encode() + b"\xff")
    assert "is not UTF-8 text" in refusal_of(f"${{dir:{tmp_path}:binary}}")
    assert "not a reference" in refusal_of("${vault:" + SECRET + "}")


@pytest.mark.parametrize("key", ["../pw", "a/b", "..", "."])
def test_the_key_of_a_folder_stays_in_the_folder(tmp_path: Path, key: str) -> None:
    assert "bare name of a file" in refusal_of(f"${{dir:{tmp_path}:{key}}}")


def test_a_pipe_or_a_large_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not a file" in refusal_of(f"${{dir:{tmp_path}:pipe}}")
    assert "is not a file" in refusal_of(f"${{file:{tmp_path}:pw}}")
    with open(tmp_path / "big", "wb") as big:
        big.truncate((1 << 20) + 1)
    assert "at most 1 MiB" in refusal_of(f"${{dir:{tmp_path}:big}}")


def test_a_folders_files_are_properties_by_name(tmp_path: Path) -> None:
    folder(tmp_path, {"sasl.username": "alice\n", "sasl.password": SECRET + "\r\n", ".hidden": "x"})
    properties = read_secret_folder(str(tmp_path), "east", cluster="east", servers="e:9092")
    assert properties == {"sasl.username": "alice", "sasl.password": SECRET}


def test_a_folder_as_a_kubelet_mounts_it(tmp_path: Path) -> None:
    mounted = Kubelet(tmp_path / "east")
    mounted.mount({"sasl.password": "one", "ssl.ca.location": "ca.pem", "ca.pem": "…"})
    first = read_secret_folder(str(tmp_path), "east", cluster="east", servers="e:9092")
    assert first == {"sasl.password": "one", "ssl.ca.location": str(tmp_path / "east" / "ca.pem")}
    mounted.mount({"sasl.password": "two", "ssl.ca.location": "ca.pem", "ca.pem": "…"})
    assert read_secret_folder(str(tmp_path), "east", cluster="east", servers="e:9092")["sasl.password"] == "two"


def test_a_folder_swapped_while_read_comes_from_one_edition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = Kubelet(tmp_path / "east")
    mounted.mount({"sasl.username": "old", "sasl.password": "old"})
    opened = builtins.open

    def opened_then_swapped(*given: Any, **named: Any) -> Any:
        file = opened(*given, **named)
        if mounted.edition == 1:
            mounted.mount({"sasl.username": "new", "sasl.password": "new"})
        return file

    monkeypatch.setattr(builtins, "open", opened_then_swapped)
    properties = read_secret_folder(str(tmp_path), "east", cluster="east", servers="e:9092")
    assert properties == {"sasl.username": "new", "sasl.password": "new"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"sasl.pasword": SECRET}, "file 'sasl.pasword' of secret folder 'east' is no allowed property"),
        ({"sasl.pasword": SECRET}, "did you mean sasl.password?"),
        ({"plugin.library.paths": "/x.so"}, "is no allowed property"),
        ({"bootstrap.servers": "evil:9092"}, "is no allowed property"),
        ({"ca.crt": SECRET}, "let ssl.ca.location or the like name a certificate"),
        ({"sasl.password": ""}, "is empty"),
        ({"ssl.ca.location": "/etc/passwd"}, "does not hold a value"),
        ({"ssl.ca.location": "../../etc/passwd"}, "does not hold a value"),
        ({"ssl.ca.location": "ca.pem"}, "file 'ca.pem' of secret folder 'east': is not there"),
        ({"isolation.level": SECRET}, "does not hold a value"),
    ],
)
def test_a_folder_with_other_files_is_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    folder(tmp_path, files)
    with pytest.raises(SecretError) as refused:
        read_secret_folder(str(tmp_path), "east", cluster="east", servers="e:9092")
    assert message in str(refused.value)
    assert_hidden(refused.value)


@pytest.mark.parametrize("name", ["sasl.password", "ca.pem"])
def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "east-other").mkdir()
    (tmp_path / "east-other" / "stolen").write_text(SECRET)
    path = folder(tmp_path, {"ssl.ca.location": "ca.pem"})
    (path / name).symlink_to(tmp_path / "east-other" / "stolen")
    with pytest.raises(SecretError, match=f"file '{name}' .* leads out of the folder"):
        read_secret_folder(str(tmp_path), "east", cluster="east", servers="e:9092")


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../east", ""])
def test_the_folders_name_is_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(SecretError, match="must be the plain name of a folder"):
        read_secret_folder(str(tmp_path), name, cluster="east", servers="e:9092")


def test_the_error_of_a_missing_folder_names_the_mount_path(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=f"folder {tmp_path}/east is not there.*mount"):
        read_secret_folder(str(tmp_path), "east", cluster="east", servers="e:9092")


def test_properties_files_are_javas() -> None:
    text = "# c\n! c\n\n a : 1 \nb\\ c=\\u00e9\\t\\\\\nd e\nf\n"
    text += "long=x\\\n   # y\r\ng=odd\\\\\nh=#\na=2\nlast=z\\"
    assert parse_properties(text) == {
        "a": "2",
        "b c": "é\t\\",
        "d": "e",
        "f": "",
        "long": "x# y",
        "g": "odd\\",
        "h": "#",
        "last": "z",
    }
