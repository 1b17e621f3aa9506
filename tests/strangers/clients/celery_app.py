"""The application of `celery_checks.py`: its broker is the Queue service, its results are blobs."""

import os

from celery import Celery

ACCOUNT, KEY = os.environ["STRANGERS_ACCOUNT"], os.environ["STRANGERS_KEY"]
BLOB, QUEUE = os.environ["STRANGERS_BLOB"], os.environ["STRANGERS_QUEUE"]

app = Celery(
    "strangers",
    broker=f"azurestoragequeues://:{KEY}@{QUEUE}",
    backend=f"azureblockblob://DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={BLOB};",
)
app.conf.broker_transport_options = {"polling_interval": 0.1}
app.conf.broker_connection_retry_on_startup = True


@app.task
def add(first, second):
    return first + second


@app.task
def echo(value):
    return value


@app.task
def fail(message):
    raise ValueError(message)


@app.task(bind=True, max_retries=3)
def succeed_at_the_third_attempt(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries
