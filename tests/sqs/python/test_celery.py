"""Celery with its SQS transport: the program sends tasks, a real worker runs them."""

import os
import pathlib
import subprocess
import sys

from conftest import KEYS, LIMIT_S, until

HERE = pathlib.Path(__file__).parent
CELERY = pathlib.Path(sys.executable).with_name("celery")


def test_tasks_are_run(server, sqs, tmp_path):
    notes = tmp_path / "notes"
    environment = {
        **os.environ, **KEYS, "RECADO_URL": server.url, "RECADO_QUEUE": "celery-tasks", "RECADO_NOTES": str(notes),
    }
    send = "import tasks\nfor n in range(5): tasks.add.delay(n, n)\ntasks.add.apply_async((50, 50), countdown=1)\ntasks.flaky.delay()"
    subprocess.run([sys.executable, "-c", send], cwd=HERE, env=environment, timeout=LIMIT_S, check=True)
    log = open(tmp_path / "log", "w+", encoding="utf-8")
    command = [CELERY, "-A", "tasks", "worker", "--pool", "solo", "--loglevel", "info"]
    worker = subprocess.Popen(command, cwd=HERE, env=environment, stdout=log, stderr=log)
    expected = sorted([*(f"add {2 * n}" for n in range(5)), "add 100", "flaky fails", "flaky works"])

    def noted():
        assert worker.poll() is None, pathlib.Path(log.name).read_text()
        return notes.exists() and sorted(notes.read_text().split("\n")[:-1]) == expected

    try:
        until("the notes of all tasks", noted)
        url = sqs.get_queue_url(QueueName="celery-tasks")["QueueUrl"]

        def empty():
            names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
            counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
            return set(counts.values()) == {"0"}

        until("an empty queue: every task is acknowledged", empty)
    finally:
        worker.kill()
        worker.wait(LIMIT_S)
        log.close()
