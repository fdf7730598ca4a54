//! What is refused without looking at a queue, with the service's own words.

use recado_sqs::request::Request;
use recado_sqs::{Action, Code, Protocol, SqsError};
use serde_json::{Value, json};

use crate::{Owned, form_at, get, json, json_at};

const QUEUE: &str = "http://127.0.0.1:7070/000000000000/email";

#[track_caller]
fn refused(call: &Owned, code: Code, message: &str) {
    let error = call.read().expect_err(message);
    assert_eq!((error.code(), error.message(Protocol::Json)), (code, message));
}

/// A request about a queue, with these members.
fn with(action: Action, members: Value) -> Owned {
    let mut all = json!({ "QueueUrl": QUEUE });
    if let (Some(all), Value::Object(members)) = (all.as_object_mut(), members) {
        all.extend(members);
    }
    json(action, &all)
}

fn invalid(value: &str, parameter: &str, reason: &str) -> String {
    format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}")
}

#[test]
fn the_wrong_action_or_place() {
    let not_valid = |action: &str| format!("The action {action} is not valid for this endpoint.");
    let refuse = |call: &Owned, action: &str| refused(call, Code::InvalidAction, &not_valid(action));
    refuse(&json_at("/", "FooBar", "{}"), "FooBar");
    refuse(&form_at("/", "Action=FooBar"), "FooBar");
    refuse(&form_at("/", "Action=listQueues"), "listQueues");
    refuse(&get("/000000000000/email?Action=ListQueues"), "ListQueues");
    refuse(&form_at("/000000000000/email", "Action=CreateQueue&QueueName=x"), "CreateQueue");
    assert!(get("/000000000000/email?Action=GetQueueUrl&QueueName=other").read().is_ok());
    refused(&get("/000000000000/email"), Code::UnknownOperation, "");
    refused(&form_at("/", "Version=2012-11-05"), Code::MissingAction, "The request must contain the parameter Action.");
}

#[test]
fn the_wrong_form() {
    let code = |call: &Owned| call.read().expect_err("refused").code();
    for body in ["[]", "{", "x", "1", r#"{"QueueUrl":"#, "{\"QueueUrl\":\"\u{1}\"}", r#"{"QueueUrl":"\ud800"}"#] {
        assert_eq!(code(&json_at("/", "PurgeQueue", body)), Code::MalformedInput, "{body}");
    }
    assert_eq!(code(&json_at("/", "PurgeQueue", [b'{', 0xff])), Code::MalformedInput);
    for (action, members) in [
        (Action::SendMessage, json!({ "MessageBody": 1 })),
        (Action::SendMessage, json!({ "MessageBody": "b", "DelaySeconds": 1.5 })),
        (Action::SendMessage, json!({ "MessageBody": "b", "DelaySeconds": [] })),
        (Action::SendMessage, json!({ "MessageBody": "b", "MessageAttributes": [] })),
        (Action::SendMessage, json!({ "MessageBody": "b", "MessageAttributes": { "a": "b" } })),
        (
            Action::SendMessage,
            json!({ "MessageBody": "b", "MessageAttributes": { "a": { "DataType": "Binary", "BinaryValue": "*" } } }),
        ),
        (Action::SendMessageBatch, json!({ "Entries": {} })),
        (Action::SendMessageBatch, json!({ "Entries": ["a"] })),
        (Action::SetQueueAttributes, json!({ "Attributes": { "DelaySeconds": 1 } })),
        (Action::TagQueue, json!({ "Tags": "x" })),
        (Action::UntagQueue, json!({ "TagKeys": [1] })),
        (Action::ReceiveMessage, json!({ "AttributeNames": "All" })),
    ] {
        assert_eq!(code(&with(action, members.clone())), Code::MalformedInput, "{members}");
    }
    for body in [
        "Action=SendMessage&MessageBody=%FF",
        "Action=PurgeQueue&A=1&A.1=2",
        "Action=PurgeQueue&A.1=2&A=1",
        "Action=UntagQueue&QueueUrl=q&TagKey.x=1",
        "Action=TagQueue&QueueUrl=q&Tag.1=x",
    ] {
        assert_eq!(code(&form_at("/", body)), Code::MalformedInput, "{body}");
    }
    let parameters = |count: usize| form_at("/", &format!("Action=PurgeQueue&QueueUrl=q{}", "&a=".repeat(count - 2)));
    assert!(parameters(4_000).read().is_ok());
    assert_eq!(code(&parameters(4_001)), Code::MalformedInput);
}

#[test]
fn what_must_be_there() {
    let missing = |call: &Owned, parameter: &str| {
        refused(call, Code::MissingParameter, &format!("The request must contain the parameter {parameter}."));
    };
    let no_queue = [
        Action::CreateQueue,
        Action::GetQueueUrl,
        Action::ListQueues,
        Action::StartMessageMoveTask,
        Action::CancelMessageMoveTask,
        Action::ListMessageMoveTasks,
    ];
    for action in Action::ALL.iter().filter(|action| !no_queue.contains(action)) {
        missing(&json(*action, &json!({})), "QueueUrl");
        missing(&form_at("/", &format!("Action={}", action.name())), "QueueUrl");
    }
    for (action, parameter) in [
        (Action::CreateQueue, "QueueName"),
        (Action::GetQueueUrl, "QueueName"),
        (Action::StartMessageMoveTask, "SourceArn"),
        (Action::ListMessageMoveTasks, "SourceArn"),
        (Action::CancelMessageMoveTask, "TaskHandle"),
        (Action::AddPermission, "Label"),
        (Action::RemovePermission, "Label"),
        (Action::SendMessage, "MessageBody"),
        (Action::DeleteMessage, "ReceiptHandle"),
        (Action::ChangeMessageVisibility, "ReceiptHandle"),
        (Action::TagQueue, "Tags"),
        (Action::UntagQueue, "TagKeys"),
    ] {
        missing(&with(action, json!({})), parameter);
    }
    missing(&with(Action::SendMessage, json!({ "MessageBody": "" })), "MessageBody");
    missing(&with(Action::ChangeMessageVisibility, json!({ "ReceiptHandle": "h" })), "VisibilityTimeout");
    missing(&with(Action::AddPermission, json!({ "Label": "l" })), "AWSAccountIds");
    missing(&with(Action::AddPermission, json!({ "Label": "l", "AWSAccountIds": ["111111111111"] })), "Actions");
    missing(&with(Action::DeleteMessageBatch, json!({ "Entries": [{}] })), "DeleteMessageBatchRequestEntry.1.Id");
}

#[test]
fn ranges() {
    use Action::{
        ChangeMessageVisibility, ListMessageMoveTasks, ListQueues, ReceiveMessage, SendMessage, StartMessageMoveTask,
    };
    const ARN: &str = "arn:aws:sqs:us-east-1:000000000000:dead";
    let table: &[(Action, Value, &str, i64, i64, &str)] = &[
        (ReceiveMessage, json!({}), "MaxNumberOfMessages", 1, 10, "Must be between 1 and 10, if provided."),
        (ReceiveMessage, json!({}), "WaitTimeSeconds", 0, 20, "Must be >= 0 and <= 20, if provided."),
        (ReceiveMessage, json!({}), "VisibilityTimeout", 0, 43_200, "Must be >= 0 and <= 43200, if provided."),
        (
            ChangeMessageVisibility,
            json!({ "ReceiptHandle": "h" }),
            "VisibilityTimeout",
            0,
            43_200,
            "Must be >= 0 and <= 43200, if provided.",
        ),
        (SendMessage, json!({ "MessageBody": "b" }), "DelaySeconds", 0, 900, "DelaySeconds must be >= 0 and <= 900."),
        (ListQueues, json!({}), "MaxResults", 1, 1_000, "MaxResults must be an integer between 1 and 1000."),
        (
            ListMessageMoveTasks,
            json!({ "SourceArn": ARN }),
            "MaxResults",
            1,
            10,
            "MaxResults must be an integer between 1 and 10.",
        ),
        (
            StartMessageMoveTask,
            json!({ "SourceArn": ARN }),
            "MaxNumberOfMessagesPerSecond",
            1,
            500,
            "MaxNumberOfMessagesPerSecond must be an integer between 1 and 500.",
        ),
    ];
    for (action, members, parameter, min, max, reason) in table {
        let call = |value: i64| {
            let mut members = members.clone();
            members[*parameter] = json!(value);
            with(*action, members)
        };
        for value in [*min, *max] {
            assert!(call(value).read().is_ok(), "{parameter} {value}");
        }
        for value in [min - 1, max + 1, i64::MAX] {
            refused(&call(value), Code::InvalidParameterValue, &invalid(&value.to_string(), parameter, reason));
        }
    }
    refused(
        &form_at("/", "Action=ReceiveMessage&QueueUrl=q&WaitTimeSeconds=soon"),
        Code::InvalidParameterValue,
        &invalid("soon", "WaitTimeSeconds", "Must be an integer."),
    );
}

fn entries(action: Action, entries: Vec<Value>) -> Owned {
    with(action, json!({ "Entries": entries }))
}

#[test]
fn batches_as_a_whole() {
    for (action, kind) in [
        (Action::SendMessageBatch, "SendMessageBatchRequestEntry"),
        (Action::DeleteMessageBatch, "DeleteMessageBatchRequestEntry"),
        (Action::ChangeMessageVisibilityBatch, "ChangeMessageVisibilityBatchRequestEntry"),
    ] {
        let entry = |id: &str| json!({ "Id": id, "MessageBody": "b", "ReceiptHandle": "h", "VisibilityTimeout": 1 });
        let many = |count: usize| entries(action, (0..count).map(|n| entry(&n.to_string())).collect());
        refused(&many(0), Code::EmptyBatchRequest, &format!("There should be at least one {kind} in the request."));
        assert!(many(1).read().is_ok() && many(10).read().is_ok());
        for count in [11, 20] {
            let message = format!("Maximum number of entries per request are 10. You have sent {count}.");
            refused(&many(count), Code::TooManyEntriesInBatchRequest, &message);
        }
        refused(&entries(action, vec![entry("a"), entry("a")]), Code::BatchEntryIdsNotDistinct, "Id a repeated.");
        let longest = "x".repeat(80);
        assert!(entries(action, vec![entry(&longest)]).read().is_ok());
        for id in ["", "a b", "a.b", "\u{e9}", &format!("{longest}x")] {
            let message = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. \
                 It can be at most 80 letters long.";
            refused(&entries(action, vec![entry(id)]), Code::InvalidBatchEntryId, message);
        }
    }
}

#[test]
fn a_batch_has_one_mebibyte() {
    let total = |more: usize| {
        let body = |bytes: usize| "b".repeat(bytes);
        entries(
            Action::SendMessageBatch,
            vec![
                json!({ "Id": "a", "MessageBody": body(500_000) }),
                json!({ "Id": "b", "MessageBody": body(548_576 - 8 + more), "MessageAttributes": { "a": { "DataType": "String", "StringValue": "v" } } }),
            ],
        )
    };
    assert!(total(0).read().is_ok());
    refused(
        &total(1),
        Code::BatchRequestTooLong,
        "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
    );
}

/// The entries' ids, and why those that fail do.
fn outcomes(call: &Owned) -> Vec<(String, Option<(Code, String)>)> {
    let said = |error: SqsError| (error.code(), error.message(Protocol::Json).to_owned());
    match call.read() {
        Ok(Request::SendMessageBatch(batch)) => {
            batch.entries.into_iter().map(|entry| (entry.id, entry.content.err().map(said))).collect()
        }
        Ok(Request::DeleteMessageBatch(batch)) => {
            batch.entries.into_iter().map(|entry| (entry.id, entry.content.err().map(said))).collect()
        }
        Ok(Request::ChangeMessageVisibilityBatch(batch)) => {
            batch.entries.into_iter().map(|entry| (entry.id, entry.content.err().map(said))).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bad_entry_fails_alone() {
    let call = entries(
        Action::SendMessageBatch,
        vec![
            json!({ "Id": "good", "MessageBody": "b" }),
            json!({ "Id": "none" }),
            json!({ "Id": "nul", "MessageBody": "a\u{0}b" }),
            json!({ "Id": "late", "MessageBody": "b", "DelaySeconds": 901 }),
        ],
    );
    let said = |code: Code, message: &str| Some((code, message.to_owned()));
    assert_eq!(
        outcomes(&call),
        [
            ("good".to_owned(), None),
            (
                "none".to_owned(),
                said(Code::InvalidParameterValue, "The request must contain the parameter MessageBody.")
            ),
            (
                "nul".to_owned(),
                said(
                    Code::InvalidMessageContents,
                    "Invalid characters found. Valid unicode characters are \
                 #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
                ),
            ),
            (
                "late".to_owned(),
                said(
                    Code::InvalidParameterValue,
                    &invalid("901", "DelaySeconds", "DelaySeconds must be >= 0 and <= 900."),
                ),
            ),
        ]
    );
    let handle = said(Code::InvalidParameterValue, "The request must contain the parameter ReceiptHandle.");
    for action in [Action::DeleteMessageBatch, Action::ChangeMessageVisibilityBatch] {
        let good = json!({ "Id": "good", "ReceiptHandle": "h", "VisibilityTimeout": 0 });
        let call = entries(action, vec![json!({ "Id": "bad", "VisibilityTimeout": 0 }), good]);
        assert_eq!(outcomes(&call), [("bad".to_owned(), handle.clone()), ("good".to_owned(), None)]);
    }
}

#[test]
fn ids_that_are_compared() {
    for (action, parameter, members) in [
        (Action::SendMessage, "MessageGroupId", json!({ "MessageBody": "b" })),
        (Action::SendMessage, "MessageDeduplicationId", json!({ "MessageBody": "b" })),
        (Action::ReceiveMessage, "ReceiveRequestAttemptId", json!({})),
    ] {
        let call = |id: &str| {
            let mut members = members.clone();
            members[parameter] = json!(id);
            with(action, members)
        };
        let longest = "x".repeat(128);
        for id in ["a", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", longest.as_str()] {
            assert!(call(id).read().is_ok(), "{id}");
        }
        for id in ["", " ", "a b", "\u{e9}", "a\n", &format!("{longest}x")] {
            let reason =
                format!("{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length.");
            refused(&call(id), Code::InvalidParameterValue, &invalid(id, parameter, &reason));
        }
    }
}

#[test]
fn names_of_queues() {
    let create = |name: &str, fifo: bool| {
        let attributes = if fifo { json!({ "FifoQueue": "true" }) } else { json!({}) };
        json(Action::CreateQueue, &json!({ "QueueName": name, "Attributes": attributes }))
    };
    let longest = "x".repeat(80);
    let longest_fifo = format!("{}.fifo", "x".repeat(75));
    for (name, fifo) in [("a", false), ("A-_9", false), (&longest, false), ("a.fifo", true), (&longest_fifo, true)] {
        assert!(create(name, fifo).read().is_ok(), "{name}");
    }
    let long = format!("{longest}x");
    for name in ["a.b", "a b", "a/b", "\u{e9}", "a.fifo", &long] {
        let message = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
        refused(&create(name, false), Code::InvalidParameterValue, message);
    }
    for name in ["a", "a.FIFO"] {
        let error = create(name, true).read().expect_err(name);
        assert_eq!(error.code(), Code::InvalidParameterValue);
    }
    for name in [".fifo", &format!("x{longest_fifo}")] {
        assert_eq!(create(name, true).read().expect_err(name).code(), Code::InvalidParameterValue);
    }
}

#[test]
fn addresses_arns_and_handles() {
    for url in ["http://host", "http://host/", "", "http://host/000000000000/a b"] {
        let message = format!("The address {url} is not valid for this endpoint.");
        refused(&json(Action::PurgeQueue, &json!({ "QueueUrl": url })), Code::InvalidAddress, &message);
    }
    for arn in [
        "",
        "x",
        "arn:aws:sns:r:000000000000:q",
        "arn:aws:sqs:r:0000:q",
        "arn:aws:sqs::000000000000:q",
        "arn:aws:sqs:r:000000000000:",
    ] {
        let code = json(Action::StartMessageMoveTask, &json!({ "SourceArn": arn })).read().expect_err(arn).code();
        assert_eq!(code, if arn.is_empty() { Code::MissingParameter } else { Code::InvalidParameterValue }, "{arn}");
    }
    for handle in ["x", "e30=", "{}", "eyJ0YXNrSWQiOiJhIiwic291cmNlQXJuIjoiYiJ9"] {
        let call = json(Action::CancelMessageMoveTask, &json!({ "TaskHandle": handle }));
        refused(&call, Code::InvalidParameterValue, "Value for parameter TaskHandle is invalid.");
    }
    let token = json(Action::ListQueues, &json!({ "NextToken": "*" }));
    refused(&token, Code::InvalidParameterValue, "Invalid or expired next token.");
}

#[test]
fn permissions_and_tags() {
    let permission = |label: &str, account: &str, actions: &[&str]| {
        with(Action::AddPermission, json!({ "Label": label, "AWSAccountIds": [account], "Actions": actions }))
    };
    assert!(permission("l", "111111111111", &["*"]).read().is_ok());
    let code = |call: &Owned| call.read().expect_err("refused").code();
    assert_eq!(code(&permission("l l", "111111111111", &["*"])), Code::InvalidParameterValue);
    assert_eq!(code(&permission(&"l".repeat(81), "111111111111", &["*"])), Code::InvalidParameterValue);
    assert_eq!(code(&permission("l", "1", &["*"])), Code::InvalidParameterValue);
    assert_eq!(code(&permission("l", "111111111111", &["Send"])), Code::InvalidParameterValue);
    let eight =
        ["SendMessage", "ReceiveMessage", "DeleteMessage", "PurgeQueue", "GetQueueUrl", "TagQueue", "UntagQueue", "*"];
    assert!(permission("l", "111111111111", &eight[..7]).read().is_ok());
    assert_eq!(code(&permission("l", "111111111111", &eight)), Code::OverLimit);

    let tag = |key: &str, value: &str| with(Action::TagQueue, json!({ "Tags": { key: value } }));
    for (key, value) in [("k", ""), (&"\u{e9}".repeat(128), &"v".repeat(256)), ("K with space", "v")] {
        assert!(tag(key, value).read().is_ok(), "{key}");
    }
    for (key, value) in [("", "v"), (&"k".repeat(129), "v"), ("k", &"v".repeat(257)), ("aws:k", "v"), ("AWS:k", "v")] {
        assert_eq!(code(&tag(key, value)), Code::InvalidParameterValue, "{key}");
    }
    let tags = |count: usize| {
        let tags: serde_json::Map<String, Value> = (0..count).map(|n| (n.to_string(), json!("v"))).collect();
        with(Action::TagQueue, json!({ "Tags": tags }))
    };
    assert!(tags(50).read().is_ok());
    assert_eq!(code(&tags(51)), Code::OverLimit);
}
