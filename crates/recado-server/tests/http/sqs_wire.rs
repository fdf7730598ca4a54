//! What no client shows of SQS: whole answers, byte for byte. Every action in the XML of the Query protocol, and every
//! code of the table of errors that a caller can provoke, in both protocols.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::server::{Server, until};

/// A server whose queue URLs bear the host that the client used.
fn start() -> Server {
    Server::start_with(|config| config.public_url = None)
}

const AT: &str = "/000000000000/mail";

/// Without the id of the request, which the header has to repeat.
fn body_of(answer: &Answer) -> String {
    let id = answer.header("x-amzn-requestid").unwrap_or_else(|| panic!("{}", answer.head));
    answer.text().replace(&id, "REQUEST")
}

/// A call of the Query protocol that is done: what stands within its `Response`.
fn done(server: &Server, path: &str, form: &str) -> String {
    let answer = server.query(path, form);
    let text = body_of(&answer);
    assert_eq!(answer.status, 200, "{form}: {text}");
    assert_eq!(answer.header("content-type").as_deref(), Some("text/xml"), "{}", answer.head);
    let action = form.strip_prefix("Action=").and_then(|rest| rest.split('&').next()).unwrap();
    let start =
        format!("<?xml version=\"1.0\"?><{action}Response xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\">");
    let end = format!("<ResponseMetadata><RequestId>REQUEST</RequestId></ResponseMetadata></{action}Response>");
    let inner = text.strip_prefix(&start).and_then(|rest| rest.strip_suffix(&end));
    inner.unwrap_or_else(|| panic!("{form}: {text}")).to_owned()
}

/// The text of the first element of this name.
fn element<'x>(xml: &'x str, name: &str) -> &'x str {
    let found = xml.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once(&format!("</{name}>")));
    found.unwrap_or_else(|| panic!("no {name} in {xml}")).0
}

#[test]
fn every_action_in_xml_byte_for_byte() {
    let server = start();
    let url = |name: &str| format!("<QueueUrl>http://localhost/000000000000/{name}</QueueUrl>");
    let check = |path: &str, form: &str, expected: &str| assert_eq!(done(&server, path, form), expected, "{form}");

    let made = format!("<CreateQueueResult>{}</CreateQueueResult>", url("mail"));
    check("/", "Action=CreateQueue&QueueName=mail&Attribute.1.Name=VisibilityTimeout&Attribute.1.Value=60", &made);
    check("/", "Action=CreateQueue&Version=2012-11-05&QueueName=mail", &made);
    check("/", "Action=GetQueueUrl&QueueName=mail", &made.replace("CreateQueue", "GetQueueUrl"));
    check("/", "Action=ListQueues&QueueNamePrefix=no", "<ListQueuesResult/>");
    let listed = format!("<ListQueuesResult>{}</ListQueuesResult>", url("mail"));
    check("/", "Action=ListQueues&QueueNamePrefix=ma", &listed);

    check(AT, "Action=SetQueueAttributes&Attribute.1.Name=DelaySeconds&Attribute.1.Value=0", "");
    check(
        AT,
        "Action=GetQueueAttributes&AttributeName.1=VisibilityTimeout&AttributeName.2=QueueArn",
        "<GetQueueAttributesResult>\
         <Attribute><Name>QueueArn</Name><Value>arn:aws:sqs:us-east-1:000000000000:mail</Value></Attribute>\
         <Attribute><Name>VisibilityTimeout</Name><Value>60</Value></Attribute>\
         </GetQueueAttributesResult>",
    );
    check(AT, "Action=GetQueueAttributes", "<GetQueueAttributesResult/>");
    check(AT, "Action=ListQueueTags", "<ListQueueTagsResult/>");
    check(AT, "Action=TagQueue&Tag.1.Key=team&Tag.1.Value=a%26b&Tag.2.Key=x&Tag.2.Value=", "");
    check(AT, "Action=UntagQueue&TagKey.1=x", "");
    check(
        AT,
        "Action=ListQueueTags",
        "<ListQueueTagsResult><Tag><Key>team</Key><Value>a&amp;b</Value></Tag></ListQueueTagsResult>",
    );
    check(AT, "Action=AddPermission&Label=l&AWSAccountId.1=111111111111&ActionName.1=SendMessage", "");
    check(AT, "Action=RemovePermission&Label=l", "");
    messages(&server);
    check(AT, "Action=PurgeQueue", "");
    check(AT, "Action=DeleteQueue", "");
}

fn messages(server: &Server) {
    let sent = done(
        server,
        AT,
        "Action=SendMessage&MessageBody=a%3Cb%3E%0D%0Ac&MessageAttribute.1.Name=n\
         &MessageAttribute.1.Value.DataType=Number.int&MessageAttribute.1.Value.StringValue=1\
         &MessageAttribute.2.Name=b&MessageAttribute.2.Value.DataType=Binary&MessageAttribute.2.Value.BinaryValue=AAE%3D\
         &MessageSystemAttribute.1.Name=AWSTraceHeader&MessageSystemAttribute.1.Value.DataType=String\
         &MessageSystemAttribute.1.Value.StringValue=Root%3D1",
    );
    let id = element(&sent, "MessageId");
    // Reckoned elsewhere.
    let (body_md5, attributes_md5) = ("abb492d489406b2c87a6dee64cb20015", "10cc5b35af1098a2970731054d381221");
    assert_eq!(
        sent,
        format!(
            "<SendMessageResult><MessageId>{id}</MessageId><MD5OfMessageBody>{body_md5}</MD5OfMessageBody>\
             <MD5OfMessageAttributes>{attributes_md5}</MD5OfMessageAttributes>\
             <MD5OfMessageSystemAttributes>d6619b3d47b81d3fc72c0db005a70eda</MD5OfMessageSystemAttributes>\
             </SendMessageResult>"
        )
    );
    let given = done(
        server,
        AT,
        "Action=ReceiveMessage&AttributeName.1=AWSTraceHeader&MessageSystemAttributeName.1=ApproximateReceiveCount\
         &MessageAttributeName.1=All",
    );
    let handle = element(&given, "ReceiptHandle");
    let attribute =
        |name: &str, value: &str| format!("<Attribute><Name>{name}</Name><Value>{value}</Value></Attribute>");
    assert_eq!(
        given,
        format!(
            "<ReceiveMessageResult><Message><MessageId>{id}</MessageId><ReceiptHandle>{handle}</ReceiptHandle>\
             <MD5OfBody>{body_md5}</MD5OfBody><Body>a&lt;b&gt;&#xD;\nc</Body>{}{}\
             <MD5OfMessageAttributes>{attributes_md5}</MD5OfMessageAttributes>\
             <MessageAttribute><Name>b</Name><Value><BinaryValue>AAE=</BinaryValue><DataType>Binary</DataType></Value>\
             </MessageAttribute><MessageAttribute><Name>n</Name><Value><StringValue>1</StringValue>\
             <DataType>Number.int</DataType></Value></MessageAttribute></Message></ReceiveMessageResult>",
            attribute("ApproximateReceiveCount", "1"),
            attribute("AWSTraceHeader", "Root=1"),
        )
    );
    assert_eq!(done(server, AT, "Action=ReceiveMessage"), "<ReceiveMessageResult/>");
    assert_eq!(
        done(server, AT, &format!("Action=ChangeMessageVisibility&ReceiptHandle={handle}&VisibilityTimeout=9")),
        ""
    );
    assert_eq!(done(server, AT, &format!("Action=DeleteMessage&ReceiptHandle={handle}")), "");
    batches(server);
}

fn batches(server: &Server) {
    let sent = done(
        server,
        AT,
        "Action=SendMessageBatch&SendMessageBatchRequestEntry.1.Id=a&SendMessageBatchRequestEntry.1.MessageBody=1\
         &SendMessageBatchRequestEntry.2.Id=b&SendMessageBatchRequestEntry.2.MessageBody=%01",
    );
    let (id, why) = (element(&sent, "MessageId"), element(&sent, "Message"));
    assert_eq!(
        sent,
        format!(
            "<SendMessageBatchResult><SendMessageBatchResultEntry><Id>a</Id><MessageId>{id}</MessageId>\
             <MD5OfMessageBody>c4ca4238a0b923820dcc509a6f75849b</MD5OfMessageBody></SendMessageBatchResultEntry>\
             <BatchResultErrorEntry><Id>b</Id><Code>InvalidMessageContents</Code><Message>{why}</Message>\
             <SenderFault>true</SenderFault></BatchResultErrorEntry></SendMessageBatchResult>"
        )
    );
    let given = done(server, AT, "Action=ReceiveMessage");
    let handle = element(&given, "ReceiptHandle");
    for (action, more) in [("ChangeMessageVisibility", "VisibilityTimeout=9"), ("DeleteMessage", "")] {
        let entry = format!("{action}BatchRequestEntry");
        let done = done(
            server,
            AT,
            &format!(
                "Action={action}Batch&{entry}.2.Id=b&{entry}.2.ReceiptHandle=x&{entry}.1.Id=a\
                 &{entry}.1.ReceiptHandle={handle}&{entry}.1.{more}&{entry}.2.{more}"
            ),
        );
        assert_eq!(
            done,
            format!(
                "<{action}BatchResult><{action}BatchResultEntry><Id>a</Id></{action}BatchResultEntry>\
                 <BatchResultErrorEntry><Id>b</Id><Code>ReceiptHandleIsInvalid</Code><Message>The input receipt handle \
                 &quot;x&quot; is not a valid receipt handle.</Message><SenderFault>true</SenderFault>\
                 </BatchResultErrorEntry></{action}BatchResult>"
            )
        );
    }
}

#[test]
fn moves_in_xml_byte_for_byte() {
    let server = start();
    let arn = "arn:aws:sqs:us-east-1:000000000000:dlq";
    server.sqs_ok("CreateQueue", &json!({ "QueueName": "dlq" }));
    let policy = json!({ "deadLetterTargetArn": arn, "maxReceiveCount": 1 }).to_string();
    let redrive = json!({ "RedrivePolicy": policy });
    let made = server.sqs_ok("CreateQueue", &json!({ "QueueName": "mail", "Attributes": redrive }));
    assert_eq!(
        done(&server, "/000000000000/dlq", "Action=ListDeadLetterSourceQueues"),
        "<ListDeadLetterSourceQueuesResult><QueueUrl>http://localhost/000000000000/mail</QueueUrl>\
         </ListDeadLetterSourceQueuesResult>"
    );
    let list = format!("Action=ListMessageMoveTasks&SourceArn={arn}");
    assert_eq!(done(&server, "/", &list), "<ListMessageMoveTasksResult/>");
    for n in 0..3 {
        server.sqs_ok("SendMessage", &json!({ "QueueUrl": made["QueueUrl"], "MessageBody": n.to_string() }));
    }
    let take = json!({ "QueueUrl": made["QueueUrl"], "MaxNumberOfMessages": 10, "VisibilityTimeout": 0 });
    until("all messages are handed off", || {
        server.sqs_ok("ReceiveMessage", &take);
        server.stats("dlq")["ready"] == 3
    });
    let slowly = format!("Action=StartMessageMoveTask&SourceArn={arn}&MaxNumberOfMessagesPerSecond=1");
    let begun = done(&server, "/", &slowly);
    let handle = element(&begun, "TaskHandle");
    assert_eq!(
        begun,
        format!("<StartMessageMoveTaskResult><TaskHandle>{handle}</TaskHandle></StartMessageMoveTaskResult>")
    );
    let running = done(&server, "/", &list);
    let (moved, at) = (element(&running, "ApproximateNumberOfMessagesMoved"), element(&running, "StartedTimestamp"));
    assert_eq!(
        running,
        format!(
            "<ListMessageMoveTasksResult><ListMessageMoveTasksResultEntry><TaskHandle>{handle}</TaskHandle>\
             <Status>RUNNING</Status><SourceArn>{arn}</SourceArn>\
             <MaxNumberOfMessagesPerSecond>1</MaxNumberOfMessagesPerSecond>\
             <ApproximateNumberOfMessagesMoved>{moved}</ApproximateNumberOfMessagesMoved>\
             <ApproximateNumberOfMessagesToMove>3</ApproximateNumberOfMessagesToMove>\
             <StartedTimestamp>{at}</StartedTimestamp></ListMessageMoveTasksResultEntry></ListMessageMoveTasksResult>"
        )
    );
    let cancelled = done(&server, "/", &format!("Action=CancelMessageMoveTask&TaskHandle={handle}"));
    let moved = element(&cancelled, "ApproximateNumberOfMessagesMoved");
    assert_eq!(
        cancelled,
        format!(
            "<CancelMessageMoveTaskResult><ApproximateNumberOfMessagesMoved>{moved}</ApproximateNumberOfMessagesMoved>\
             </CancelMessageMoveTaskResult>"
        )
    );
}

#[test]
fn a_caller_of_the_query_protocol_that_accepts_json_gets_it() {
    let server = start();
    done(&server, "/", "Action=CreateQueue&QueueName=mail");
    let get = |target: &str| server.connect().request("GET", target, "accept: application/json\r\n", b"");
    let found = get(&format!("{AT}?Action=GetQueueAttributes&AttributeName.1=QueueArn"));
    assert_eq!(found.header("content-type").as_deref(), Some("application/json"));
    assert_eq!(
        body_of(&found),
        r#"{"GetQueueAttributesResponse":{"GetQueueAttributesResult":{"Attributes":[{"Name":"QueueArn","Value":"arn:aws:sqs:us-east-1:000000000000:mail"}]},"ResponseMetadata":{"RequestId":"REQUEST"}}}"#
    );
    let nothing = get(&format!("{AT}?Action=ReceiveMessage"));
    assert_eq!(
        body_of(&nothing),
        r#"{"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":null},"ResponseMetadata":{"RequestId":"REQUEST"}}}"#
    );
    let refused = get(&format!("{AT}?Action=ListQueues"));
    assert_eq!(refused.status, 400);
    assert_eq!(
        body_of(&refused),
        r#"{"Error":{"Type":"Sender","Code":"InvalidAction","Message":"The action ListQueues is not valid for this endpoint."},"RequestId":"REQUEST"}"#
    );
    let bare = get(AT);
    assert_eq!((bare.status, body_of(&bare).as_str()), (404, "<UnknownOperationException/>\n"));
}

/// A refusal: what is asked in both protocols, and what is said in both.
struct Refusal<'a> {
    action: &'static str,
    json: Value,
    /// Behind the action, sent to the queue's own path.
    form: &'a str,
    /// Behind the `#`.
    shape: &'static str,
    code: &'static str,
    status: u16,
    message: &'static str,
}

fn refusal<'a>(
    (action, json, form): (&'static str, Value, &'a str),
    (shape, code, status): (&'static str, &'static str, u16),
    message: &'static str,
) -> Refusal<'a> {
    Refusal { action, json, form, shape, code, status, message }
}

fn check(server: &Server, refusal: &Refusal<'_>) {
    let Refusal { action, json, form, shape, code, status, message } = refusal;
    let mut asked = json.clone();
    if asked["QueueUrl"].is_null() && !matches!(*action, "CreateQueue" | "GetQueueUrl" | "StartMessageMoveTask") {
        asked["QueueUrl"] = json!("http://localhost/000000000000/mail");
    }
    let answer = server.sqs(action, &asked);
    let namespace = if *shape == "SerializationException" { "com.amazon.coral.service" } else { "com.amazonaws.sqs" };
    let expected = json!({ "__type": format!("{namespace}#{shape}"), "message": message }).to_string();
    assert_eq!((answer.status, answer.text()), (*status, expected), "{action}");
    assert_eq!(answer.header("content-type").as_deref(), Some("application/x-amz-json-1.0"));
    assert_eq!(answer.header("x-amzn-query-error"), Some(format!("{code};Sender")), "{action}");

    let path = if matches!(*action, "CreateQueue") { "/" } else { AT };
    let answer = server.query(path, &format!("Action={action}&{form}"));
    let message = match *shape {
        "QueueDoesNotExist" => "The specified queue does not exist for this wsdl version.".to_owned(),
        _ => message.replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;"),
    };
    let expected = format!(
        "<?xml version=\"1.0\"?><ErrorResponse xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\"><Error>\
         <Type>Sender</Type><Code>{code}</Code><Message>{message}</Message><Detail/></Error>\
         <RequestId>REQUEST</RequestId></ErrorResponse>"
    );
    assert_eq!((answer.status, body_of(&answer)), (*status, expected), "{action}");
    assert_eq!(answer.header("content-type").as_deref(), Some("text/xml"));
    assert_eq!(answer.header("x-amzn-query-error"), None);
}

/// Never said here: InvalidIdFormat, InvalidSecurity and those of KMS, for which there is no cause; those of signatures
/// have tests of their own.
#[test]
fn every_refusal_in_both_protocols() {
    let server = start();
    server.sqs_ok("CreateQueue", &json!({ "QueueName": "mail", "Attributes": { "DelaySeconds": "0" } }));
    for one in queue_refusals().into_iter().chain(message_refusals()).chain(batch_refusals()) {
        check(&server, &one);
    }
}

fn queue_refusals() -> Vec<Refusal<'static>> {
    vec![
        refusal(
            ("GetQueueUrl", json!({ "QueueName": "none" }), "QueueName=none"),
            ("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", 400),
            "The specified queue does not exist.",
        ),
        refusal(
            (
                "CreateQueue",
                json!({ "QueueName": "mail", "Attributes": { "DelaySeconds": "6" } }),
                "QueueName=mail&Attribute.1.Name=DelaySeconds&Attribute.1.Value=6",
            ),
            ("QueueNameExists", "QueueAlreadyExists", 400),
            "A queue already exists with the same name and a different value for attribute DelaySeconds",
        ),
        refusal(
            (
                "CreateQueue",
                json!({ "QueueName": "other", "Attributes": { "ContentBasedDeduplication": "true" } }),
                "QueueName=other&Attribute.1.Name=ContentBasedDeduplication&Attribute.1.Value=true",
            ),
            ("InvalidAttributeName", "InvalidAttributeName", 400),
            "Unknown Attribute ContentBasedDeduplication.",
        ),
        refusal(
            ("GetQueueAttributes", json!({ "AttributeNames": ["Foobar"] }), "AttributeName.1=Foobar"),
            ("InvalidAttributeName", "InvalidAttributeName", 400),
            "Unknown Attribute Foobar.",
        ),
        refusal(
            (
                "SetQueueAttributes",
                json!({ "Attributes": { "DelaySeconds": "901" } }),
                "Attribute.1.Name=DelaySeconds&Attribute.1.Value=901",
            ),
            ("InvalidAttributeValue", "InvalidAttributeValue", 400),
            "Invalid value for the parameter DelaySeconds.",
        ),
        refusal(
            ("RemovePermission", json!({ "Label": "X" }), "Label=X"),
            ("InvalidParameterValueException", "InvalidParameterValue", 400),
            "Value X for parameter Label is invalid. Reason: can't find label.",
        ),
        refusal(
            (
                "StartMessageMoveTask",
                json!({ "SourceArn": "arn:aws:sqs:us-east-1:000000000000:none" }),
                "SourceArn=arn:aws:sqs:us-east-1:000000000000:none",
            ),
            ("ResourceNotFoundException", "ResourceNotFoundException", 404),
            "The resource that you specified for the SourceArn parameter doesn't exist.",
        ),
        refusal(
            (
                "StartMessageMoveTask",
                json!({ "SourceArn": "arn:aws:sqs:us-east-1:000000000000:mail" }),
                "SourceArn=arn:aws:sqs:us-east-1:000000000000:mail",
            ),
            ("InvalidParameterValueException", "InvalidParameterValue", 400),
            "Source queue must be configured as a Dead Letter Queue.",
        ),
        refusal(
            ("GetQueueAttributes", json!({ "QueueUrl": "http://x/1/a b" }), "QueueUrl=http://x/1/a+b"),
            ("InvalidAddress", "InvalidAddress", 400),
            "The address http://x/1/a b is not valid for this endpoint.",
        ),
        refusal(
            ("FooBar", json!({}), ""),
            ("InvalidAction", "InvalidAction", 400),
            "The action FooBar is not valid for this endpoint.",
        ),
    ]
}

fn message_refusals() -> Vec<Refusal<'static>> {
    let lists = json!({ "MessageBody": "b",
        "MessageAttributes": { "a": { "DataType": "String", "StringListValues": ["x"] } } });
    vec![
        refusal(
            ("SendMessage", json!({}), "MessageBody="),
            ("MissingRequiredParameterException", "MissingParameter", 400),
            "The request must contain the parameter MessageBody.",
        ),
        refusal(
            ("SendMessage", json!({ "MessageBody": "\u{1}" }), "MessageBody=%01"),
            ("InvalidMessageContents", "InvalidMessageContents", 400),
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | \
             #xE000 to #xFFFD | #x10000 to #x10FFFF",
        ),
        refusal(
            (
                "SendMessage",
                lists,
                "MessageBody=b&MessageAttribute.1.Name=a&MessageAttribute.1.Value.DataType=String\
                 &MessageAttribute.1.Value.StringListValue.1=x",
            ),
            ("UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", 400),
            "Message attribute list values in SendMessage operation are not supported.",
        ),
        refusal(
            ("SendMessage", json!({ "MessageBody": "b", "MessageGroupId": "" }), "MessageBody=b&MessageGroupId="),
            ("InvalidParameterValueException", "InvalidParameterValue", 400),
            "Value  for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and \
             punctuation characters. 1 to 128 in length.",
        ),
        refusal(
            (
                "SendMessage",
                json!({ "MessageBody": "b", "MessageAttributes": { "X": { "DataType": "String", "StringValue": "" } } }),
                "MessageBody=b&MessageAttribute.1.Name=X&MessageAttribute.1.Value.DataType=String\
                 &MessageAttribute.1.Value.StringValue=",
            ),
            ("InvalidParameterValueException", "InvalidParameterValue", 400),
            "Message (user) attribute 'X' must contain a non-empty value of type 'String'.",
        ),
        refusal(
            ("ReceiveMessage", json!({ "MaxNumberOfMessages": 11 }), "MaxNumberOfMessages=11"),
            ("InvalidParameterValueException", "InvalidParameterValue", 400),
            "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.",
        ),
        refusal(
            ("ReceiveMessage", json!({ "WaitTimeSeconds": -1 }), "WaitTimeSeconds=-1"),
            ("InvalidParameterValueException", "InvalidParameterValue", 400),
            "Value -1 for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.",
        ),
        refusal(
            ("DeleteMessage", json!({ "ReceiptHandle": "garbage" }), "ReceiptHandle=garbage"),
            ("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 400),
            "The input receipt handle \"garbage\" is not a valid receipt handle.",
        ),
    ]
}

fn batch_refusals() -> Vec<Refusal<'static>> {
    let batch = |entries: Value| json!({ "Entries": entries });
    let eleven: Vec<Value> = (0..11).map(|n| json!({ "Id": n.to_string(), "ReceiptHandle": "x" })).collect();
    vec![
        refusal(
            ("SendMessageBatch", batch(json!([])), ""),
            ("EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest", 400),
            "There should be at least one SendMessageBatchRequestEntry in the request.",
        ),
        refusal(
            (
                "DeleteMessageBatch",
                batch(json!(eleven)),
                "DeleteMessageBatchRequestEntry.1.Id=1&DeleteMessageBatchRequestEntry.2.Id=2\
                 &DeleteMessageBatchRequestEntry.3.Id=3&DeleteMessageBatchRequestEntry.4.Id=4\
                 &DeleteMessageBatchRequestEntry.5.Id=5&DeleteMessageBatchRequestEntry.6.Id=6\
                 &DeleteMessageBatchRequestEntry.7.Id=7&DeleteMessageBatchRequestEntry.8.Id=8\
                 &DeleteMessageBatchRequestEntry.9.Id=9&DeleteMessageBatchRequestEntry.10.Id=10\
                 &DeleteMessageBatchRequestEntry.11.Id=11",
            ),
            ("TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest", 400),
            "Maximum number of entries per request are 10. You have sent 11.",
        ),
        refusal(
            (
                "DeleteMessageBatch",
                batch(json!([{ "Id": "a", "ReceiptHandle": "x" }, { "Id": "a", "ReceiptHandle": "y" }])),
                "DeleteMessageBatchRequestEntry.1.Id=a&DeleteMessageBatchRequestEntry.2.Id=a",
            ),
            ("BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct", 400),
            "Id a repeated.",
        ),
        refusal(
            (
                "SendMessageBatch",
                batch(json!([{ "Id": "a b", "MessageBody": "x" }])),
                "SendMessageBatchRequestEntry.1.Id=a+b&SendMessageBatchRequestEntry.1.MessageBody=x",
            ),
            ("InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId", 400),
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 \
             letters long.",
        ),
    ]
}

/// Refusals that the state of a queue is the cause of.
#[test]
fn refusals_of_queues_in_a_state_in_both_protocols() {
    let server = start();
    let url = "http://localhost/000000000000/mail";
    server.sqs_ok("CreateQueue", &json!({ "QueueName": "mail" }));
    let of = json!({ "QueueUrl": url });
    let shape = |name: &'static str, code: &'static str, status| (name, code, status);

    // Received by another since, and given back.
    server.sqs_ok("SendMessage", &json!({ "QueueUrl": url, "MessageBody": "b" }));
    let take_and_free = || {
        let taken = server.sqs_ok("ReceiveMessage", &of);
        let handle = taken["Messages"][0]["ReceiptHandle"].as_str().unwrap().to_owned();
        let free = json!({ "QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 0 });
        server.sqs_ok("ChangeMessageVisibility", &free);
        handle
    };
    let handle = take_and_free();
    take_and_free();
    let again = format!("ReceiptHandle={handle}&VisibilityTimeout=5");
    let change = json!({ "ReceiptHandle": handle, "VisibilityTimeout": 5 });
    check(
        &server,
        &refusal(
            ("ChangeMessageVisibility", change, &again),
            shape("MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight", 400),
            "The specified message isn't in flight.",
        ),
    );

    server.json("PUT", "/v1/queues/mail", r#"{"maxInFlight":1,"maxDepth":2}"#).expect(200);
    server.sqs_ok("SendMessage", &json!({ "QueueUrl": url, "MessageBody": "b" }));
    let full = server.sqs("SendMessage", &json!({ "QueueUrl": url, "MessageBody": "b" }));
    assert_eq!((full.status, full.header("x-amzn-query-error").as_deref()), (403, Some("RequestThrottled;Sender")));
    let full = server.query(AT, "Action=SendMessage&MessageBody=b");
    assert_eq!((full.status, element(&full.text(), "Code")), (403, "RequestThrottled"), "{}", full.text());
    server.sqs_ok("ReceiveMessage", &of);
    check(
        &server,
        &refusal(
            ("ReceiveMessage", json!({}), ""),
            shape("OverLimit", "OverLimit", 403),
            "The maximum number of messages in flight has been reached.",
        ),
    );

    server.sqs_ok("PurgeQueue", &of);
    check(
        &server,
        &refusal(
            ("PurgeQueue", json!({}), ""),
            shape("PurgeQueueInProgress", "AWS.SimpleQueueService.PurgeQueueInProgress", 403),
            "Only one PurgeQueue operation on mail is allowed every 60 seconds.",
        ),
    );
    server.sqs_ok("DeleteQueue", &of);
    check(
        &server,
        &refusal(
            ("CreateQueue", json!({ "QueueName": "mail" }), "QueueName=mail"),
            shape("QueueDeletedRecently", "AWS.SimpleQueueService.QueueDeletedRecently", 400),
            "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
        ),
    );
}

/// Refusals of what is no request, and of what is too long, where the two protocols are not asked alike.
#[test]
fn refusals_of_what_cannot_be_read() {
    let server = start();
    server.sqs_ok("CreateQueue", &json!({ "QueueName": "mail" }));
    let said = |answer: &Answer| {
        let json: Value = serde_json::from_slice(&answer.body).unwrap();
        let kind = json["__type"].as_str().unwrap().to_owned();
        (answer.status, kind, answer.header("x-amzn-query-error").unwrap())
    };
    let in_xml = |answer: &Answer| (answer.status, element(&answer.text(), "Code").to_owned());
    let head = "x-amz-target: AmazonSQS.ListQueues\r\ncontent-type: application/x-amz-json-1.0\r\n";
    for broken in ["{", "[]", "{\"QueueNamePrefix\":1}"] {
        let answer = server.connect().request("POST", "/", head, broken.as_bytes());
        let expected = (400, "com.amazon.coral.service#SerializationException".into(), "MalformedInput;Sender".into());
        assert_eq!(said(&answer), expected, "{broken}");
    }
    assert_eq!(in_xml(&server.query("/", "Action=ListQueues&QueueNamePrefix=%FF")), (400, "MalformedInput".into()));
    assert_eq!(in_xml(&server.query("/", "QueueName=x")), (400, "MissingAction".into()));

    let long = "x".repeat(1 << 20);
    let entries = json!([{ "Id": "a", "MessageBody": long }, { "Id": "b", "MessageBody": "x" }]);
    let url = "http://localhost/000000000000/mail";
    let answer = server.sqs("SendMessageBatch", &json!({ "QueueUrl": url, "Entries": entries }));
    let too_long = "AWS.SimpleQueueService.BatchRequestTooLong";
    assert_eq!(said(&answer), (400, "com.amazonaws.sqs#BatchRequestTooLong".into(), format!("{too_long};Sender")));
    assert!(answer.text().contains("Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes."));
    let entry = "SendMessageBatchRequestEntry";
    let form = format!(
        "Action=SendMessageBatch&{entry}.1.Id=a&{entry}.1.MessageBody={long}&{entry}.2.Id=b&{entry}.2.MessageBody=x"
    );
    assert_eq!(in_xml(&server.query(AT, &form)), (400, too_long.into()));

    let beyond = vec![b' '; (8 << 20) + 1];
    let answer = server.connect().request("POST", "/", head, &beyond);
    let expected =
        (413, "com.amazon.coral.service#RequestEntityTooLargeException".into(), "RequestEntityTooLarge;Sender".into());
    assert_eq!(said(&answer), expected);
    let of = |action: &str| head.replace("ListQueues", action);
    let answer = server.connect().request("POST", "/", &of("SendMessageBatch"), &beyond);
    assert_eq!(said(&answer), (400, "com.amazonaws.sqs#BatchRequestTooLong".into(), format!("{too_long};Sender")));
    assert!(answer.text().contains("You have sent 8388609 bytes."), "{}", answer.text());
    let answer = server.connect().request("POST", "/", &of("SendMessage"), &beyond);
    assert_eq!(said(&answer).2, "InvalidParameterValue;Sender");
    assert!(answer.text().contains("Message must be shorter than 1048576 bytes."), "{}", answer.text());
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    assert_eq!(
        in_xml(&server.connect().request("POST", "/?Action=SendMessageBatch", form, &beyond)),
        (400, too_long.into())
    );
    assert_eq!(in_xml(&server.connect().request("POST", "/", form, &beyond)), (413, "RequestEntityTooLarge".into()));
}
