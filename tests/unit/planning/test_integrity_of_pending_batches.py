"""A pending batch whose topic was deleted or re-created: ended for good, or left out once that is accepted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dynamic_kafka.driver.changed_topics import HaveIds, recorded_verdicts, refuse_standing, trust_one_broker
from dynamic_kafka.driver.replay import Replays
from dynamic_kafka.errors import ClusterUnreachableError, DataLossError, DynamicKafkaError, TopicIntegrityError
from dynamic_kafka.metadata.subscription import SubscribedCluster, Subscription
from dynamic_kafka.options import parse_options
from dynamic_kafka.planning.document.codec import fingerprint
from dynamic_kafka.planning.document.progress import ClusterProgress, OffsetDocument, TopicProgress
from dynamic_kafka.planning.observation import ClusterObservation, Observation, TopicObservation
from dynamic_kafka.planning.questions import DisputedIdsQuestion, Question
from dynamic_kafka.planning.sameness.integrity import TopicChange, integrity_error
from dynamic_kafka.planning.splits import Split, SplitRange
from dynamic_kafka.state.verdicts import save_change, saved_changes
from tests.unit.planning.simulation import MemoryState

SPLIT = Split("east", "t", 0)
CHANGE = TopicChange("east", "t", "old", "new")
DELETION = TopicChange("east", "t", "old", "")


def saved(following: int, topic_id: str | None = "old") -> OffsetDocument:
    topic = TopicProgress("s", {0: following}, topic_id=topic_id)
    return OffsetDocument("q", 1, "", clusters={"east": ClusterProgress({"t": topic}, "Mk")})


START, END = saved(4), replace(saved(9), number=2, previous=fingerprint(saved(4)))
SAME, OTHER = (ClusterObservation({"t": TopicObservation({0: 12}, topic_id=uuid)}, "Mk") for uuid in ("old", "new"))
GONE = ClusterObservation({}, "Mk", frozenset({"t"}))


def in_doubt(question: Question, _: Observation) -> frozenset[tuple[str, str]]:
    """Answer as brokers that do not confirm what one of them has answered."""
    return frozenset(question.ids) if isinstance(question, DisputedIdsQuestion) else frozenset()


def replays(
    answer: ClusterObservation,
    state: MemoryState | None = None,
    *,
    check: bool = True,
    fail: bool = True,
    pin: str | None = None,
    confirmed: bool = True,
) -> Replays:
    """A query that restarts with a pending batch."""
    words = {"topicIntegrityCheck": str(check).lower(), "failOnDataLoss": str(fail).lower()}
    given = {"streamIds": "s", "metadataPath": "/streams.yaml", "stateLocation": "memory", **words}
    east = SubscribedCluster({"t": "s"}, {}, topic_ids={} if pin is None else {"t": pin})
    observation = Observation(Subscription({"east": east}, ("s",)), {"east": answer})
    options = parse_options(given, mode="streaming")
    made = Replays(options, state, lambda _: observation, trust_one_broker if confirmed else in_doubt)
    made.restore(END)
    return made


@pytest.mark.parametrize("fail", [True, False])
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (OTHER, "[TOPIC_CHANGED cluster=east topic=t id=old now=new] the topic was re-created"),
        (GONE, "[TOPIC_CHANGED cluster=east topic=t id=old] the topic is missing"),
    ],
)
def test_a_checked_topic_of_a_pending_batch_ends_the_query(
    answer: ClusterObservation, outcome: str, fail: bool
) -> None:
    state = MemoryState()
    with pytest.raises(TopicIntegrityError) as ended:
        replays(answer, state, fail=fail).ranges(START, END)
    assert outcome in str(ended.value)
    assert not state.files


def test_a_pin_is_enforced_before_a_pending_batch_is_read() -> None:
    with pytest.raises(TopicIntegrityError, match=r"id=new now=old\].*re-created"):
        replays(SAME, check=False, pin="new").ranges(START, END)


def test_a_topic_that_one_broker_lacks_is_read() -> None:
    assert replays(GONE, MemoryState(), confirmed=False).ranges(START, END) == [SplitRange(SPLIT, 4, 9)]


@pytest.mark.parametrize(("check", "pin"), [(True, None), (False, None), (False, "old")])
def test_a_topic_that_one_broker_takes_for_another_is_read(check: bool, pin: str | None) -> None:
    # Executors compare the ids again, and confirm them
    made = replays(OTHER, MemoryState(), check=check, pin=pin, confirmed=False)
    assert made.ranges(START, END) == [SplitRange(SPLIT, 4, 9)]


def test_without_the_check_executors_find_a_deletion() -> None:
    assert replays(GONE, MemoryState(), check=False).ranges(START, END) == [SplitRange(SPLIT, 4, 9)]


@pytest.mark.parametrize("check", [True, False])
def test_a_pin_to_the_new_id_leaves_the_range_out(check: bool) -> None:
    # No `abandon` is needed: the user has named the new topic in the metadata
    state = MemoryState()
    made = replays(OTHER, state, check=check, pin="new")
    assert made.ranges(START, END) == []
    assert made.amendments.after(END).next_of(SPLIT) == 4
    assert [dict(amendment.reasons) for amendment in state.amendments("q")] == [{"east": "recreated"}]


def test_without_a_state_executors_leave_the_range_out() -> None:
    assert replays(OTHER, None, pin="new").ranges(START, END) == [SplitRange(SPLIT, 4, 9)]


@pytest.mark.parametrize(("change", "answer"), [(CHANGE, OTHER), (DELETION, GONE)])
def test_an_acceptance_of_the_tool_leaves_the_range_out(change: TopicChange, answer: ClusterObservation) -> None:
    state = MemoryState()
    save_change(state, "q", "accepted", change)
    assert replays(answer, state).ranges(START, END) == []


def report(state: MemoryState, *, accepted: bool) -> MemoryState:
    content = {"topicId": "new", "planned": "old"} | ({"accepted": True} if accepted else {})
    state.save_seen("q", fingerprint(END), "topic-id", SPLIT, content)
    return state


def test_a_report_of_an_accepted_topic_is_obeyed() -> None:
    assert replays(SAME, report(MemoryState(), accepted=True)).ranges(START, END) == []
    with pytest.raises(DataLossError):
        replays(SAME, report(MemoryState(), accepted=False)).ranges(START, END)


# -- verdicts ----------------------------------------------------------------------------------------------------------


def test_a_verdict_is_recorded_before_the_error_goes_on() -> None:
    state = MemoryState()
    for query in ("", "q"):
        with pytest.raises(TopicIntegrityError), recorded_verdicts(state, query):
            raise integrity_error([DELETION, CHANGE])
    for query in ("", "q"):
        assert set(saved_changes(state, query, "verdict").values()) == {CHANGE, DELETION}
    assert {path.rpartition("-")[0] for path in state.files} == {
        "first-start/integrity/verdict",
        "q/integrity/verdict",
    }


def test_a_verdict_that_cannot_be_written_hides_no_error(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryState):
        def write(self, *_: object) -> None:
            raise DynamicKafkaError("no space left")

    with pytest.raises(TopicIntegrityError), recorded_verdicts(Full(), "q"):
        raise integrity_error([CHANGE])
    assert re.search(r"verdict .*not recorded: no space left", caplog.text)


def no_broker(*_: object) -> frozenset[tuple[str, str]]:
    raise AssertionError("a broker was asked")


def refused(
    state: MemoryState,
    *,
    pattern: str | None = None,
    named: str = "t",
    pin: str | None = None,
    have_ids: HaveIds = no_broker,
    first: bool = False,
) -> str:
    """Return the words of a start that a verdict ends; empty if it goes on."""
    given = {"streamIds": "s", "metadataPath": "/streams.yaml"}
    if pattern is not None:
        given = {"kafka.bootstrap.servers": "e:1", "subscribePattern": pattern}
    options = parse_options(given, mode="streaming")
    east = SubscribedCluster({named: "s"}, {}, topic_ids={} if pin is None else {named: pin})
    name = options.single.cluster_id if options.single is not None else "east"
    document = OffsetDocument() if first else replace(END, clusters={name: END.clusters["east"]})
    try:
        refuse_standing(
            state, [document], options, lambda: Subscription({name: east} if named else {}, ("s",)), have_ids
        )
    except TopicIntegrityError as error:
        return str(error)
    return ""


def test_a_verdict_ends_a_start_with_the_same_words() -> None:
    state = MemoryState()
    save_change(state, "q", "verdict", CHANGE)
    assert refused(state, have_ids=having("new")) == str(integrity_error([CHANGE]))
    assert refused(state, pin="new") == ""
    assert refused(state, named="u") == ""
    save_change(state, "q", "accepted", CHANGE)
    assert refused(state) == ""


@pytest.mark.parametrize("found", ["new", ""])
def test_a_first_start_obeys_the_verdict_of_one_before(found: str) -> None:
    # Given a first start that ended, since metadata pin another id
    state, verdict = MemoryState(), replace(CHANGE, found=found, pinned=True)
    save_change(state, "", "verdict", verdict)

    # Then each further one ends, while the pin is the same, and brokers do not have the id
    words = str(integrity_error([verdict]))
    assert refused(state, pin="old", have_ids=having("new"), first=True) == words
    for pin, named in (("new", "t"), (None, "t"), ("old", "u")):
        assert refused(state, pin=pin, named=named, first=True) == ""
    assert refused(state, pin="old") == ""  # a query that has begun has verdicts of its own

    # And it was wrong if they have it
    assert refused(state, pin="old", have_ids=having("old"), first=True) == ""
    assert not saved_changes(state, "", "verdict")
    assert list(saved_changes(state, "", "withdrawn").values()) == [verdict]


def test_a_pattern_names_a_topic_that_its_cluster_lists_no_more() -> None:
    state = MemoryState()
    options = parse_options({"kafka.bootstrap.servers": "e:1", "subscribePattern": "t"}, mode="streaming")
    assert options.single is not None
    save_change(state, "q", "verdict", replace(DELETION, cluster=options.single.cluster_id))
    assert "is missing" in refused(state, pattern="t", named="", have_ids=lambda *_: frozenset())
    assert refused(state, pattern="u", named="") == ""


# -- wrong verdicts ----------------------------------------------------------------------------------------------------


def having(topic_id: str) -> HaveIds:
    """Return brokers on which topic `t` has this id."""
    return lambda ids, _: frozenset(key for key, expected in ids.items() if key[1] == "t" and expected == topic_id)


@pytest.mark.parametrize("verdict", [DELETION, CHANGE], ids=["missing", "re-created"])
def test_a_topic_that_is_there_again_withdraws_the_verdict(
    verdict: TopicChange, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a verdict that all brokers lacked the topic for a moment, or one with the id of a topic before it
    state = MemoryState()
    save_change(state, "q", "verdict", verdict)

    # When the topic is there with its id at the next start, then that goes on, and nothing is accepted
    assert refused(state, have_ids=having("old")) == ""
    assert re.search(r"withdrawn.*\[TOPIC_CHANGED cluster=east topic=t id=", caplog.text)
    assert not saved_changes(state, "q", "verdict") and not saved_changes(state, "q", "accepted")
    assert list(saved_changes(state, "q", "withdrawn").values()) == [verdict]

    # And a deletion that happens later ends the query, and each start
    save_change(state, "q", "verdict", DELETION)
    assert refused(state, have_ids=having("")) == str(integrity_error([DELETION]))


@pytest.mark.parametrize("topic_id", ["", "new"])
def test_a_topic_that_is_not_there_with_its_id_stays_missing(topic_id: str) -> None:
    state = MemoryState()
    save_change(state, "q", "verdict", DELETION)
    assert refused(state, have_ids=having(topic_id)) == str(integrity_error([DELETION]))
    assert saved_changes(state, "q", "verdict")


def test_brokers_that_do_not_answer_withdraw_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def silent(*_: object) -> frozenset[tuple[str, str]]:
        raise ClusterUnreachableError("east", "no answer")

    state = MemoryState()
    save_change(state, "q", "verdict", DELETION)
    assert refused(state, have_ids=silent) == str(integrity_error([DELETION]))
    assert "still right: [CLUSTER_UNREACHABLE cluster=east]" in caplog.text


@pytest.mark.parametrize("pinned", [True, False])
def test_a_pin_to_the_id_that_the_topic_has_can_be_written_back(pinned: bool) -> None:
    # Given a query that reads the topic `old`, and a verdict after a broker with older metadata
    state = MemoryState()
    save_change(state, "q", "verdict", replace(CHANGE, found="older", pinned=pinned))

    # When the pin to `old` is in the metadata and right, then the start goes on; else it ends
    ended = refused(state, pin="old", have_ids=having("older"))
    assert re.search(r"id=old now=older\].*re-created", ended)
    assert refused(state, pin="old", have_ids=having("old")) == ""
    assert not saved_changes(state, "q", "verdict")
