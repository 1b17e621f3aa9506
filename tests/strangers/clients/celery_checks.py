"""Celery with the Queue service as its broker (kombu's `azurestoragequeues`) and blobs for results (`azureblockblob`)."""

import pathlib
import subprocess
import sys

import celery_app as tasks
from checks import check, main

SECONDS = 60


@check
def result():
    assert tasks.add.delay(2, 3).get(timeout=SECONDS) == 5


@check
def text_beyond_ascii():
    assert tasks.echo.delay({"text": "ü+&<>\u2028"}).get(timeout=SECONDS) == {"text": "ü+&<>\u2028"}


@check
def failure():
    try:
        tasks.fail.delay("no").get(timeout=SECONDS)
    except ValueError as error:
        assert str(error) == "no"
    else:
        raise AssertionError("it did not fail")


@check
def retries():
    assert tasks.succeed_at_the_third_attempt.delay().get(timeout=SECONDS) == 2


@check
def countdown():
    assert tasks.add.apply_async((1, 1), countdown=2).get(timeout=SECONDS) == 2


@check
def chain():
    chained = tasks.add.s(1, 2) | tasks.add.s(3)
    assert chained.delay().get(timeout=SECONDS) == 6


@check
def many():
    waiting = [tasks.add.delay(number, 1) for number in range(50)]
    assert [it.get(timeout=SECONDS) for it in waiting] == list(range(1, 51))


@check
def forget():
    done = tasks.add.delay(1, 1)
    done.get(timeout=SECONDS)
    done.forget()
    assert tasks.app.AsyncResult(done.id).state == "PENDING"


@check
def purge():
    tasks.add.apply_async((1, 1), queue="unread")
    with tasks.app.connection_for_write() as connection:
        purged = connection.default_channel.queue_purge("unread")
    assert purged == 1, purged


worker = subprocess.Popen(
    [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool", "solo", "--without-gossip", "--without-mingle"],
    cwd=pathlib.Path(__file__).parent,
)
try:
    main()
finally:
    worker.terminate()
    worker.wait()
