"""The state location: whole files, written once, that survive the process."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import fs

from dynamic_kafka.errors import DynamicKafkaError, OffsetDocumentError, OptionError
from dynamic_kafka.planning.document.amendments import Amendment
from dynamic_kafka.planning.document.progress import OffsetDocument
from dynamic_kafka.planning.losses.acceptance import AcceptedLoss
from dynamic_kafka.planning.sameness.identity import AcceptedIdentity
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.store import StateLocation

PART = SplitRange(Split("east", "t", 0), 5, 9)
MADE = Amendment("q", 3, "aa", "bb", (PART,), {"east": "removed"}, 1_000)


@pytest.fixture(params=["path", "URI", "URI with a slash at its end", "URI as Hadoop writes it"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    folder = tmp_path / "state"
    forms = (str(folder), folder.as_uri(), f"{folder.as_uri()}/", f"file:{folder}")
    return forms[request.param_index]


def test_an_amendment_is_there_for_the_next_process(uri: str) -> None:
    StateLocation(uri).save_amendment(MADE)
    assert StateLocation(uri).amendments("q") == [MADE]


@pytest.mark.parametrize("uri", ["dbfs:/x", "s3a:/x", "dbfs:///x", "file:x", "dbfs:x", "file://"])
def test_a_uri_is_never_a_folder_of_the_working_directory(uri: str) -> None:
    # For Spark, `hdfs:/data` is in HDFS: files on this disk would never be found again.
    with pytest.raises(OptionError, match=r"stateLocation '.*' cannot be opened"):
        StateLocation(uri)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_percent_sign_is_a_character_as_to_hadoop(form: str, tmp_path: Path) -> None:
    StateLocation(form.format(tmp_path / "a%20b")).save_amendment(MADE)
    assert [folder.name for folder in tmp_path.iterdir()] == ["a%20b"]


def test_each_query_has_its_own(uri: str) -> None:
    StateLocation(uri).save_amendment(MADE)
    assert StateLocation(uri).amendments("another") == []


def test_nothing_is_made_before_the_first_write(tmp_path: Path) -> None:
    assert StateLocation(str(tmp_path / "state")).amendments("q") == []
    assert not (tmp_path / "state").exists()


def test_two_amendments_of_one_batch_are_two_files(uri: str) -> None:
    state = StateLocation(uri)
    other = replace(MADE, left_out=(replace(PART, split=Split("west", "t", 0)),))
    state.save_amendment(MADE)
    state.save_amendment(other)
    assert len(state.amendments("q")) == 2


def test_the_same_amendment_twice_is_one_file(uri: str) -> None:
    state = StateLocation(uri)
    state.save_amendment(MADE)
    state.save_amendment(MADE)
    assert state.amendments("q") == [MADE]


def test_later_batches_come_later(uri: str) -> None:
    state = StateLocation(uri)
    for number in (10, 9, 100):
        state.save_amendment(replace(MADE, number=number))
    assert [made.number for made in state.amendments("q")] == [9, 10, 100]


def test_a_write_that_did_not_get_through_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def power_cut(handle: int) -> None:
        raise OSError("power cut")

    state = StateLocation(str(tmp_path))
    monkeypatch.setattr(os, "fsync", power_cut)
    with pytest.raises(DynamicKafkaError, match="cannot be written: power cut"):
        state.save_amendment(MADE)
    monkeypatch.undo()
    assert StateLocation(str(tmp_path)).amendments("q") == []
    assert list((tmp_path / "q" / "amendments").iterdir()) == []


def test_drafts_and_other_files_are_passed_over(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    state.save_amendment(MADE)
    folder = tmp_path / "q" / "amendments"
    (folder / ".draft.json").write_text("{", encoding="utf-8")
    (folder / "notes.txt").write_text("by hand", encoding="utf-8")
    (folder / "sub.json").mkdir()
    assert state.amendments("q") == [MADE]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    state.write("q/amendments/1.json", MADE.to_wire())
    (tmp_path / "q" / "amendments" / "1.json").write_text('{"version": 1', encoding="utf-8")
    with pytest.raises(OffsetDocumentError, match=r"q/amendments/1\.json is damaged"):
        state.amendments("q")


def test_acceptances_are_told_apart(uri: str) -> None:
    state = StateLocation(uri)
    loss = {"kind": "data-loss", "cluster": "east", "topic": "t", "partition": 0, "from": 5, "to": 9}
    state.write("q/accepted/000000000001-identity.json", {"kind": "identity", "cluster": "east", "kafkaId": "Mk"})
    state.write("q/accepted/000000000002-identity.json", {"kind": "identity", "cluster": "east", "kafkaId": "Qx"})
    state.write("q/accepted/000000000003-data-loss.json", loss)
    state.write("q/accepted/000000000004-data-loss.json", {**loss, "partition": 1, "topicId": "T"})
    newest = AcceptedIdentity("Qx", id="000000000002-identity.json")
    assert state.accepted_identities(OffsetDocument("q")) == {"east": newest}
    # A used one does not bring the one before it back
    assert state.accepted_identities(OffsetDocument("q", used_acceptances={"east": newest.id})) == {}
    assert state.accepted_losses("q") == {
        Split("east", "t", 0): AcceptedLoss(5, to=9),
        Split("east", "t", 1): AcceptedLoss(5, "T", to=9),
    }


@pytest.mark.parametrize(
    ("folder", "content", "problem"),
    [
        ("amendments", "[]", "it is not a JSON object"),
        ("amendments", '{"version": 9}', "version 9"),
        ("amendments", '{"version": 1}', "a saved amendment is damaged"),
        ("accepted", '{"cluster": "east"}', "'kind' is missing"),
        ("accepted", '{"kind": "identity", "cluster": "east"}', "'kafkaId' is missing"),
        ("accepted", '{"kind": "rumour"}', "kind 'rumour' is unknown"),
        ("accepted", '{"kind": "data-loss", "cluster": "e", "topic": "t", "partition": "x", "from": 1}', "'x'"),
    ],
)
def test_a_malformed_record_is_named_with_what_to_do(tmp_path: Path, folder: str, content: str, problem: str) -> None:
    (tmp_path / "q" / folder).mkdir(parents=True)
    (tmp_path / "q" / folder / "1.json").write_text(content, encoding="utf-8")
    state = StateLocation(str(tmp_path))
    with pytest.raises(OffsetDocumentError) as caught:
        state.amendments("q") if folder == "amendments" else state.accepted_losses("q")
    text = str(caught.value)
    assert (
        text.startswith(f"{tmp_path}/q/{folder}/1.json is damaged") and problem in text and "restore the file" in text
    )


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    state = StateLocation(str(tmp_path / "state"))
    with pytest.raises(DynamicKafkaError, match=r"stateLocation: .*/state/q/amendments/0.*cannot be written"):
        state.save_amendment(MADE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_an_option_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OptionError, match=r"cannot be written: .*may read and write"):
        StateLocation(str(tmp_path)).save_amendment(MADE)


def test_a_refusal_of_the_file_system_is_an_option_to_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(handle: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "fsync", read_only)
    with pytest.raises(OptionError, match=r"cannot be written: .*may read and write"):
        StateLocation(str(tmp_path)).save_amendment(MADE)


def test_a_place_as_spark_writes_it_is_taken() -> None:
    assert StateLocation("s3a://bucket/state?region=eu-west-1").uri.startswith("s3a://bucket")


def test_credentials_in_a_place_are_refused_and_not_shown() -> None:
    with pytest.raises(OptionError, match="a user and a password in its URL") as caught:
        StateLocation("s3a://AKIA:topsecret@bucket/state")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize(
    "query", ["client_secret=topsecret", "sv=2022-11-02&sig=topsecret", "X-Amz-Signature=topsecret"]
)
def test_a_secret_in_the_query_of_a_uri_is_refused_and_not_shown(query: str) -> None:
    with pytest.raises(OptionError, match="a secret in the query of its URL") as caught:
        StateLocation(f"abfs://container@account.dfs.core.windows.net/state?{query}")
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("wrong", ["nosuchfs://folder", "file:relative"])
def test_an_unreachable_location_is_refused(wrong: str) -> None:
    with pytest.raises(OptionError, match="stateLocation"):
        StateLocation(wrong)


def test_an_undone_amendment_is_void_until_it_is_made_again(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    made = Amendment("q", 3, "s", "e", (SplitRange(Split("a", "t", 0), 1, 5),), {"a": "removed"}, 7)
    state.save_amendment(made)
    state.undo_amendments("q", [made])
    assert state.amendments("q") == []
    again = replace(made, made_ms=8)
    state.save_amendment(again)
    assert state.amendments("q") == [again]


def test_an_empty_file_counts_as_absent(tmp_path: Path) -> None:
    # A crash left it, on a store without an atomic write. Its batch had not run.
    state = StateLocation(str(tmp_path))
    state.save_amendment(MADE)
    (file,) = (tmp_path / "q" / "amendments").iterdir()
    file.write_bytes(b"")
    assert state.amendments("q") == []
    state.save_amendment(MADE)
    assert state.amendments("q") == [MADE]


def test_a_file_that_was_purged_since_it_was_listed_is_no_error(tmp_path: Path) -> None:
    assert StateLocation(str(tmp_path)).read_folder("q/amendments", ["1.json"]) == {}
    StateLocation(str(tmp_path)).delete("q/amendments/1.json")


def test_only_amendments_from_a_document_on_are_read(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    for number in (9, 10, 11):
        state.save_amendment(replace(MADE, number=number))
    (damaged,) = (tmp_path / "q" / "amendments").glob("000000000009-*")
    damaged.write_text("{")
    assert [made.number for made in state.amendments("q", since=10)] == [10, 11]


def test_reports_of_executors_are_one_file_per_split(uri: str) -> None:
    state, other = StateLocation(uri), Split("east", "t", 1)
    state.check_writable("q")
    for topic_id in ("first attempt", "second attempt"):
        state.save_seen("q", "bb", "topic-id", PART.split, {"topicId": topic_id})
    state.save_seen("q", "bb", "topic-id", other, {"topicId": "T"})
    state.save_seen("q", "cc", "divergence", other, {"offset": 5})
    reports = {(kind, split): content.get("topicId") for kind, split, content, _ in state.seen("q", "bb")}
    assert reports == {("topic-id", PART.split): "second attempt", ("topic-id", other): "T"}
    assert [seen.content["offset"] for seen in state.seen("q", "cc")] == [5]
    assert state.seen("q", "never") == []


def test_in_hdfs_a_repeated_write_leaves_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # HDFS refuses to rename a draft onto a file, which would fail the second attempt of a task.
    class Hdfs(fs.SubTreeFileSystem):  # type: ignore[misc]
        def move(self, src: str, dest: str) -> None:
            assert not self.get_file_info(dest).is_file
            super().move(src, dest)

    monkeypatch.setattr(fs, "HadoopFileSystem", Hdfs)
    state = StateLocation("ignored")
    state._fs, state._root = Hdfs(str(tmp_path), fs.LocalFileSystem()), "state"
    for topic_id in ("first attempt", "second attempt"):
        state.save_seen("q", "bb", "topic-id", PART.split, {"topicId": topic_id})
    assert [report.content["topicId"] for report in state.seen("q", "bb")] == ["first attempt"]
    assert len(list((tmp_path / "state" / "q" / "seen" / "bb").iterdir())) == 1


def test_in_hdfs_a_failed_write_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Hdfs(fs.SubTreeFileSystem):  # type: ignore[misc]
        def move(self, src: str, dest: str) -> None:
            raise OSError("no name node")

    monkeypatch.setattr(fs, "HadoopFileSystem", Hdfs)
    state = StateLocation("ignored")
    state._fs, state._root = Hdfs(str(tmp_path), fs.LocalFileSystem()), "state"
    with pytest.raises(DynamicKafkaError, match="cannot be written: no name node"):
        state.save_amendment(MADE)
    assert list((tmp_path / "state" / "q" / "amendments").iterdir()) == []


def test_many_files_are_all_read(tmp_path: Path) -> None:
    state = StateLocation(str(tmp_path))
    offsets = {Split("east", "t", partition): partition * 7 for partition in range(100)}
    for split, offset in offsets.items():
        state.save_seen("q", "batch", "stop-record", split, {"offset": offset, "topicId": "id"})
    assert {report.split: report.content["offset"] for report in state.seen("q", "batch")} == offsets


def test_reports_that_cannot_be_read_do_not_fail_a_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # Given a batch with an incomplete report, the last one by name
    state = StateLocation(str(tmp_path))
    for kind in ("a-kind", "stop-record"):
        state.save_seen("q", "batch", kind, PART.split, {"number": 7, "offset": 6})
    [damaged] = (tmp_path / "q" / "seen" / "batch").glob("stop-record-*")
    damaged.write_text('{"numb')

    # Then the others count, and the log names it
    assert {reported.number for reported in state.reported("q").values()} == {7}
    assert [report.kind for report in state.seen("q", "batch")] == ["a-kind"]
    assert f"{damaged.name} is incomplete" in caplog.text
