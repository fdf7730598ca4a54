"""The real binary on a free port, and clients that know nothing of it but its URL."""

import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import uuid

import boto3
import botocore.config
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("RECADO_BIN", ROOT / "target/debug/recado"))
# What one wait in a test may take before it says what never came.
LIMIT_S = 60
KEYS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Server:
    """`recado serve`, which can be killed and started again on its data."""

    def __init__(self, data, *options):
        self.data, self.options, self.process = data, options, None
        self.start()

    def start(self, listen="127.0.0.1:0"):
        command = [BINARY, "serve", "--data", self.data, "--listen", listen, *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        # A server that never says where it is ends, and with it the wait for its first line.
        watch = threading.Timer(LIMIT_S, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        assert line.startswith("listening on "), f"the server said {line!r}"
        self.url = line.split()[-1]

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LIMIT_S)

    def restart(self):
        """After a kill, where it was."""
        self.start(re.sub(r"^https?://", "", self.url))

    def client(self, **settings):
        config = botocore.config.Config(retries={"total_max_attempts": 1}, read_timeout=LIMIT_S)
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        return boto3.client("sqs", endpoint_url=self.url, config=config, **{**keys, **settings})


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("recado"), "--sqs-60s-rules", "off")
    yield running
    running.kill()


@pytest.fixture
def own_server(tmp_path):
    """One that a test may kill, with these options."""
    started = []

    def start(*options):
        started.append(Server(tmp_path / f"data{len(started)}", *options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="session")
def sqs(server):
    return server.client()


@pytest.fixture
def queue(sqs):
    """Makes queues of names that no other test has: `queue(fifo=True, VisibilityTimeout=0)`."""

    def make(fifo=False, **attributes):
        name = f"q-{uuid.uuid4().hex}" + (".fifo" if fifo else "")
        attributes = {key: str(value) for key, value in attributes.items()}
        if fifo:
            attributes["FifoQueue"] = "true"
        return sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    return make


def arn(sqs, url):
    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]


def until(what, found):
    """Waits until something is true, and says what never came."""
    end = time.monotonic() + LIMIT_S
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.02)
