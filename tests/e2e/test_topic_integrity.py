"""A topic is created again under a job that checks it: the job ends for good, until Git names the new id."""

from __future__ import annotations

from tests.e2e.checked import NAME, TOPIC, Checked
from tests.e2e.shop import Shop


def test_git_accepts_a_recreated_topic(shop: Shop) -> None:
    with shop.play("topic-recreated", "A checked topic is created again, and a commit names its new id") as story:
        checked = Checked(shop)
        old = checked.create_topic()
        checked.produce(200)
        checked.commit("Read the checked topic")
        shop.wait(f"all records of the topic in {NAME}", checked.has_all)
        shop.mark(f"{NAME} has read the topic")

        # The sink has all records of the old topic, so none can be lost with it
        checked.delete_topic()
        new = checked.create_topic()
        checked.produce(300)
        shop.mark("the topic is created again")
        shop.wait(f"Kubeflow's operator to call {NAME} failed", lambda: checked.state() == "FAILED")
        shop.wait(f"{NAME} to be stalled", lambda: checked.stalled().get("reason") == "TopicIntegrity")
        message = checked.stalled()["message"]
        assert f"topic '{TOPIC}' of cluster 'C'" in message
        # A plan between the two calls finds the topic missing, and ends the query for that
        assert (
            f"id={old} now={new}] the topic was re-created" in message or f"id={old}] the topic is missing" in message
        )
        shop.mark(f"{NAME} has failed for good")

        # Nothing starts it but the new id, and that does so once
        assert checked.drivers() == 1
        checked.commit("Accept the topic that was created again", pin=new)
        shop.wait(f"all records of both topics in {NAME}", checked.has_all)
        shop.wait(f"{NAME} to be stalled no more", lambda: checked.stalled().get("status") == "False")
        shop.mark(f"{NAME} has read the new topic")
        assert checked.drivers() == 2
        verdict = checked.verdict()
        story.problems += [] if verdict.holds else [f"{NAME}: {verdict}"]
        checked.delete()
    assert [result.restarts for result in shop.story.results] == [0, 0]
