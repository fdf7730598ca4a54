//! Every answer, byte for byte, in both protocols.

use std::collections::BTreeMap;

use quick_xml::events::Event;
use recado_sqs::answer::{Answer, Batch, Done, Failure, Message, MoveStatus, MoveTask, QueueUrls, Sent, SentEntry};
use recado_sqs::attributes::AttributeName;
use recado_sqs::message::{AttributeValue, MessageAttribute, SystemAttribute};
use recado_sqs::{Code, Form, SqsError, encode};

const URL: &str = "http://127.0.0.1:7070/000000000000/email";

fn url() -> String {
    URL.to_owned()
}

fn sent() -> Sent {
    Sent {
        message_id: "m".to_owned(),
        md5_of_body: "b".to_owned(),
        md5_of_attributes: None,
        md5_of_system_attributes: None,
        sequence_number: None,
    }
}

fn message(body: &str) -> Message {
    Message {
        message_id: "m".to_owned(),
        receipt_handle: "h".to_owned(),
        body: body.to_owned(),
        md5_of_body: "d".to_owned(),
        system: Vec::new(),
        attributes: BTreeMap::new(),
        md5_of_attributes: None,
    }
}

fn failure() -> Failure {
    Failure { id: "b".to_owned(), error: SqsError::missing("MessageGroupId").in_batch() }
}

/// JSON, and what stands inside of the XML's result, `None` where there is no result at all.
#[track_caller]
fn check(answer: Answer, json: &str, result: Option<&str>) {
    let action = answer.action().name();
    let answer = Ok(answer);
    let response = encode(Form::Json, &answer, "req-1");
    assert_eq!(
        (response.status(), response.headers()["content-type"].as_bytes()),
        (http::StatusCode::OK, &b"application/x-amz-json-1.0"[..])
    );
    assert_eq!(response.headers()["x-amzn-requestid"], "req-1");
    assert!(!response.headers().contains_key("x-amzn-query-error"));
    assert_eq!(str::from_utf8(response.body()).unwrap(), json);

    let response = encode(Form::Xml, &answer, "req-1");
    assert_eq!(
        (response.status(), response.headers()["content-type"].as_bytes()),
        (http::StatusCode::OK, &b"text/xml"[..])
    );
    assert_eq!(response.headers()["x-amzn-requestid"], "req-1");
    let result = match result {
        None => String::new(),
        Some("") => format!("<{action}Result/>"),
        Some(inner) => format!("<{action}Result>{inner}</{action}Result>"),
    };
    let expected = format!(
        "<?xml version=\"1.0\"?><{action}Response xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">{result}\
         <ResponseMetadata><RequestId>req-1</RequestId></ResponseMetadata></{action}Response>"
    );
    assert_eq!(str::from_utf8(response.body()).unwrap(), expected);
}

/// JSON for callers of the Query protocol, as such callers read it: a map is a list of entries as in its XML, what is
/// absent is null, and two lists have names of their own.
#[test]
fn the_query_protocol_in_json() {
    let check = |answer: Answer, inner: &str| {
        let action = answer.action().name();
        let response = encode(Form::QueryJson, &Ok(answer), "req-1");
        assert_eq!(response.headers()["content-type"], "application/json");
        let expected = format!(r#"{{"{action}Response":{{{inner}"ResponseMetadata":{{"RequestId":"req-1"}}}}}}"#);
        assert_eq!(str::from_utf8(response.body()).unwrap(), expected);
    };
    check(Answer::PurgeQueue, "");
    check(Answer::ReceiveMessage(vec![]), r#""ReceiveMessageResult":{"messages":null},"#);
    check(
        Answer::GetQueueAttributes(vec![(AttributeName::DelaySeconds, "5".to_owned())]),
        r#""GetQueueAttributesResult":{"Attributes":[{"Name":"DelaySeconds","Value":"5"}]},"#,
    );
    check(
        Answer::ListQueueTags(BTreeMap::from([("a".to_owned(), String::new()), ("b".to_owned(), "x".to_owned())])),
        r#""ListQueueTagsResult":{"Tags":[{"Key":"a","Value":""},{"Key":"b","Value":"x"}]},"#,
    );
    let number = MessageAttribute { data_type: "Number".to_owned(), value: AttributeValue::Text("1".to_owned()) };
    let attributes = BTreeMap::from([("n".to_owned(), number)]);
    check(
        Answer::ReceiveMessage(vec![Message { attributes, ..message("x") }]),
        concat!(
            r#""ReceiveMessageResult":{"messages":[{"MessageId":"m","ReceiptHandle":"h","MD5OfBody":"d","Body":"x","#,
            r#""Attributes":null,"MD5OfMessageAttributes":null,"#,
            r#""MessageAttributes":[{"Name":"n","Value":{"StringValue":"1","DataType":"Number"}}]}]},"#
        ),
    );
}

#[test]
fn lists_of_the_query_protocol_in_json() {
    for (urls, expected) in [
        (QueueUrls::default(), r#"{"queueUrls":null,"NextToken":null}"#),
        (QueueUrls { urls: vec!["u".to_owned()], next: None }, r#"{"queueUrls":["u"],"NextToken":null}"#),
    ] {
        for answer in [Answer::ListQueues(urls.clone()), Answer::ListDeadLetterSourceQueues(urls)] {
            let action = answer.action().name();
            let response = encode(Form::QueryJson, &Ok(answer), "req-1");
            let text = str::from_utf8(response.body()).unwrap();
            assert!(text.contains(&format!(r#""{action}Result":{expected}"#)), "{text}");
        }
    }
}

#[test]
fn actions_that_are_only_done() {
    for answer in [
        Answer::AddPermission,
        Answer::ChangeMessageVisibility,
        Answer::DeleteMessage,
        Answer::DeleteQueue,
        Answer::PurgeQueue,
        Answer::RemovePermission,
        Answer::SetQueueAttributes,
        Answer::TagQueue,
        Answer::UntagQueue,
    ] {
        check(answer, "{}", None);
    }
}

#[test]
fn queues() {
    let (json, xml) = (format!(r#"{{"QueueUrl":"{URL}"}}"#), format!("<QueueUrl>{URL}</QueueUrl>"));
    check(Answer::CreateQueue { queue_url: url() }, &json, Some(&xml));
    check(Answer::GetQueueUrl { queue_url: url() }, &json, Some(&xml));

    let page = QueueUrls { urls: vec!["a".to_owned(), "b".to_owned()], next: Some("email".to_owned()) };
    let xml = "<QueueUrl>a</QueueUrl><QueueUrl>b</QueueUrl><NextToken>ZW1haWw</NextToken>";
    check(Answer::ListQueues(page.clone()), r#"{"QueueUrls":["a","b"],"NextToken":"ZW1haWw"}"#, Some(xml));
    check(Answer::ListDeadLetterSourceQueues(page), r#"{"queueUrls":["a","b"],"NextToken":"ZW1haWw"}"#, Some(xml));
    check(Answer::ListQueues(QueueUrls::default()), "{}", Some(""));

    let attributes =
        vec![(AttributeName::DelaySeconds, "0".to_owned()), (AttributeName::Policy, r#"{"a":1}"#.to_owned())];
    check(
        Answer::GetQueueAttributes(attributes),
        r#"{"Attributes":{"DelaySeconds":"0","Policy":"{\"a\":1}"}}"#,
        Some(
            "<Attribute><Name>DelaySeconds</Name><Value>0</Value></Attribute>\
             <Attribute><Name>Policy</Name><Value>{&quot;a&quot;:1}</Value></Attribute>",
        ),
    );
    check(Answer::GetQueueAttributes(Vec::new()), "{}", Some(""));

    let tags = BTreeMap::from([("empty".to_owned(), String::new()), ("team".to_owned(), "a&b".to_owned())]);
    check(
        Answer::ListQueueTags(tags),
        r#"{"Tags":{"empty":"","team":"a&b"}}"#,
        Some("<Tag><Key>empty</Key><Value></Value></Tag><Tag><Key>team</Key><Value>a&amp;b</Value></Tag>"),
    );
    check(Answer::ListQueueTags(BTreeMap::new()), "{}", Some(""));
}

#[test]
fn messages() {
    check(
        Answer::SendMessage(sent()),
        r#"{"MessageId":"m","MD5OfMessageBody":"b"}"#,
        Some("<MessageId>m</MessageId><MD5OfMessageBody>b</MD5OfMessageBody>"),
    );
    let full = Sent {
        md5_of_attributes: Some("a".to_owned()),
        md5_of_system_attributes: Some("s".to_owned()),
        sequence_number: Some("18850000000000000000".to_owned()),
        ..sent()
    };
    let json = r#""MessageId":"m","MD5OfMessageBody":"b","MD5OfMessageAttributes":"a","MD5OfMessageSystemAttributes":"s","SequenceNumber":"18850000000000000000""#;
    let xml = "<MessageId>m</MessageId><MD5OfMessageBody>b</MD5OfMessageBody>\
         <MD5OfMessageAttributes>a</MD5OfMessageAttributes>\
         <MD5OfMessageSystemAttributes>s</MD5OfMessageSystemAttributes>\
         <SequenceNumber>18850000000000000000</SequenceNumber>";
    check(Answer::SendMessage(full.clone()), &format!("{{{json}}}"), Some(xml));

    let failed_json = r#""Failed":[{"Id":"b","Code":"InvalidParameterValue","Message":"The request must contain the parameter MessageGroupId.","SenderFault":true}]"#;
    let failed_xml = "<BatchResultErrorEntry><Id>b</Id><Code>InvalidParameterValue</Code>\
         <Message>The request must contain the parameter MessageGroupId.</Message>\
         <SenderFault>true</SenderFault></BatchResultErrorEntry>";
    check(
        Answer::SendMessageBatch(Batch {
            successful: vec![SentEntry { id: "a".to_owned(), sent: full }],
            failed: vec![failure()],
        }),
        &format!(r#"{{"Successful":[{{"Id":"a",{json}}}],{failed_json}}}"#),
        Some(&format!("<SendMessageBatchResultEntry><Id>a</Id>{xml}</SendMessageBatchResultEntry>{failed_xml}")),
    );
    let done = Batch { successful: vec![Done { id: "a".to_owned() }, Done { id: "c".to_owned() }], failed: Vec::new() };
    let kept = r#"{"Successful":[{"Id":"a"},{"Id":"c"}]}"#;
    let entry = |kind: &str| format!("<{kind}><Id>a</Id></{kind}><{kind}><Id>c</Id></{kind}>");
    check(Answer::DeleteMessageBatch(done.clone()), kept, Some(&entry("DeleteMessageBatchResultEntry")));
    check(Answer::ChangeMessageVisibilityBatch(done), kept, Some(&entry("ChangeMessageVisibilityBatchResultEntry")));
    let failed = Batch { successful: Vec::new(), failed: vec![failure()] };
    check(Answer::DeleteMessageBatch(failed), &format!("{{{failed_json}}}"), Some(failed_xml));
}

#[test]
fn received_messages() {
    check(Answer::ReceiveMessage(Vec::new()), "{}", Some(""));
    let full = Message {
        system: vec![
            (SystemAttribute::SentTimestamp, "1772600767000".to_owned()),
            (SystemAttribute::ApproximateReceiveCount, "1".to_owned()),
        ],
        attributes: BTreeMap::from([
            (
                "a".to_owned(),
                MessageAttribute { data_type: "String".to_owned(), value: AttributeValue::Text("<x>".to_owned()) },
            ),
            (
                "b".to_owned(),
                MessageAttribute { data_type: "Binary".to_owned(), value: AttributeValue::Binary(vec![0, 255, 16]) },
            ),
        ]),
        md5_of_attributes: Some("e".to_owned()),
        ..message("one")
    };
    check(
        Answer::ReceiveMessage(vec![full, message("two\r\n")]),
        concat!(
            r#"{"Messages":[{"MessageId":"m","ReceiptHandle":"h","MD5OfBody":"d","Body":"one","#,
            r#""Attributes":{"SentTimestamp":"1772600767000","ApproximateReceiveCount":"1"},"#,
            r#""MD5OfMessageAttributes":"e","#,
            r#""MessageAttributes":{"a":{"StringValue":"<x>","DataType":"String"},"b":{"BinaryValue":"AP8Q","DataType":"Binary"}}},"#,
            r#"{"MessageId":"m","ReceiptHandle":"h","MD5OfBody":"d","Body":"two\r\n"}]}"#
        ),
        Some(concat!(
            "<Message><MessageId>m</MessageId><ReceiptHandle>h</ReceiptHandle><MD5OfBody>d</MD5OfBody><Body>one</Body>",
            "<Attribute><Name>SentTimestamp</Name><Value>1772600767000</Value></Attribute>",
            "<Attribute><Name>ApproximateReceiveCount</Name><Value>1</Value></Attribute>",
            "<MD5OfMessageAttributes>e</MD5OfMessageAttributes>",
            "<MessageAttribute><Name>a</Name><Value><StringValue>&lt;x&gt;</StringValue><DataType>String</DataType></Value></MessageAttribute>",
            "<MessageAttribute><Name>b</Name><Value><BinaryValue>AP8Q</BinaryValue><DataType>Binary</DataType></Value></MessageAttribute>",
            "</Message>",
            "<Message><MessageId>m</MessageId><ReceiptHandle>h</ReceiptHandle><MD5OfBody>d</MD5OfBody><Body>two&#xD;\n</Body></Message>",
        )),
    );
}

#[test]
fn move_tasks() {
    check(
        Answer::StartMessageMoveTask { task_handle: "t".to_owned() },
        r#"{"TaskHandle":"t"}"#,
        Some("<TaskHandle>t</TaskHandle>"),
    );
    check(
        Answer::CancelMessageMoveTask { moved: 7 },
        r#"{"ApproximateNumberOfMessagesMoved":7}"#,
        Some("<ApproximateNumberOfMessagesMoved>7</ApproximateNumberOfMessagesMoved>"),
    );
    let task = MoveTask {
        task_handle: Some("t".to_owned()),
        status: MoveStatus::Running,
        source: "s".to_owned(),
        destination: Some("d".to_owned()),
        messages_per_second: Some(5),
        moved: 1,
        to_move: Some(9),
        failure_reason: None,
        started_at_ms: 1_772_600_767_000,
    };
    let failed = MoveTask {
        task_handle: None,
        status: MoveStatus::Failed,
        destination: None,
        messages_per_second: None,
        to_move: None,
        failure_reason: Some(Code::QueueDoesNotExist.query_code().to_owned()),
        ..task.clone()
    };
    check(
        Answer::ListMessageMoveTasks(vec![task, failed]),
        concat!(
            r#"{"Results":[{"TaskHandle":"t","Status":"RUNNING","SourceArn":"s","DestinationArn":"d","#,
            r#""MaxNumberOfMessagesPerSecond":5,"ApproximateNumberOfMessagesMoved":1,"#,
            r#""ApproximateNumberOfMessagesToMove":9,"StartedTimestamp":1772600767000},"#,
            r#"{"Status":"FAILED","SourceArn":"s","ApproximateNumberOfMessagesMoved":1,"#,
            r#""FailureReason":"AWS.SimpleQueueService.NonExistentQueue","StartedTimestamp":1772600767000}]}"#
        ),
        Some(concat!(
            "<ListMessageMoveTasksResultEntry><TaskHandle>t</TaskHandle><Status>RUNNING</Status><SourceArn>s</SourceArn>",
            "<DestinationArn>d</DestinationArn><MaxNumberOfMessagesPerSecond>5</MaxNumberOfMessagesPerSecond>",
            "<ApproximateNumberOfMessagesMoved>1</ApproximateNumberOfMessagesMoved>",
            "<ApproximateNumberOfMessagesToMove>9</ApproximateNumberOfMessagesToMove>",
            "<StartedTimestamp>1772600767000</StartedTimestamp></ListMessageMoveTasksResultEntry>",
            "<ListMessageMoveTasksResultEntry><Status>FAILED</Status><SourceArn>s</SourceArn>",
            "<ApproximateNumberOfMessagesMoved>1</ApproximateNumberOfMessagesMoved>",
            "<FailureReason>AWS.SimpleQueueService.NonExistentQueue</FailureReason>",
            "<StartedTimestamp>1772600767000</StartedTimestamp></ListMessageMoveTasksResultEntry>",
        )),
    );
}

/// What a parser of XML finds in the body of the only message.
fn parsed_body(body: &str) -> String {
    let response = encode(Form::Xml, &Ok(Answer::ReceiveMessage(vec![message(body)])), "r");
    let mut reader = quick_xml::Reader::from_reader(&response.body()[..]);
    let (mut inside, mut text) = (false, String::new());
    loop {
        match reader.read_event().unwrap() {
            Event::Start(tag) => inside = tag.name().as_ref() == "Body",
            Event::End(_) => inside = false,
            Event::Text(part) if inside => text.push_str(&part.xml10_content()),
            Event::GeneralRef(part) if inside => {
                let character = part.resolve_char_ref().unwrap();
                text.push_str(&character.map_or_else(
                    || quick_xml::escape::resolve_predefined_entity(&part).unwrap().to_owned(),
                    String::from,
                ));
            }
            Event::Eof => return text,
            _ => {}
        }
    }
}

#[test]
fn xml_keeps_every_character_it_can_hold() {
    let all =
        "\t\n\r \r\n <a href=\"x\">&amp;&#13;]]></a>' \u{7f}\u{85}\u{2028}\u{FFFD}\u{D7FF}\u{E000}\u{10000}\u{10FFFF}";
    assert_eq!(parsed_body(all), all);
    // A payload that did not come by SQS may hold others.
    assert_eq!(parsed_body("a\u{0}b\u{1b}c\u{FFFE}d\u{FFFF}"), "a\u{FFFD}b\u{FFFD}c\u{FFFD}d\u{FFFD}");
}
