//! Messages: attributes and their digests, filters, and the rules that need the queue.

use recado_sqs::attributes::{FifoAttributes, QueueAttributes};
use recado_sqs::message::{Message, MessageAttributes, Received, SystemAttribute, md5_of_attributes, md5_of_body};
use recado_sqs::request::ReceiveMessage;
use recado_sqs::{Action, Code, Protocol, Request, SqsError};
use serde_json::{Value, json};

use crate::json;

fn send(members: Value) -> Result<Message, SqsError> {
    let mut all = json!({ "QueueUrl": "q", "MessageBody": "one" });
    if let (Some(all), Value::Object(members)) = (all.as_object_mut(), members) {
        all.extend(members);
    }
    match json(Action::SendMessage, &all).read() {
        Ok(Request::SendMessage(request)) => Ok(request.message),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error),
    }
}

fn attributes(attributes: Value) -> MessageAttributes {
    send(json!({ "MessageAttributes": attributes })).unwrap().attributes
}

fn receive(members: Value) -> ReceiveMessage {
    let mut all = json!({ "QueueUrl": "q" });
    if let (Some(all), Value::Object(members)) = (all.as_object_mut(), members) {
        all.extend(members);
    }
    match json(Action::ReceiveMessage, &all).read() {
        Ok(Request::ReceiveMessage(request)) => request,
        other => panic!("{other:?}"),
    }
}

fn said(error: SqsError) -> (Code, String) {
    (error.code(), error.message(Protocol::Json).to_owned())
}

/// The expected values are of an independent implementation; the first is published in client suites.
#[test]
fn digests() {
    let timestamp = json!({ "timestamp": { "DataType": "Number", "StringValue": "1493147359900" } });
    let digest = |value: Value| md5_of_attributes(&attributes(value));
    assert_eq!(digest(timestamp).as_deref(), Some("235c5c510d26fb653d073faed50ae77c"));
    let all = json!({
        "color": { "DataType": "String", "StringValue": "bl\u{e5}" },
        "size": { "DataType": "Number.int", "StringValue": "-12" },
        "raw": { "DataType": "Binary.png", "BinaryValue": "AP8Q" },
    });
    assert_eq!(digest(all).as_deref(), Some("bf5ebb23fd119df4636f01942d8c6bcc"));
    assert_eq!(digest(json!({})), None);
    assert_eq!(md5_of_body("caf\u{e9} & <tea>\r\n\t+ \u{1F600}"), "2a7df4859a5fde0dd087732d8976d16a");

    let trace = json!({ "AWSTraceHeader": { "DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793" } });
    let sent = send(json!({ "MessageSystemAttributes": trace })).unwrap().sent("m".to_owned(), Some("1".to_owned()));
    assert_eq!(sent.md5_of_system_attributes.as_deref(), Some("62a56dd927315f2b2e12832b84617ea5"));
    assert_eq!((sent.md5_of_attributes, sent.md5_of_body), (None, "f97c5d29941bfb1b2fdab0874906ab82".to_owned()));
    assert_eq!((sent.message_id, sent.sequence_number), ("m".to_owned(), Some("1".to_owned())));
}

#[test]
fn attributes_that_are_refused() {
    let one = |name: &str, attribute: Value| send(json!({ "MessageAttributes": { name: attribute } }));
    let text = |name: &str| one(name, json!({ "DataType": "String", "StringValue": "v" }));
    for name in ["a", "A.b-c_9", "caf\u{e9}", &"n".repeat(256), "aws", "amazonas"] {
        assert!(text(name).is_ok(), "{name}");
    }
    for name in ["", "a b", "a!", ".a", "a.", "a..b", "aws.a", "AWS.a", "aMaZon.a", &"n".repeat(257)] {
        assert_eq!(text(name).expect_err(name).code(), Code::InvalidParameterValue, "{name}");
    }
    for (attribute, message) in [
        (
            json!({ "DataType": "String", "StringValue": "" }),
            "Message (user) attribute 'X' must contain a non-empty value of type 'String'.",
        ),
        (
            json!({ "DataType": "String.label" }),
            "Message (user) attribute 'X' must contain a non-empty value of type 'String'.",
        ),
        (
            json!({ "DataType": "Binary", "StringValue": "v" }),
            "Message (user) attribute 'X' must contain a non-empty value of type 'Binary'.",
        ),
        (
            json!({ "DataType": "Binary", "BinaryValue": "" }),
            "Message (user) attribute 'X' must contain a non-empty value of type 'Binary'.",
        ),
        (json!({ "StringValue": "v" }), "Message (user) attribute 'X' must contain a non-empty attribute type."),
        (
            json!({ "DataType": "Text", "StringValue": "v" }),
            "The type of message (user) attribute 'X' is invalid. You must use only the following supported type \
             prefixes: Binary, Number, String.",
        ),
        (
            json!({ "DataType": "Number", "StringValue": "world" }),
            "Can't cast the value of message (user) attribute 'X' to a number.",
        ),
        (
            json!({ "DataType": "String", "StringValue": "a\u{8}" }),
            "Invalid characters found. Valid unicode characters are \
             #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
        ),
    ] {
        assert_eq!(said(one("X", attribute).unwrap_err()), (Code::InvalidParameterValue, message.to_owned()));
    }
    for nothing in ["String.", "Number.", "Binary.", "."] {
        let value = json!({ "DataType": nothing, "StringValue": "1" });
        assert_eq!(one("X", value).unwrap_err().code(), Code::InvalidParameterValue, "{nothing}");
    }
    for both in [
        json!({ "DataType": "Binary", "BinaryValue": "AAE=", "StringValue": "" }),
        json!({ "DataType": "String", "BinaryValue": "", "StringValue": "x" }),
    ] {
        assert!(one("X", both.clone()).is_ok(), "{both}");
    }
    let both = json!({ "DataType": "String", "BinaryValue": "AAE=", "StringValue": "x" });
    assert_eq!(one("X", both).unwrap_err().code(), Code::InvalidParameterValue);
    let label =
        |bytes: usize| one("X", json!({ "DataType": format!("String.{}", "l".repeat(bytes - 7)), "StringValue": "v" }));
    assert!(label(256).is_ok());
    assert_eq!(label(257).unwrap_err().code(), Code::InvalidParameterValue);
    let list = one("X", json!({ "DataType": "String", "StringValue": "v", "StringListValues": ["a"] }));
    assert_eq!(list.unwrap_err().code(), Code::UnsupportedOperation);

    let many = |count: usize| {
        let attribute = json!({ "DataType": "String", "StringValue": "v" });
        let all: serde_json::Map<String, Value> = (0..count).map(|n| (format!("a{n}"), attribute.clone())).collect();
        send(json!({ "MessageAttributes": all }))
    };
    assert!(many(10).is_ok());
    let message = "Number of message attributes [11] exceeds the allowed maximum [10].";
    assert_eq!(said(many(11).unwrap_err()), (Code::InvalidParameterValue, message.to_owned()));
}

#[test]
fn system_attributes_that_are_refused() {
    let one = |name: &str, attribute: Value| send(json!({ "MessageSystemAttributes": { name: attribute } }));
    let header = one("AWSTraceHeader", json!({ "DataType": "String", "StringValue": "Root=1" })).unwrap();
    assert_eq!(header.trace_header.as_deref(), Some("Root=1"));
    for (name, attribute) in [
        ("SenderId", json!({ "DataType": "String", "StringValue": "v" })),
        ("AWSTraceHeader", json!({ "DataType": "Binary", "BinaryValue": "AA==" })),
        ("AWSTraceHeader", json!({ "DataType": "String", "StringValue": "" })),
        ("AWSTraceHeader", json!({ "StringValue": "v" })),
    ] {
        assert_eq!(one(name, attribute).expect_err(name).code(), Code::InvalidParameterValue, "{name}");
    }
}

#[test]
fn characters_of_a_body() {
    let body =
        |body: &str| send(json!({ "MessageBody": body })).map(|message| message.body).map_err(|error| error.code());
    let good = "\t\n\r ~\u{7f}\u{80}\u{D7FF}\u{E000}\u{FFFD}\u{10000}\u{10FFFF}";
    assert_eq!(body(good).as_deref(), Ok(good));
    for bad in ["\u{0}", "\u{8}", "\u{b}", "\u{c}", "\u{e}", "\u{1f}", "\u{FFFE}", "\u{FFFF}"] {
        assert_eq!(body(&format!("a{bad}b")), Err(Code::InvalidMessageContents), "{bad:?}");
    }
}

#[test]
fn a_receive_shows_what_it_asks_for() {
    let full = Received {
        message_id: "m".to_owned(),
        receipt_handle: "h".to_owned(),
        body: "one".to_owned(),
        system: vec![(SystemAttribute::SenderId, "s".to_owned()), (SystemAttribute::MessageGroupId, "g".to_owned())],
        attributes: attributes(json!({
            "color": { "DataType": "String", "StringValue": "bl\u{e5}" },
            "size": { "DataType": "Number.int", "StringValue": "-12" },
            "size.unit": { "DataType": "String", "StringValue": "cm" },
        })),
    };
    let shown = |members: Value| {
        let message = receive(members).show(full.clone());
        assert_eq!(message.md5_of_attributes, md5_of_attributes(&message.attributes), "of what is shown");
        let names: Vec<String> = message.attributes.into_keys().collect();
        (names.join(" "), message.system.iter().map(|(name, _)| name.name()).collect::<Vec<_>>().join(" "))
    };
    let names = |filter: &[&str]| shown(json!({ "MessageAttributeNames": filter })).0;
    assert_eq!(shown(json!({})), (String::new(), String::new()));
    for all in ["All", ".*", "*"] {
        assert_eq!(names(&[all]), "color size size.unit", "{all}");
    }
    assert_eq!(names(&["color"]), "color");
    assert_eq!(names(&["size.*"]), "size.unit");
    assert_eq!(names(&["size.*", "size"]), "size size.unit");
    assert_eq!(names(&["Color", "gone", "", "!", "AWS.x", "col*"]), "", "unknown and illegal names are ignored");

    let system =
        |old: &[&str], new: &[&str]| shown(json!({ "AttributeNames": old, "MessageSystemAttributeNames": new })).1;
    assert_eq!(system(&["All"], &[]), "SenderId MessageGroupId");
    assert_eq!(system(&[], &["All"]), "SenderId MessageGroupId");
    assert_eq!(system(&["SenderId"], &["MessageGroupId"]), "SenderId MessageGroupId", "both members count");
    assert_eq!(system(&["Policy", "nothing"], &["SenderId"]), "SenderId");
}

fn fifo(content_based: bool) -> QueueAttributes {
    let fifo = Some(FifoAttributes { content_based, ..FifoAttributes::default() });
    QueueAttributes { fifo, delay_s: 7, ..QueueAttributes::default() }
}

#[test]
fn what_a_queue_takes() {
    let standard = QueueAttributes { message_bytes_max: 1_024, delay_s: 7, ..QueueAttributes::default() };
    let check = |members: Value, queue: &QueueAttributes| send(members).unwrap().check(queue).map_err(said);
    let value = |message: &str| Err((Code::InvalidParameterValue, message.to_owned()));
    assert_eq!(check(json!({ "MessageGroupId": "g" }), &standard), Ok(()), "fair queues");
    assert_eq!(
        check(json!({ "MessageDeduplicationId": "d" }), &standard),
        value(
            "Value d for parameter MessageDeduplicationId is invalid. Reason: The request include parameter that is not \
         valid for this queue type.",
        )
    );
    assert_eq!(
        check(json!({}), &fifo(true)),
        Err((Code::MissingParameter, "The request must contain the parameter MessageGroupId.".to_owned()))
    );
    let neither = "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided \
         explicitly";
    assert_eq!(check(json!({ "MessageGroupId": "g" }), &fifo(false)), value(neither));
    assert_eq!(check(json!({ "MessageGroupId": "g" }), &fifo(true)), Ok(()));
    assert_eq!(check(json!({ "MessageGroupId": "g", "MessageDeduplicationId": "d" }), &fifo(false)), Ok(()));
    let delayed = |delay: u32| json!({ "MessageGroupId": "g", "MessageDeduplicationId": "d", "DelaySeconds": delay });
    assert_eq!(check(delayed(0), &fifo(false)), Ok(()));
    assert_eq!(
        check(delayed(2), &fifo(false)),
        value(
            "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for \
         this queue type.",
        )
    );

    let sized = |bytes: usize| {
        json!({
            "MessageBody": "b".repeat(bytes - 8),
            "MessageAttributes": { "a": { "DataType": "String", "StringValue": "v" } },
            "MessageSystemAttributes": { "AWSTraceHeader": { "DataType": "String", "StringValue": "free" } },
        })
    };
    assert_eq!(check(sized(1_024), &standard), Ok(()));
    let message = "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes.";
    assert_eq!(check(sized(1_025), &standard), value(message));
}

#[test]
fn what_a_queue_makes_of_it() {
    let standard = QueueAttributes { delay_s: 7, ..QueueAttributes::default() };
    let message = |members: Value| send(members).unwrap();
    assert_eq!(message(json!({})).delay_s_in(&standard), 7);
    assert_eq!(message(json!({ "DelaySeconds": 0 })).delay_s_in(&standard), 0);
    assert_eq!(message(json!({ "DelaySeconds": 0 })).delay_s_in(&fifo(true)), 7, "only the queue's own");

    let hash = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    let id = |members: Value, queue: &QueueAttributes| message(members).deduplication_id_in(queue);
    assert_eq!(id(json!({}), &standard), None);
    assert_eq!(id(json!({}), &fifo(false)), None);
    assert_eq!(id(json!({}), &fifo(true)).as_deref(), Some(hash));
    assert_eq!(id(json!({ "MessageDeduplicationId": "d" }), &fifo(true)).as_deref(), Some("d"), "explicit wins");
}
