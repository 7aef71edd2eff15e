"""Migration by three Git commits: add B, move the producers, remove A; two applications lose and double nothing."""

from __future__ import annotations

from tests.e2e.shop import Shop


def test_a_migration_is_three_commits(shop: Shop) -> None:
    with shop.play("migration", "Three Git commits move the stream from cluster A to cluster B"):
        shop.producers.move(1, "B")  # a first one tries the new cluster, which nobody reads yet
        at = shop.stream.commit("Add cluster B to the stream", ["A", "B"], home="A")
        shop.wait_in_force("B is added", at, added="B")
        assert shop.stream.tool.drift() == []

        shop.stream.commit("Move the producers to cluster B", ["A", "B"], home="B")
        shop.mark(f"all producers write to {shop.stream.move_producers()}")
        assert shop.stream.tool.drift() == []

        at = shop.stream.commit("Remove cluster A from the stream", ["B"], home="B")
        shop.producers.finish("A")
        shop.wait_in_force("A is removed, and drains", at)
        shop.wait_drained("A")
        shop.brokers["A"].stop()
        shop.mark("the broker of A is stopped")
        assert shop.stream.tool.drift() == []

    live, restarted = shop.story.results
    assert live.restarts == 0
    assert restarted.restarts >= 2
    assert len(shop.stream.repository.subjects()) == 4
