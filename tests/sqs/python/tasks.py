"""A Celery application over SQS. `RECADO_URL` says where."""

import os
import urllib.parse

import celery

host = urllib.parse.urlsplit(os.environ["RECADO_URL"]).netloc
app = celery.Celery("tasks", broker=f"sqs://test:test@{host}//")
app.conf.update(
    task_default_queue=os.environ["RECADO_QUEUE"],
    broker_transport_options={"region": "us-east-1", "is_secure": False, "wait_time_seconds": 5},
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    broker_connection_retry_on_startup=False,
    result_backend=None,
)


def note(line):
    with open(os.environ["RECADO_NOTES"], "a", encoding="utf-8") as notes:
        notes.write(line + "\n")


@app.task
def add(x, y):
    note(f"add {x + y}")


@app.task(bind=True, max_retries=1)
def flaky(self):
    if self.request.retries == 0:
        note("flaky fails")
        raise self.retry(countdown=0)
    note("flaky works")
