"""The AWS CLI, as a shell would call it."""

import json
import os
import pathlib
import subprocess
import sys

from conftest import KEYS, LIMIT_S

AWS = pathlib.Path(sys.executable).with_name("aws")


def aws(server, *arguments, fails=False):
    # Version 1 of the CLI ignores AWS_ENDPOINT_URL for SQS.
    command = [AWS, "--endpoint-url", server.url, "sqs", *arguments]
    environment = {**os.environ, **KEYS, "AWS_PAGER": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    if fails:
        return done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def test_life_cycle(server):
    url = aws(server, "create-queue", "--queue-name", "cli", "--attributes", "VisibilityTimeout=60")["QueueUrl"]
    assert aws(server, "get-queue-url", "--queue-name", "cli") == {"QueueUrl": url}
    sent = aws(
        server, "send-message", "--queue-url", url, "--message-body", "caf\u00e9 <&>", "--message-attributes",
        '{"n":{"DataType":"Number","StringValue":"1"}}',
    )
    (message,) = aws(
        server, "receive-message", "--queue-url", url, "--message-attribute-names", "All", "--wait-time-seconds", "5"
    )["Messages"]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "caf\u00e9 <&>")
    assert message["MessageAttributes"]["n"]["StringValue"] == "1"
    handle = message["ReceiptHandle"]
    aws(
        server, "change-message-visibility", "--queue-url", url, "--receipt-handle", handle,
        "--visibility-timeout", "30",
    )
    aws(server, "delete-message", "--queue-url", url, "--receipt-handle", handle)
    assert aws(server, "receive-message", "--queue-url", url) is None
    aws(server, "delete-queue", "--queue-url", url)
    said = aws(server, "get-queue-url", "--queue-name", "cli", fails=True)
    assert "(AWS.SimpleQueueService.NonExistentQueue)" in said and "The specified queue does not exist." in said
