"""boto3, unchanged but for its endpoint. It checks the digests of what it sends and receives itself."""

import concurrent.futures
import hashlib
import json
import os
import threading
import urllib.request

import botocore.exceptions
import pytest

from conftest import arn, until

RECEIVE = {"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}


def refused(call, **members):
    """Code, code of the JSON protocol, and message of a call that is refused."""
    with pytest.raises(botocore.exceptions.ClientError) as raised:
        call(**members)
    error = raised.value.response["Error"]
    assert error["Type"] == "Sender"
    return error["Code"], error["QueryErrorCode"], error["Message"]


def receive(sqs, url, **members):
    return sqs.receive_message(QueueUrl=url, **{**RECEIVE, **members}).get("Messages", [])


def bodies(messages):
    return [message["Body"] for message in messages]


def test_the_life_of_a_queue(sqs, server, queue):
    url = queue(VisibilityTimeout=5)
    assert url.startswith(server.url + "/000000000000/q-"), "the host is the one that was used"
    name = url.rsplit("/", 1)[1]
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    assert sqs.create_queue(QueueName=name)["QueueUrl"] == url
    assert sqs.list_queues(QueueNamePrefix=name)["QueueUrls"] == [url]
    assert "QueueUrls" not in sqs.list_queues(QueueNamePrefix="none-begins-so")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "7" and attributes["QueueArn"].endswith(":000000000000:" + name)
    assert refused(sqs.create_queue, QueueName=name, Attributes={"VisibilityTimeout": "5"}) == (
        "QueueAlreadyExists",
        "QueueNameExists",
        "A queue already exists with the same name and a different value for attribute VisibilityTimeout",
    )
    sqs.purge_queue(QueueUrl=url)
    sqs.delete_queue(QueueUrl=url)
    assert refused(sqs.get_queue_url, QueueName=name) == (
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "The specified queue does not exist.",
    )


def test_pages_of_queues(sqs, queue):
    dead = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 1})
    sources = sorted(queue(RedrivePolicy=policy) for _ in range(3))
    pages = sqs.get_paginator("list_dead_letter_source_queues").paginate(
        QueueUrl=dead, PaginationConfig={"PageSize": 2}
    )
    sizes = [page["queueUrls"] for page in pages]
    assert [len(page) for page in sizes] == [2, 1] and sorted(sum(sizes, [])) == sources
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix="q-", PaginationConfig={"PageSize": 2})
    listed = [url for page in pages for url in page["QueueUrls"]]
    assert {dead, *sources} <= set(listed) and len(listed) == len(set(listed))


def test_tags(sqs, queue):
    url = queue()
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)
    sqs.tag_queue(QueueUrl=url, Tags={"team": "mail", "empty": ""})
    sqs.tag_queue(QueueUrl=url, Tags={"team": "post", "Team": "x"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["Team", "gone"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "post", "empty": ""}
    sqs.untag_queue(QueueUrl=url, TagKeys=["team", "empty"])
    assert "Tags" not in sqs.list_queue_tags(QueueUrl=url)


def test_permissions(sqs, queue):
    url = queue()
    add = {"QueueUrl": url, "Label": "readers", "AWSAccountIds": ["111111111111"], "Actions": ["ReceiveMessage"]}
    sqs.add_permission(**add)
    policy = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])["Attributes"]["Policy"]
    assert json.loads(policy) == {
        "Version": "2008-10-17",
        "Id": arn(sqs, url) + "/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "readers",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
                "Action": "SQS:ReceiveMessage",
                "Resource": arn(sqs, url),
            }
        ],
    }
    assert refused(sqs.add_permission, **add)[2].endswith("Reason: Already exists.")
    sqs.remove_permission(QueueUrl=url, Label="readers")
    assert refused(sqs.remove_permission, QueueUrl=url, Label="readers")[2].endswith("can't find label.")
    assert "Attributes" not in sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"])


def test_the_life_of_a_message(sqs, queue):
    url = queue()
    body = 'caf\u00e9 & <tea>\r\n\t"\\" \U0001f600 \u2028'
    attributes = {
        "color": {"DataType": "String", "StringValue": "bl\u00e5"},
        "size": {"DataType": "Number.int", "StringValue": "-12"},
        "raw": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
    }
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    sent = sqs.send_message(
        QueueUrl=url, MessageBody=body, MessageAttributes=attributes, MessageSystemAttributes=trace, MessageGroupId="g"
    )
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    assert "SequenceNumber" not in sent
    (message,) = receive(sqs, url, VisibilityTimeout=0)
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], body)
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    system = message["Attributes"]
    assert system["ApproximateReceiveCount"] == "1" and system["MessageGroupId"] == "g"
    assert system["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]
    assert len(system["SentTimestamp"]) == len(system["ApproximateFirstReceiveTimestamp"]) == 13
    assert system["SenderId"]

    (again,) = receive(sqs, url, MessageAttributeNames=["color"])
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    assert list(again["MessageAttributes"]) == ["color"]
    assert again["MD5OfMessageAttributes"] != message["MD5OfMessageAttributes"]
    assert again["ReceiptHandle"] != message["ReceiptHandle"]
    assert receive(sqs, url) == [], "it is hidden"
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"], VisibilityTimeout=0)
    (last,) = receive(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=last["ReceiptHandle"])
    sqs.delete_message(QueueUrl=url, ReceiptHandle=last["ReceiptHandle"])
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_batches(sqs, queue):
    url = queue()
    entries = [{"Id": f"e{n}", "MessageBody": f"m{n}"} for n in range(10)]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in sent["Successful"]] == [f"e{n}" for n in range(10)] and "Failed" not in sent
    got = receive(sqs, url)
    assert sorted(bodies(got)) == [f"m{n}" for n in range(10)]
    handles = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(got)]
    changed = sqs.change_message_visibility_batch(
        QueueUrl=url, Entries=[{**entry, "VisibilityTimeout": 100} for entry in handles]
    )
    assert len(changed["Successful"]) == 10 and "Failed" not in changed
    handles[3]["ReceiptHandle"] = "garbage"
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=handles)
    assert len(deleted["Successful"]) == 9
    (failed,) = deleted["Failed"]
    assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("3", "ReceiptHandleIsInvalid", True)

    some = sqs.send_message_batch(
        QueueUrl=url, Entries=[{"Id": "bad", "MessageBody": "a\x00"}, {"Id": "good", "MessageBody": "b"}]
    )
    assert [entry["Id"] for entry in some["Successful"]] == ["good"]
    assert [(entry["Id"], entry["Code"]) for entry in some["Failed"]] == [("bad", "InvalidMessageContents")]


LONGEST = 1_048_576


@pytest.mark.parametrize(
    ("action", "members", "code", "json_code", "message"),
    [
        (
            "receive_message",
            {"MaxNumberOfMessages": 11},
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
        ),
        (
            "receive_message",
            {"WaitTimeSeconds": 21},
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "Value 21 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
        ),
        (
            "send_message",
            {"MessageBody": ""},
            "MissingParameter",
            "MissingRequiredParameterException",
            "The request must contain the parameter MessageBody.",
        ),
        (
            "send_message",
            {"MessageBody": "b" * (LONGEST + 1)},
            "InvalidParameterValue",
            "InvalidParameterValueException",
            "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
        ),
        (
            "send_message_batch",
            {"Entries": [{"Id": "a", "MessageBody": "b" * LONGEST}, {"Id": "b", "MessageBody": "b"}]},
            "AWS.SimpleQueueService.BatchRequestTooLong",
            "BatchRequestTooLong",
            "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        ),
        (
            "send_message_batch",
            {"Entries": []},
            "AWS.SimpleQueueService.EmptyBatchRequest",
            "EmptyBatchRequest",
            "There should be at least one SendMessageBatchRequestEntry in the request.",
        ),
        (
            "delete_message",
            {"ReceiptHandle": "garbage"},
            "ReceiptHandleIsInvalid",
            "ReceiptHandleIsInvalid",
            'The input receipt handle "garbage" is not a valid receipt handle.',
        ),
        (
            "get_queue_attributes",
            {"AttributeNames": ["Foobar"]},
            "InvalidAttributeName",
            "InvalidAttributeName",
            "Unknown Attribute Foobar.",
        ),
        (
            "set_queue_attributes",
            {"Attributes": {"DelaySeconds": "901"}},
            "InvalidAttributeValue",
            "InvalidAttributeValue",
            "Invalid value for the parameter DelaySeconds.",
        ),
    ],
)
def test_refusals(sqs, queue, action, members, code, json_code, message):
    assert refused(getattr(sqs, action), QueueUrl=queue(), **members) == (code, json_code, message)


def test_the_longest_message(sqs, queue):
    url = queue()
    # As ASCII JSON this is three times as long.
    body = "\u00e9" * (LONGEST // 2)
    sqs.send_message(QueueUrl=url, MessageBody=body)
    (message,) = receive(sqs, url)
    assert message["Body"] == body


def test_delay(sqs, queue):
    url = queue(DelaySeconds=900)
    sqs.send_message(QueueUrl=url, MessageBody="late")
    sqs.send_message(QueueUrl=url, MessageBody="soon", DelaySeconds=0)
    assert bodies(receive(sqs, url)) == ["soon"]
    sqs.send_message(QueueUrl=url, MessageBody="in a second", DelaySeconds=1)
    assert bodies(receive(sqs, url, WaitTimeSeconds=20)) == ["in a second"], "a long poll wakes up"


def test_a_long_poll_wakes_up(sqs, server, queue):
    url = queue()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(receive, server.client(), url, WaitTimeSeconds=20)
        sqs.send_message(QueueUrl=url, MessageBody="x")
        (message,) = waiting.result(60)
        waiting = pool.submit(receive, server.client(), url, WaitTimeSeconds=20)
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=1)
        assert bodies(waiting.result(60)) == ["x"]


def test_fifo_order_and_locks(sqs, queue):
    url = queue(fifo=True, ContentBasedDeduplication="true")
    numbers = [
        sqs.send_message(QueueUrl=url, MessageBody=f"{group}{n}", MessageGroupId=group)["SequenceNumber"]
        for group, n in [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    ]
    assert all(len(number) == 20 for number in numbers) and numbers == sorted(numbers)
    first = receive(sqs, url, MaxNumberOfMessages=2)
    assert bodies(first) == ["a1", "a2"]
    assert bodies(receive(sqs, url)) == ["b1", "b2"], "the other group"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=first[0]["ReceiptHandle"])
    sqs.send_message(QueueUrl=url, MessageBody="a3", MessageGroupId="a")
    assert receive(sqs, url) == [], "locked while a2 is in flight"
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first[1]["ReceiptHandle"], VisibilityTimeout=0)
    assert bodies(receive(sqs, url)) == ["a2", "a3"]


def test_fifo_deduplication(sqs, queue):
    url = queue(fifo=True)
    send = {"QueueUrl": url, "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    one = sqs.send_message(MessageBody="one", **send)
    two = sqs.send_message(MessageBody="two", **send)
    assert (one["MessageId"], one["SequenceNumber"]) == (two["MessageId"], two["SequenceNumber"])
    (message,) = receive(sqs, url)
    assert message["Body"] == "one" and message["Attributes"]["MessageDeduplicationId"] == "d"
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert sqs.send_message(MessageBody="three", **send)["MessageId"] == one["MessageId"]
    assert receive(sqs, url) == []
    assert refused(sqs.send_message, QueueUrl=url, MessageBody="x", MessageGroupId="g")[2].startswith(
        "The queue should either have ContentBasedDeduplication enabled"
    )


def test_fifo_under_concurrency(sqs, server, queue):
    url = queue(fifo=True, ContentBasedDeduplication="true")
    groups, each = 4, 25
    for n in range(each):
        entries = [{"Id": str(g), "MessageBody": f"{g}:{n}", "MessageGroupId": str(g)} for g in range(groups)]
        assert "Failed" not in sqs.send_message_batch(QueueUrl=url, Entries=entries)

    def consume():
        client = server.client()
        # Another consumer may hold all groups for a moment: only who has seen nothing for a while ends.
        while messages := receive(client, url, MaxNumberOfMessages=3, WaitTimeSeconds=2):
            for message in messages:
                with lock:
                    seen.append(message["Body"])
                client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    lock, seen = threading.Lock(), []
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for consumer in [pool.submit(consume) for _ in range(4)]:
            consumer.result(120)
    assert sorted(seen) == sorted(f"{g}:{n}" for g in range(groups) for n in range(each)), "each once"
    for g in range(groups):
        order = [int(body.split(":")[1]) for body in seen if body.startswith(f"{g}:")]
        assert order == sorted(order), f"group {g}"


def test_dead_letters_and_their_way_back(sqs, queue):
    dead = queue()
    policy = json.dumps({"deadLetterTargetArn": arn(sqs, dead), "maxReceiveCount": 2})
    source = queue(RedrivePolicy=policy, VisibilityTimeout=0)
    sent = sqs.send_message(QueueUrl=source, MessageBody="poison")
    for count in ["1", "2"]:
        (message,) = until("the message again", lambda: receive(sqs, source))
        assert message["Attributes"]["ApproximateReceiveCount"] == count
    (message,) = until("the dead letter", lambda: receive(sqs, source) or receive(sqs, dead, VisibilityTimeout=0))
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "poison")
    assert message["Attributes"]["DeadLetterQueueSourceArn"] == arn(sqs, source)
    assert message["Attributes"]["ApproximateReceiveCount"] == "3"
    assert sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [source]

    handle = sqs.start_message_move_task(SourceArn=arn(sqs, dead))["TaskHandle"]
    (back,) = until("the message in its source", lambda: receive(sqs, source))
    assert back["MessageId"] != sent["MessageId"], "a new message"
    assert back["Attributes"]["ApproximateReceiveCount"] == "1"

    def completed():
        (task,) = sqs.list_message_move_tasks(SourceArn=arn(sqs, dead))["Results"]
        return task if task["Status"] == "COMPLETED" else None

    task = until("the end of the move", completed)
    assert task["ApproximateNumberOfMessagesMoved"] == 1 and "TaskHandle" not in task
    assert "DestinationArn" not in task
    assert refused(sqs.start_message_move_task, SourceArn=arn(sqs, source))[2] == (
        "Source queue must be configured as a Dead Letter Queue."
    )
    with pytest.raises(botocore.exceptions.ClientError):
        sqs.cancel_message_move_task(TaskHandle=handle)


def test_a_kill_loses_nothing_and_gives_back_what_was_in_flight(own_server):
    server = own_server("--sqs-60s-rules", "off")
    sqs = server.client()
    url = sqs.create_queue(QueueName="kill", Attributes={"VisibilityTimeout": "2"})["QueueUrl"]
    for n in range(5):
        sqs.send_message(QueueUrl=url, MessageBody=str(n))
    (held, *_) = receive(sqs, url, MaxNumberOfMessages=1)
    server.kill()
    server.restart()
    sqs = server.client()
    seen = set()

    def all_came():
        seen.update(bodies(receive(sqs, url, WaitTimeSeconds=1, VisibilityTimeout=100)))
        return len(seen) == 5

    until("every message, the one in flight too", all_came)
    assert held["Body"] in seen


def test_sixty_seconds_rules(own_server):
    sqs = own_server().client()
    url = sqs.create_queue(QueueName="rules")["QueueUrl"]
    sqs.purge_queue(QueueUrl=url)
    assert refused(sqs.purge_queue, QueueUrl=url) == (
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        "PurgeQueueInProgress",
        "Only one PurgeQueue operation on rules is allowed every 60 seconds.",
    )
    sqs.delete_queue(QueueUrl=url)
    assert refused(sqs.create_queue, QueueName="rules") == (
        "AWS.SimpleQueueService.QueueDeletedRecently",
        "QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    )


def test_signatures(own_server, tmp_path, monkeypatch):
    config = tmp_path / "recado.toml"
    config.write_text('[sqs.keys]\nAKIAEXAMPLE = "env:RECADO_TEST_SECRET"\n')
    monkeypatch.setenv("RECADO_TEST_SECRET", "s3cr/et+key")
    server = own_server("--config", config)
    good = {"aws_access_key_id": "AKIAEXAMPLE", "aws_secret_access_key": "s3cr/et+key"}
    assert server.client(**good).list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200
    wrong = refused(server.client(**{**good, "aws_secret_access_key": "other"}).list_queues)
    assert wrong[0] == "SignatureDoesNotMatch"
    unknown = refused(server.client(**{**good, "aws_access_key_id": "AKIAOTHER"}).list_queues)
    assert unknown[0] == "InvalidClientTokenId"


def test_one_world_with_the_native_api(sqs, server, queue):
    url = queue()
    name = url.rsplit("/", 1)[1]
    body = json.dumps({"type": "mail", "payload": {"n": 1}}).encode()
    request = urllib.request.Request(
        f"{server.url}/v1/queues/{name}/jobs", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        job = json.load(answer)
    (message,) = receive(sqs, url)
    assert json.loads(message["Body"]) == {"n": 1}
    assert message["MessageId"].replace("-", "") in json.dumps(job)
