"""What every store of jobs promises; each test is run against each store."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.adapters.queue.store import Ending, JobStore, NewJob, StoredJob
from holdfast.vocabulary.errors import Conflict, NotFound
from holdfast.vocabulary.specs.jobs import JobRequest, RepeatSpec
from holdfast.vocabulary.specs.services import ScheduleSpec
from tests.adapters.queue.conftest import Clock, Play

LEASE = 30.0
OK = Ending(exit_code=0)


def job(argv: str = "true", **fields: Any) -> NewJob:
    asked = {name: fields.pop(name) for name in list(fields) if name in _OF_REQUEST}
    return NewJob(request=JobRequest(argv=(argv,), **asked), **fields)


_OF_REQUEST = set(JobRequest.__struct_fields__)


async def add(store: JobStore, *jobs: NewJob) -> list[str]:
    return [added.id for added, _ in await store.add(jobs)]


async def claim(store: JobStore, *templates: str, node: str = "a") -> StoredJob | None:
    found = await store.claim(node, LEASE, dict.fromkeys(templates or ("",), 1), ["run-1"])
    return found[0] if found else None


async def taken(store: JobStore, *templates: str, node: str = "a") -> tuple[StoredJob, str]:
    found = await claim(store, *templates, node=node)
    assert found is not None
    assert found.token is not None
    return found, found.token


async def state(store: JobStore, job_id: str) -> str:
    found = await store.get(job_id)
    return "gone" if found is None else found.state


def test_jobs_are_claimed_by_priority_then_in_order(play: Play) -> None:
    """Lower numbers go first, and equal ones in the order in which they were added."""

    async def story(store: JobStore, clock: Clock) -> None:
        ids = await add(store, job(priority=5), job(priority=1), job(priority=1), job())
        order = [(await taken(store))[0].id for _ in ids]
        assert order == [ids[3], ids[1], ids[2], ids[0]]
        assert await claim(store) is None

    play(story)


def test_only_the_templates_that_are_asked_for_are_claimed(play: Play) -> None:
    """A job of a template that has no room does not keep others from running."""

    async def story(store: JobStore, clock: Clock) -> None:
        first, second = await add(store, job(template="render"), job())
        assert (await taken(store, ""))[0].id == second
        assert await claim(store, "") is None
        assert (await taken(store, "", "render"))[0].id == first

    play(story)


def test_several_are_claimed_at_once_within_what_is_free(play: Play) -> None:
    """One for each run id, in order, and of each template no more than it has room for."""

    async def story(store: JobStore, clock: Clock) -> None:
        await add(store, job(template="render"), job(template="render"), job(), job(), job())
        found = await store.claim("a", LEASE, {"": 5, "render": 1}, ["run-1", "run-2", "run-3"])
        assert [(one.request.template, one.run_id) for one in found] == [
            ("render", "run-1"), ("", "run-2"), ("", "run-3"),
        ]  # fmt: skip
        rest = await store.claim("a", LEASE, {"": 5, "render": 0}, ["run-4", "run-5"])
        assert [one.run_id for one in rest] == ["run-4"]

    play(story)


def test_a_delayed_job_waits_for_its_time(play: Play) -> None:
    """It is not claimed early, and the store says when to look again."""

    async def story(store: JobStore, clock: Clock) -> None:
        (job_id,) = await add(store, job(run_at=clock.now + 10))
        assert await claim(store) is None
        assert await store.next_due() == clock.now + 10
        clock.now += 10
        assert (await taken(store))[0].id == job_id

    play(story)


def test_a_claim_names_run_and_token_and_counts_the_attempt(play: Play) -> None:
    """What must be known after a crash is stored with the claim; tokens only grow."""

    async def story(store: JobStore, clock: Clock) -> None:
        await add(store, job(), job())
        first, token = await taken(store)
        second, later = await taken(store)
        assert (first.state, first.run_id, first.attempts) == ("active", "run-1", 1)
        assert int(token.split("-")[0]) < int(later.split("-")[0])
        assert [found.id for found in await store.active("a")] == [first.id, second.id]
        assert await store.active("b") == []

    play(story)


def test_a_completed_job_is_removed_unless_it_is_kept(play: Play) -> None:
    """How a removed one ended can still be asked for; a kept one is listed."""

    async def story(store: JobStore, clock: Clock) -> None:
        gone, kept = await add(store, job(), job(remove_on_complete=False))
        for _ in range(2):
            found, token = await taken(store)
            assert await store.complete(found.id, token, OK)
        assert [found.id for found in await store.find(("completed",))] == [kept]
        ended = await store.get(gone)
        assert ended is not None
        assert (ended.state, ended.is_removed, ended.exit_code) == ("completed", True, 0)
        counts = await store.counts()
        assert (counts["completed"], counts["total:completed"]) == (1, 2)

    play(story)


def test_a_failed_attempt_is_tried_again_later_and_at_last_is_dead(play: Play) -> None:
    """A dead job stays, with its reason, and can be retried with all its attempts."""

    async def story(store: JobStore, clock: Clock) -> None:
        (job_id,) = await add(store, job())
        _, token = await taken(store)
        ending = Ending(reason="exit code 3", exit_code=3)
        assert await store.fail(job_id, token, ending, clock.now + 2)
        assert await state(store, job_id) == "delayed"
        clock.now += 2
        found, token = await taken(store)
        assert (found.attempts, found.exit_code) == (2, None)
        assert await store.fail(job_id, token, ending, None)
        dead = (await store.find(("failed",)))[0]
        assert (dead.id, dead.reason, dead.exit_code) == (job_id, "exit code 3", 3)
        retried = await store.retry(job_id)
        assert retried is not None
        assert (retried.state, retried.attempts) == ("waiting", 0)

    play(story)


def test_a_lost_claim_can_say_nothing_about_its_job(play: Play) -> None:
    """A node that did not renew in time is too late with everything, and is told so."""

    async def story(store: JobStore, clock: Clock) -> None:
        (job_id,) = await add(store, job())
        _, old = await taken(store, node="a")
        clock.now += LEASE + 1
        _, new = await taken(store, node="b")
        assert old != new
        assert await store.renew([(job_id, old)], LEASE) == {job_id: False}
        assert not await store.complete(job_id, old, OK)
        assert not await store.fail(job_id, old, OK, None)
        assert not await store.release(job_id, old)
        assert not await store.report(job_id, old, progress=1, result=msgspec.UNSET)
        assert await store.renew([(job_id, new)], LEASE) == {job_id: True}
        assert await store.complete(job_id, new, OK)
        assert not await store.complete(job_id, new, OK)

    play(story)


def test_a_renewed_lease_keeps_the_job(play: Play) -> None:
    """As long as its node confirms, no other node gets it."""

    async def story(store: JobStore, clock: Clock) -> None:
        await add(store, job())
        found, token = await taken(store, node="a")
        for _ in range(5):
            clock.now += LEASE - 1
            assert (await store.renew([(found.id, token)], LEASE))[found.id]
            assert await claim(store, node="b") is None

    play(story)


def test_a_job_whose_nodes_die_again_and_again_is_dead_at_last(play: Play) -> None:
    """A lost lease is an attempt: a job that kills its machine does not do so for ever."""

    async def story(store: JobStore, clock: Clock) -> None:
        (job_id,) = await add(store, job(attempts=2))
        for node in ("a", "b"):
            await taken(store, node=node)
            clock.now += LEASE + 1
        assert await claim(store, node="c") is None
        dead = await store.get(job_id)
        assert dead is not None
        assert dead.state == "failed"
        assert "stopped confirming" in str(dead.reason)

    play(story)


def test_a_claim_that_started_nothing_is_given_back_whole(play: Play) -> None:
    """No attempt is counted; it may be for later."""

    async def story(store: JobStore, clock: Clock) -> None:
        (job_id,) = await add(store, job())
        _, token = await taken(store)
        assert await store.release(job_id, token)
        found, token = await taken(store)
        assert found.attempts == 1
        assert await store.release(job_id, token, clock.now + 5)
        assert await claim(store) is None
        assert await state(store, job_id) == "delayed"

    play(story)


def test_cancelling_ends_a_job_in_every_state(play: Play) -> None:
    """One that waits is gone at once; an active one is marked, and its next renewal says so."""

    async def story(store: JobStore, clock: Clock) -> None:
        active, waiting, late = await add(store, job(), job(), job(run_at=clock.now + 9))
        _, token = await taken(store)
        for one in (waiting, late):
            found = await store.cancel(one)
            assert found is not None
            assert found.state == "cancelled"
        marked = await store.cancel(active)
        assert marked is not None
        assert (marked.state, marked.is_cancel_asked) == ("active", True)
        assert await store.renew([(active, token)], LEASE) == {active: False}
        assert await store.cancelled(active, token, Ending(signal="SIGTERM"))
        assert await state(store, active) == "cancelled"
        assert await claim(store) is None
        assert await store.cancel("job-none") is None

    play(story)


def test_a_key_admits_one_unfinished_job(play: Play) -> None:
    """A second is answered with the first, until that is over."""

    async def story(store: JobStore, clock: Clock) -> None:
        ((first, is_new),) = await store.add([job(key="nightly")])
        ((second, is_second),) = await store.add([job(key="nightly")])
        assert (is_new, is_second, second.id) == (True, False, first.id)
        _, token = await taken(store)
        await store.complete(first.id, token, OK)
        ((third, is_third),) = await store.add([job(key="nightly")])
        assert is_third
        assert third.id != first.id

    play(story)


def test_an_id_of_its_maker_is_added_once(play: Play) -> None:
    """Adding again after a crash adds nothing, even when the first is over."""

    async def story(store: JobStore, clock: Clock) -> None:
        await add(store, job(id="job-mine"))
        _, token = await taken(store)
        await store.complete("job-mine", token, OK)
        assert not (await store.add([job(id="job-mine")]))[0][1]
        assert await claim(store) is None

    play(story)


def test_a_job_comes_after_others(play: Play) -> None:
    """It waits until all of them are completed; one that fails makes it fail, with the reason."""

    async def story(store: JobStore, clock: Clock) -> None:
        one, two = await add(store, job(), job(attempts=1))
        after_both, after_one = await add(store, job(after=(one, two)), job(after=(one,)))
        assert await state(store, after_both) == "blocked"
        first, token = await taken(store)
        assert first.id == one
        await store.complete(one, token, OK)
        assert await state(store, after_one) == "waiting"
        _, token = await taken(store)
        await store.fail(two, token, Ending(reason="no"), None)
        dependent = await store.get(after_both)
        assert dependent is not None
        assert dependent.state == "failed"
        assert two in str(dependent.reason)
        await store.retry(two)
        retried = await store.retry(after_both)
        assert retried is not None
        assert retried.state == "blocked"
        with pytest.raises(NotFound):
            await store.add([job(after=("job-nowhere",))])
        assert await state(store, (await add(store, job(after=(one,))))[0]) == "waiting"

    play(story)


def test_nothing_can_come_after_a_job_that_failed(play: Play) -> None:
    """It is said at once, instead of leaving a job that waits for ever."""

    async def story(store: JobStore, clock: Clock) -> None:
        (job_id,) = await add(store, job())
        _, token = await taken(store)
        await store.fail(job_id, token, Ending(reason="no"), None)
        with pytest.raises(Conflict):
            await store.add([job(after=(job_id,))])

    play(story)


def test_adding_several_is_all_or_nothing(play: Play) -> None:
    """A bad job among them leaves none of them behind."""

    async def story(store: JobStore, clock: Clock) -> None:
        with pytest.raises(NotFound):
            await store.add([job(), job(after=("job-nowhere",))])
        assert await claim(store) is None

    play(story)


def test_a_paused_queue_hands_out_nothing(play: Play) -> None:
    """Jobs can be added to it; they are claimed once it goes on."""

    async def story(store: JobStore, clock: Clock) -> None:
        await store.pause(is_paused=True)
        await add(store, job())
        assert await claim(store) is None
        assert await store.is_paused()
        await store.pause(is_paused=False)
        assert await claim(store) is not None

    play(story)


def test_progress_and_result_are_kept(play: Play) -> None:
    """What the job reports is read back as it was written; the next attempt begins without."""

    async def story(store: JobStore, clock: Clock) -> None:
        (job_id,) = await add(store, job())
        _, token = await taken(store)
        assert await store.report(job_id, token, progress=42, result=msgspec.UNSET)
        assert await store.report(job_id, token, progress=msgspec.UNSET, result={"a": [1, None]})
        found = await store.get(job_id)
        assert found is not None
        assert (found.progress, found.result) == (42, {"a": [1, None]})
        await store.fail(job_id, token, Ending(reason="no"), clock.now)
        found, token = await taken(store)
        assert (found.progress, found.result) == (None, None)

    play(story)


def test_a_repeated_job_is_added_once_for_each_time(play: Play) -> None:
    """A time that was settled before a crash adds nothing after it."""

    async def story(store: JobStore, clock: Clock) -> None:
        spec = ScheduleSpec(cron="* * * * *")
        await store.set_repeat(RepeatSpec(id="repeat-1", schedule=spec, request=JobRequest()))
        assert await store.settle_repeat("repeat-1", 60.0, job(id="job-60"))
        assert not await store.settle_repeat("repeat-1", 60.0, job(id="job-60"))
        assert [found.handled for found in await store.repeats()] == [60.0]
        assert await store.remove_repeat("repeat-1")
        assert not await store.settle_repeat("repeat-1", 120.0, job(id="job-120"))
        assert (await store.counts())["waiting"] == 1

    play(story)


def test_failed_jobs_and_old_outputs_expire(play: Play) -> None:
    """Failed jobs go after their time; outputs go, oldest first, when all take too much."""

    async def story(store: JobStore, clock: Clock) -> None:
        ids = await add(store, *[job() for _ in range(3)], job(keep_failed=1000.0))
        for number in range(4):
            found, token = await taken(store)
            clock.now += 1
            ending = Ending(reason="no", log_bytes=100 if number < 3 else 0)
            await store.fail(found.id, token, ending, None)
        expired = await store.expire(keep_failed=500.0, log_size=200)
        assert (expired.jobs, expired.outputs) == (0, (ids[0],))
        clock.now += 600
        assert (await store.expire(keep_failed=500.0, log_size=1000)).jobs == 3
        assert [found.id for found in await store.find(("failed",))] == [ids[3]]

    play(story)


def test_several_nodes_never_get_the_same_job(play: Play) -> None:
    """Claims are atomic, however many ask at once."""

    async def story(store: JobStore, clock: Clock) -> None:
        ids = await add(store, *[job() for _ in range(60)])
        found = await asyncio.gather(*(claim(store, node=f"n{n % 4}") for n in range(80)))
        claimed = [one.id for one in found if one is not None]
        assert sorted(claimed) == sorted(ids)

    play(story)
