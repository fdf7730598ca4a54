//! Amazon SQS over the real port, byte by byte: both protocols, and one world with the native API.

use serde_json::{Value, json};

use crate::client::Answer;
use crate::server::{Server, until};

/// A server whose queue URLs bear the host that the client used.
fn start() -> Server {
    Server::start_with(|config| config.public_url = None)
}

impl Server {
    pub(crate) fn sqs(&self, action: &str, body: &Value) -> Answer {
        self.sqs_at("/", "", action, body)
    }

    fn sqs_at(&self, path: &str, headers: &str, action: &str, body: &Value) -> Answer {
        let head = format!("x-amz-target: AmazonSQS.{action}\r\ncontent-type: application/x-amz-json-1.0\r\n{headers}");
        self.connect().request("POST", path, &head, body.to_string().as_bytes())
    }

    /// A call that is done.
    pub(crate) fn sqs_ok(&self, action: &str, body: &Value) -> Value {
        let answer = self.sqs(action, body);
        assert_eq!(answer.status, 200, "{action}: {}{}", answer.head, answer.text());
        assert_eq!(answer.header("content-type").as_deref(), Some("application/x-amz-json-1.0"));
        assert!(answer.header("x-amzn-requestid").is_some(), "{}", answer.head);
        if answer.body.is_empty() { json!({}) } else { serde_json::from_slice(&answer.body).unwrap() }
    }

    /// A call that is refused: status, code of the Query protocol, message.
    fn sqs_refused(&self, action: &str, body: &Value) -> (u16, String, String) {
        let answer = self.sqs(action, body);
        let problem: Value = serde_json::from_slice(&answer.body).unwrap();
        let code = answer.header("x-amzn-query-error").unwrap_or_else(|| panic!("{}", answer.head));
        (answer.status, code.split(';').next().unwrap().into(), problem["message"].as_str().unwrap().into())
    }

    pub(crate) fn query(&self, path: &str, form: &str) -> Answer {
        let head = "content-type: application/x-www-form-urlencoded\r\n";
        self.connect().request("POST", path, head, form.as_bytes())
    }

    fn query_ok(&self, path: &str, form: &str) -> String {
        let answer = self.query(path, form);
        assert_eq!(answer.status, 200, "{}{}", answer.head, answer.text());
        assert_eq!(answer.header("content-type").as_deref(), Some("text/xml"), "{}", answer.head);
        answer.text()
    }

    fn make(&self, name: &str, attributes: &Value) -> String {
        let made = self.sqs_ok("CreateQueue", &json!({ "QueueName": name, "Attributes": attributes }));
        made["QueueUrl"].as_str().unwrap().to_owned()
    }

    fn send(&self, url: &str, body: &str) -> Value {
        self.sqs_ok("SendMessage", &json!({ "QueueUrl": url, "MessageBody": body }))
    }

    fn take(&self, url: &str, max: u32) -> Vec<Value> {
        let asked = json!({ "QueueUrl": url, "MaxNumberOfMessages": max, "AttributeNames": ["All"],
            "MessageAttributeNames": ["All"] });
        self.sqs_ok("ReceiveMessage", &asked)["Messages"].as_array().cloned().unwrap_or_default()
    }

    fn attribute(&self, url: &str, name: &str) -> Value {
        self.sqs_ok("GetQueueAttributes", &json!({ "QueueUrl": url, "AttributeNames": [name] }))["Attributes"][name]
            .clone()
    }

    pub(crate) fn stats(&self, queue: &str) -> Value {
        self.json("GET", &format!("/v1/queues/{queue}/stats"), "").expect(200)
    }
}

fn bodies(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["Body"].as_str().unwrap()).collect()
}

fn redrive(target: &str, receives: u32) -> String {
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{target}");
    json!({ "deadLetterTargetArn": arn, "maxReceiveCount": receives }).to_string()
}

#[test]
fn the_life_of_a_message_in_json() {
    let server = start();
    let url = server.make("mail", &json!({ "VisibilityTimeout": "60" }));
    assert_eq!(url, "http://localhost/000000000000/mail");
    let attributes = json!({ "n": { "DataType": "Number.int", "StringValue": "1" },
        "b": { "DataType": "Binary", "BinaryValue": "AAE=" } });
    let trace = json!({ "AWSTraceHeader": { "DataType": "String", "StringValue": "Root=1" } });
    let sent = server.sqs_ok(
        "SendMessage",
        &json!({ "QueueUrl": url, "MessageBody": "h\u{e9}llo\r\n\"q\"", "MessageAttributes": attributes,
            "MessageSystemAttributes": trace }),
    );
    let messages = server.take(&url, 10);
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(message["MessageId"], sent["MessageId"]);
    assert_eq!(message["Body"], "h\u{e9}llo\r\n\"q\"");
    assert_eq!(message["MD5OfBody"], sent["MD5OfMessageBody"]);
    assert_eq!(message["MD5OfMessageAttributes"], sent["MD5OfMessageAttributes"]);
    assert_eq!(message["MessageAttributes"], attributes);
    assert_eq!(message["Attributes"]["AWSTraceHeader"], "Root=1");
    assert_eq!(message["Attributes"]["ApproximateReceiveCount"], "1");
    assert_eq!(server.attribute(&url, "ApproximateNumberOfMessagesNotVisible"), "1");
    let handle = &message["ReceiptHandle"];
    let change = json!({ "QueueUrl": url, "ReceiptHandle": handle, "VisibilityTimeout": 0 });
    server.sqs_ok("ChangeMessageVisibility", &change);
    let again = server.take(&url, 10);
    assert_eq!(again[0]["Attributes"]["ApproximateReceiveCount"], "2");
    let delete = json!({ "QueueUrl": url, "ReceiptHandle": again[0]["ReceiptHandle"] });
    server.sqs_ok("DeleteMessage", &delete);
    server.sqs_ok("DeleteMessage", &delete);
    let (status, code, _) = server.sqs_refused(
        "ChangeMessageVisibility",
        &json!({ "QueueUrl": url, "ReceiptHandle": again[0]["ReceiptHandle"], "VisibilityTimeout": 5 }),
    );
    assert_eq!((status, code.as_str()), (400, "InvalidParameterValue"));
    assert!(server.take(&url, 1).is_empty());
}

#[test]
fn the_life_of_a_message_in_xml() {
    let server = start();
    let made = server.query_ok(
        "/",
        "Action=CreateQueue&Version=2012-11-05&QueueName=mail&Attribute.1.Name=DelaySeconds&Attribute.1.Value=0",
    );
    assert!(made.contains("<QueueUrl>http://localhost/000000000000/mail</QueueUrl>"), "{made}");
    assert!(made.contains("xmlns=\"http://queue.amazonaws.com/doc/2012-11-05/\""), "{made}");
    let at = "/000000000000/mail";
    let sent = server.query_ok(at, "Action=SendMessage&MessageBody=a%3Cb%3E%0D%0Ac");
    assert!(sent.contains("<MD5OfMessageBody>"), "{sent}");
    let given = server.query_ok(at, "Action=ReceiveMessage&AttributeName.1=All");
    assert!(given.contains("<Body>a&lt;b&gt;&#xD;\nc</Body>"), "{given}");
    let (_, rest) = given.split_once("<ReceiptHandle>").unwrap();
    let (handle, _) = rest.split_once("</ReceiptHandle>").unwrap();
    server.query_ok(at, &format!("Action=DeleteMessage&ReceiptHandle={handle}"));
    assert!(server.query_ok(at, "Action=ReceiveMessage").contains("<ReceiveMessageResult/>"));
    let by_get = server.connect().request("GET", &format!("{at}?Action=GetQueueUrl&QueueName=mail"), "", b"");
    assert!(by_get.text().contains("<GetQueueUrlResult>"), "{}", by_get.text());
}

#[test]
fn refusals_are_in_the_form_of_their_protocol() {
    let server = start();
    let missing =
        server.sqs_refused("SendMessage", &json!({ "QueueUrl": "http://x/000000000000/no", "MessageBody": "b" }));
    let expected =
        (400, "AWS.SimpleQueueService.NonExistentQueue".into(), "The specified queue does not exist.".into());
    assert_eq!(missing, expected);
    let xml = server.query("/000000000000/no", "Action=SendMessage&MessageBody=b");
    assert_eq!(xml.status, 400);
    let text = xml.text();
    assert!(text.contains("<Code>AWS.SimpleQueueService.NonExistentQueue</Code>"), "{text}");
    assert!(text.contains("The specified queue does not exist for this wsdl version."), "{text}");
    let unknown = server.query("/", "Action=FooBar");
    assert_eq!(unknown.status, 400);
    assert!(unknown.text().contains("The action FooBar is not valid for this endpoint."), "{}", unknown.text());
    let bare = server.connect().request("GET", "/000000000000/mail", "", b"");
    assert_eq!(bare.status, 404);
    assert!(bare.text().contains("UnknownOperationException"), "{}", bare.text());
    // What is not SQS is answered as ever.
    assert_eq!(server.connect().request("GET", "/", "", b"").status, 200);
    server.json("GET", "/nowhere", "").problem(404, "not-found");
}

/// A page's image is a GET without an Origin, which the Query protocol would take.
#[test]
fn a_web_page_deletes_no_queue() {
    let server = start();
    server.make("mail", &json!({}));
    let port = server.address.port();
    for headers in ["sec-fetch-site: cross-site\r\n", "origin: https://evil.example\r\n", "host: evil.example\r\n"] {
        let host = if headers.starts_with("host") { String::new() } else { format!("host: 127.0.0.1:{port}\r\n") };
        let headers = format!("{host}{headers}");
        let delete = "/?Action=DeleteQueue&QueueUrl=mail";
        let refused = server.connect().request("GET", delete, &headers, b"");
        assert_eq!(refused.status, 403, "{headers}");
        assert!(refused.text().contains("<Type>Sender</Type><Code>AccessDenied</Code>"), "{}", refused.text());
        let refused = server.sqs_at("/", &headers, "DeleteQueue", &json!({ "QueueUrl": "mail" }));
        assert_eq!(refused.status, 403, "{headers}");
        assert_eq!(refused.header("x-amzn-query-error").as_deref(), Some("AccessDenied;Sender"));
    }
    assert!(server.sqs_ok("ListQueues", &json!({}))["QueueUrls"].is_array());
}

#[test]
fn batches_are_answered_entry_by_entry() {
    let server = start();
    let url = server.make("mail", &json!({}));
    let entries = json!([{ "Id": "a", "MessageBody": "1" }, { "Id": "b", "MessageBody": "\u{1}" },
        { "Id": "c", "MessageBody": "3" }]);
    let sent = server.sqs_ok("SendMessageBatch", &json!({ "QueueUrl": url, "Entries": entries }));
    assert_eq!(sent["Successful"].as_array().unwrap().len(), 2, "{sent}");
    assert_eq!(sent["Failed"][0]["Id"], "b", "{sent}");
    assert_eq!(sent["Failed"][0]["Code"], "InvalidMessageContents", "{sent}");
    let messages = server.take(&url, 10);
    assert_eq!(bodies(&messages), ["1", "3"]);
    let handle = |at: usize| messages[at]["ReceiptHandle"].clone();
    let entries = json!([{ "Id": "a", "ReceiptHandle": handle(0) }, { "Id": "x", "ReceiptHandle": "garbage" },
        { "Id": "c", "ReceiptHandle": handle(1) }]);
    let deleted = server.sqs_ok("DeleteMessageBatch", &json!({ "QueueUrl": url, "Entries": entries }));
    assert_eq!(deleted["Successful"], json!([{ "Id": "a" }, { "Id": "c" }]));
    assert_eq!(deleted["Failed"][0]["Code"], "ReceiptHandleIsInvalid");
}

#[test]
fn a_native_job_is_a_message_and_a_message_is_a_job() {
    let server = start();
    let ids = server.enqueue("mail", r#"{"type":"mail.send","payload":{"to":"ann"},"headers":{"traceparent":"00-1"}}"#);
    let url = server.sqs_ok("GetQueueUrl", &json!({ "QueueName": "mail" }))["QueueUrl"].as_str().unwrap().to_owned();
    let messages = server.take(&url, 1);
    assert_eq!(messages[0]["Body"], r#"{"to":"ann"}"#);
    assert_eq!(messages[0]["MessageAttributes"]["traceparent"]["StringValue"], "00-1");
    assert_eq!(messages[0]["MessageId"].as_str().unwrap().replace('-', ""), ids[0].strip_prefix("job_").unwrap());
    server.sqs_ok("DeleteMessage", &json!({ "QueueUrl": url, "ReceiptHandle": messages[0]["ReceiptHandle"] }));
    assert_eq!(server.job(&ids[0])["state"], "completed");

    let url = server.make("orders", &json!({}));
    let sent = server.send(&url, "text & <more>");
    let job = server.receive("orders", 1).remove(0);
    assert_eq!((&job["type"], &job["payload"]), (&json!("sqs.message"), &json!("text & <more>")));
    assert_eq!(job["id"].as_str().unwrap(), format!("job_{}", sent["MessageId"].as_str().unwrap().replace('-', "")));
    assert_eq!(job["maxAttempts"], Value::Null);
    assert_eq!(server.settle(&job, r#""outcome":"ack""#)["ok"], true);
    assert_eq!(server.stats("orders")["completed"], 1);
}

#[test]
fn a_redrive_policy_hands_off_and_is_shown_in_both_worlds() {
    let server = start();
    let dlq = server.make("dlq", &json!({}));
    let url = server.make("mail", &json!({ "RedrivePolicy": redrive("dlq", 1), "VisibilityTimeout": "0" }));
    let sent = server.send(&url, "x");
    assert_eq!(server.take(&url, 1).len(), 1);
    assert!(server.take(&url, 1).is_empty());
    let dead = server.take(&dlq, 1);
    assert_eq!(dead[0]["MessageId"], sent["MessageId"]);
    assert_eq!(dead[0]["Attributes"]["ApproximateReceiveCount"], "2");
    assert_eq!(dead[0]["Attributes"]["DeadLetterQueueSourceArn"], "arn:aws:sqs:us-east-1:000000000000:mail");
    assert_eq!((&server.stats("mail")["forwarded"], &server.stats("dlq")["arrived"]), (&json!(1), &json!(1)));
    let config = server.json("GET", "/v1/queues/mail", "").expect(200);
    assert_eq!(config["sqs"]["redrive"], json!({ "target": "dlq", "maxReceives": 1 }));
    let sources = server.sqs_ok("ListDeadLetterSourceQueues", &json!({ "QueueUrl": dlq }));
    assert_eq!(sources["queueUrls"], json!([url]));

    let hide = json!({ "QueueUrl": dlq, "ReceiptHandle": dead[0]["ReceiptHandle"], "VisibilityTimeout": 0 });
    server.sqs_ok("ChangeMessageVisibility", &hide);
    let source = json!({ "SourceArn": "arn:aws:sqs:us-east-1:000000000000:dlq" });
    server.sqs_ok("StartMessageMoveTask", &source);
    until("the move ends", || server.sqs_ok("ListMessageMoveTasks", &source)["Results"][0]["Status"] == "COMPLETED");
    let back = server.take(&url, 1);
    assert_ne!(back[0]["MessageId"], sent["MessageId"], "a moved message is a new one");
    assert_eq!(back[0]["Attributes"]["ApproximateReceiveCount"], "1");
    let (_, code, _) =
        server.sqs_refused("StartMessageMoveTask", &json!({ "SourceArn": "arn:aws:sqs:us-east-1:000000000000:mail" }));
    assert_eq!(code, "InvalidParameterValue");
}

#[test]
fn a_redrive_policy_is_checked_when_it_changes() {
    let server = start();
    let dlq = server.make("dlq", &json!({}));
    server.make("dlq.fifo", &json!({ "FifoQueue": "true" }));
    let url = server.make("mail", &json!({ "RedrivePolicy": redrive("dlq", 3) }));
    let set = |url: &str, name: &str, value: &str| {
        server.sqs("SetQueueAttributes", &json!({ "QueueUrl": url, "Attributes": { name: value } }))
    };
    let refused = |policy: &str, reason: &str| {
        let asked = json!({ "QueueUrl": url, "Attributes": { "RedrivePolicy": policy } });
        let (status, code, message) = server.sqs_refused("SetQueueAttributes", &asked);
        assert_eq!((status, code.as_str()), (400, "InvalidParameterValue"));
        assert!(message.ends_with(reason), "{message}");
    };
    refused(&redrive("dlq.fifo", 3), "Dead-letter queue must be same type of queue as the source.");
    refused(&redrive("mail", 3), "A queue cannot be its own dead letter target.");
    refused(&redrive("none", 3), "Dead letter target does not exist.");
    let myself = json!({ "QueueName": "other", "Attributes": { "RedrivePolicy": redrive("other", 3) } });
    assert_eq!(server.sqs_refused("CreateQueue", &myself).1, "InvalidParameterValue");

    let denied = "Queue does not have permissions to use the dead letter target.";
    let by_queue = |arn: &str| json!({ "redrivePermission": "byQueue", "sourceQueueArns": [arn] }).to_string();
    for allow in [r#"{"redrivePermission":"denyAll"}"#, &by_queue("arn:aws:sqs:us-east-1:000000000000:other")] {
        assert_eq!(set(&dlq, "RedriveAllowPolicy", allow).status, 200);
        refused(&redrive("dlq", 4), denied);
        assert_eq!(set(&url, "VisibilityTimeout", "7").status, 200, "the policy stays as it was");
        assert_eq!(set(&url, "RedrivePolicy", &redrive("dlq", 3)).status, 200, "the policy stays as it was");
    }
    // Whatever its region and account.
    assert_eq!(set(&dlq, "RedriveAllowPolicy", &by_queue("arn:aws:sqs:eu-west-1:111111111111:mail")).status, 200);
    assert_eq!(set(&url, "RedrivePolicy", &redrive("dlq", 4)).status, 200);
    let foreign = redrive("dlq", 4).replace("aws:sqs:us-east-1:000000000000", "aws-cn:sqs:cn-north-1:111111111111");
    assert_eq!(server.make("mail", &json!({ "RedrivePolicy": foreign })), url);
    server.make("abroad", &json!({ "RedrivePolicy": redrive("mail", 2).replace("aws:sqs", "aws-cn:sqs") }));
    let abroad = server.attribute("http://localhost/000000000000/abroad", "RedrivePolicy");
    assert!(abroad.as_str().unwrap().contains("arn:aws-cn:sqs:us-east-1:000000000000:mail"), "{abroad}");

    server.sqs_ok("DeleteQueue", &json!({ "QueueUrl": dlq }));
    assert_eq!(set(&url, "DelaySeconds", "1").status, 200);
    let allow = json!({ "QueueUrl": url, "Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"] });
    server.sqs_ok("AddPermission", &allow);
    server.sqs_ok("RemovePermission", &json!({ "QueueUrl": url, "Label": "l" }));
    refused(&redrive("dlq", 5), "Dead letter target does not exist.");
}

/// A dead-letter queue with these messages, and its ARN.
fn dead_letters(server: &Server, fifo: bool, bodies: &[&str]) -> String {
    let (suffix, kind) = if fifo { (".fifo", json!({ "FifoQueue": "true" })) } else { ("", json!({})) };
    let dlq = server.make(&format!("dlq{suffix}"), &kind);
    let mut source = kind;
    source["RedrivePolicy"] = redrive(&format!("dlq{suffix}"), 1).into();
    server.make(&format!("mail{suffix}"), &source);
    for body in bodies {
        server.send(&dlq, body);
    }
    format!("arn:aws:sqs:us-east-1:000000000000:dlq{suffix}")
}

#[test]
fn a_move_goes_to_another_queue_of_the_same_kind() {
    let server = start();
    let (dlq, fifo) = (dead_letters(&server, false, &["1", "2"]), dead_letters(&server, true, &[]));
    let refused = |source: &str, destination: &str, reason: &str| {
        let asked = json!({ "SourceArn": source, "DestinationArn": destination });
        let (status, code, message) = server.sqs_refused("StartMessageMoveTask", &asked);
        assert_eq!((status, code.as_str()), (400, "InvalidParameterValue"));
        assert!(message.ends_with(reason), "{message}");
    };
    let same_type = "Destination queue must be same type of queue as the source.";
    refused(&dlq, &dlq.replace(":dlq", ":mail.fifo"), same_type);
    refused(&fifo, &dlq.replace(":dlq", ":mail"), same_type);
    refused(&dlq, &dlq, "Destination queue must be another queue than the source.");
    let nowhere = json!({ "SourceArn": dlq, "DestinationArn": dlq.replace(":dlq", ":none") });
    assert_eq!(server.sqs_refused("StartMessageMoveTask", &nowhere).1, "ResourceNotFoundException");

    let destination = dlq.replace(":dlq", ":elsewhere");
    let elsewhere = server.make("elsewhere", &json!({}));
    server.sqs_ok("StartMessageMoveTask", &json!({ "SourceArn": dlq, "DestinationArn": destination }));
    let tasks = || server.sqs_ok("ListMessageMoveTasks", &json!({ "SourceArn": dlq }))["Results"].clone();
    until("the move ends", || tasks()[0]["Status"] == "COMPLETED");
    assert_eq!(tasks()[0]["DestinationArn"], destination);
    assert_eq!(tasks()[0]["ApproximateNumberOfMessagesMoved"], 2);
    assert_eq!(server.take(&elsewhere, 10).len(), 2);
}

#[test]
fn a_move_is_alone_and_ends_when_it_is_cancelled_or_its_destination_goes() {
    let server = start();
    let dlq = dead_letters(&server, false, &["1", "2", "3"]);
    let elsewhere = server.make("elsewhere", &json!({}));
    let slowly = json!({
        "SourceArn": dlq, "DestinationArn": dlq.replace(":dlq", ":elsewhere"), "MaxNumberOfMessagesPerSecond": 1
    });
    let tasks =
        || server.sqs_ok("ListMessageMoveTasks", &json!({ "SourceArn": dlq, "MaxResults": 10 }))["Results"].clone();
    let task = server.sqs_ok("StartMessageMoveTask", &slowly);
    let (_, code, message) = server.sqs_refused("StartMessageMoveTask", &slowly);
    assert_eq!(code, "InvalidParameterValue");
    assert!(message.starts_with("There is already a task running."), "{message}");
    let moved = server.sqs_ok("CancelMessageMoveTask", &task)["ApproximateNumberOfMessagesMoved"].as_u64().unwrap();
    assert!(moved < 3, "{moved}");
    let cancelled = tasks()[0].clone();
    assert_eq!((&cancelled["Status"], &cancelled["TaskHandle"]), (&json!("CANCELLED"), &Value::Null));
    assert_eq!(server.sqs_refused("CancelMessageMoveTask", &task).1, "ResourceNotFoundException");

    server.sqs_ok("StartMessageMoveTask", &slowly);
    server.sqs_ok("DeleteQueue", &json!({ "QueueUrl": elsewhere }));
    until("the move fails", || tasks()[0]["Status"] == "FAILED");
    assert_eq!(tasks()[0]["FailureReason"], "AWS.SimpleQueueService.NonExistentQueue");
    assert_eq!(tasks().as_array().unwrap().len(), 2, "the latest is first");
}

#[test]
fn a_fifo_queue_keeps_order_locks_groups_and_deduplicates() {
    let server = start();
    let fifo = json!({ "FifoQueue": "true", "ContentBasedDeduplication": "true" });
    let url = server.make("mail.fifo", &fifo);
    let send = |body: &str, group: &str| {
        server.sqs_ok("SendMessage", &json!({ "QueueUrl": url, "MessageBody": body, "MessageGroupId": group }))
    };
    let (first, again) = (send("a1", "a"), send("a1", "a"));
    assert_eq!((&first["MessageId"], &first["SequenceNumber"]), (&again["MessageId"], &again["SequenceNumber"]));
    assert_eq!(first["SequenceNumber"].as_str().unwrap().len(), 20);
    send("a2", "a");
    send("b1", "b");
    send("a3", "a");
    let ask = json!({ "QueueUrl": url, "MaxNumberOfMessages": 2, "ReceiveRequestAttemptId": "try" });
    let taken = server.sqs_ok("ReceiveMessage", &ask)["Messages"].as_array().unwrap().clone();
    assert_eq!(bodies(&taken), ["a1", "a2"]);
    let repeated = server.sqs_ok("ReceiveMessage", &ask)["Messages"].as_array().unwrap().clone();
    assert_eq!(repeated[1]["ReceiptHandle"], taken[1]["ReceiptHandle"]);
    assert_eq!(bodies(&server.take(&url, 10)), ["b1"]);
    let of =
        |at: usize| json!({ "QueueUrl": url, "ReceiptHandle": taken[at]["ReceiptHandle"], "VisibilityTimeout": 0 });
    server.sqs_ok("DeleteMessage", &of(0));
    assert!(server.take(&url, 10).is_empty(), "the group is locked while any of it is in flight");
    server.sqs_ok("ChangeMessageVisibility", &of(1));
    let (_, code, message) = server.sqs_refused("DeleteMessage", &of(1));
    assert_eq!(code, "InvalidParameterValue");
    assert!(message.ends_with("The receipt handle has expired."), "{message}");
    assert_eq!(bodies(&server.take(&url, 10)), ["a2", "a3"]);
}

#[test]
fn a_changed_delay_reaches_back_in_a_fifo_queue_only() {
    let server = start();
    let fifo = json!({ "FifoQueue": "true", "ContentBasedDeduplication": "true", "DelaySeconds": "900" });
    let (fifo, standard) = (server.make("mail.fifo", &fifo), server.make("mail", &json!({ "DelaySeconds": "900" })));
    let send = |url: &str, body: &str| {
        let group = url.ends_with(".fifo").then_some("g");
        server.sqs_ok("SendMessage", &json!({ "QueueUrl": url, "MessageBody": body, "MessageGroupId": group }));
    };
    let delay = |seconds: &str| {
        for url in [&fifo, &standard] {
            let attributes = json!({ "DelaySeconds": seconds });
            server.sqs_ok("SetQueueAttributes", &json!({ "QueueUrl": url, "Attributes": attributes }));
        }
    };
    for url in [&fifo, &standard] {
        ["1", "2", "3"].iter().for_each(|body| send(url, body));
        assert!(server.take(url, 10).is_empty());
    }
    delay("0");
    let first = server.take(&fifo, 1);
    assert_eq!(bodies(&first), ["1"]);
    assert!(server.take(&standard, 10).is_empty());
    send(&standard, "4");
    delay("900");
    assert_eq!(server.stats("mail.fifo")["delayed"], 2, "what was received already stays");
    assert_eq!(bodies(&server.take(&standard, 10)), ["4"]);
    server.sqs_ok("DeleteMessage", &json!({ "QueueUrl": fifo, "ReceiptHandle": first[0]["ReceiptHandle"] }));
    assert!(server.take(&fifo, 10).is_empty());
    delay("0");
    assert_eq!(bodies(&server.take(&fifo, 10)), ["2", "3"]);
}

#[test]
fn a_long_poll_wakes_when_a_message_comes_or_its_delay_ends() {
    let server = start();
    let url = server.make("mail", &json!({ "ReceiveMessageWaitTimeSeconds": "20" }));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| server.take(&url, 1));
        until("somebody waits", || !server.stats("mail")["consumers"].as_array().unwrap().is_empty());
        server.send(&url, "now");
        assert_eq!(bodies(&waits.join().unwrap()), ["now"]);
    });
    server.sqs_ok("SendMessage", &json!({ "QueueUrl": url, "MessageBody": "later", "DelaySeconds": 1 }));
    assert_eq!(bodies(&server.take(&url, 1)), ["later"]);
    let no_wait = server.sqs_ok("ReceiveMessage", &json!({ "QueueUrl": url, "WaitTimeSeconds": 0 }));
    assert_eq!(no_wait, json!({}));
}

#[test]
fn attributes_tags_and_policies_are_kept_over_a_restart() {
    let server = start();
    let dlq = server.make("dlq", &json!({}));
    let url = server.make("mail", &json!({ "DelaySeconds": "0", "RedrivePolicy": redrive("dlq", 3) }));
    let set = json!({ "QueueUrl": url, "Attributes": { "VisibilityTimeout": "7", "MessageRetentionPeriod": "60" } });
    server.sqs_ok("SetQueueAttributes", &set);
    server.sqs_ok("TagQueue", &json!({ "QueueUrl": url, "Tags": { "team": "billing", "empty": "" } }));
    server.sqs_ok("UntagQueue", &json!({ "QueueUrl": url, "TagKeys": ["empty", "none"] }));
    let allow = json!({ "QueueUrl": url, "Label": "l", "AWSAccountIds": ["111111111111"], "Actions": ["SendMessage"] });
    server.sqs_ok("AddPermission", &allow);
    let server = server.restart(|config| config.public_url = None);
    assert_eq!(server.attribute(&url, "VisibilityTimeout"), "7");
    assert_eq!(server.sqs_ok("ListQueueTags", &json!({ "QueueUrl": url }))["Tags"], json!({ "team": "billing" }));
    assert!(server.attribute(&url, "Policy").as_str().unwrap().contains("\"Sid\":\"l\""));
    server.sqs_ok("RemovePermission", &json!({ "QueueUrl": url, "Label": "l" }));
    assert_eq!(server.attribute(&url, "Policy"), Value::Null);
    // The native API changes what it knows and leaves the rest.
    server.json("PUT", "/v1/queues/mail", r#"{"visibilityTimeout":"9s"}"#).expect(200);
    assert_eq!(server.attribute(&url, "VisibilityTimeout"), "9");
    assert_eq!(server.attribute(&url, "MessageRetentionPeriod"), "60");
    assert_eq!(server.sqs_ok("ListDeadLetterSourceQueues", &json!({ "QueueUrl": dlq }))["queueUrls"], json!([url]));
}

#[test]
fn a_queue_is_found_again_unless_something_else_is_asked_for() {
    let server = start();
    let url = server.make("mail", &json!({ "DelaySeconds": "5" }));
    assert_eq!(server.make("mail", &json!({})), url);
    assert_eq!(server.make("mail", &json!({ "DelaySeconds": "5" })), url);
    let (_, code, message) =
        server.sqs_refused("CreateQueue", &json!({ "QueueName": "mail", "Attributes": { "DelaySeconds": "6" } }));
    assert_eq!(code, "QueueAlreadyExists");
    assert!(message.ends_with("a different value for attribute DelaySeconds"), "{message}");
    let unknown = json!({ "QueueName": "other", "Attributes": { "RedrivePolicy": redrive("none", 3) } });
    assert_eq!(server.sqs_refused("CreateQueue", &unknown).1, "InvalidParameterValue");
    for n in 0..3 {
        server.make(&format!("list-{n}"), &json!({}));
    }
    let first = server.sqs_ok("ListQueues", &json!({ "QueueNamePrefix": "list-", "MaxResults": 2 }));
    assert_eq!(first["QueueUrls"].as_array().unwrap().len(), 2);
    let next = json!({ "QueueNamePrefix": "list-", "MaxResults": 2, "NextToken": first["NextToken"] });
    let rest = server.sqs_ok("ListQueues", &next);
    assert_eq!(rest, json!({ "QueueUrls": ["http://localhost/000000000000/list-2"] }));
    assert_eq!(server.sqs_ok("ListQueues", &json!({ "QueueNamePrefix": "no" })), json!({}));
}

#[test]
fn a_body_may_have_its_full_length_whatever_it_is_as_json() {
    let server = Server::start_in(tempfile::tempdir().unwrap(), |config| config.public_url = None);
    let url = server.make("mail", &json!({}));
    let longest = "\n".repeat(1 << 20);
    server.send(&url, &longest);
    assert!(server.take(&url, 1)[0]["Body"] == longest, "it comes back whole");
    let beyond = json!({ "QueueUrl": url, "MessageBody": "x".repeat((1 << 20) + 1) });
    let (_, code, message) = server.sqs_refused("SendMessage", &beyond);
    assert_eq!(code, "InvalidParameterValue");
    assert_eq!(message, "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.");
}

#[test]
fn the_sixty_second_rules_can_be_switched_off() {
    let server = start();
    let url = server.make("mail", &json!({}));
    let of = json!({ "QueueUrl": url });
    server.send(&url, "x");
    server.take(&url, 1);
    server.send(&url, "y");
    server.sqs_ok("PurgeQueue", &of);
    assert_eq!(server.stats("mail")["depth"], 0);
    assert_eq!(server.sqs_refused("PurgeQueue", &of).0, 403);
    server.sqs_ok("DeleteQueue", &of);
    assert_eq!(server.sqs_refused("DeleteQueue", &of).1, "AWS.SimpleQueueService.NonExistentQueue");
    let again = json!({ "QueueName": "mail" });
    assert_eq!(server.sqs_refused("CreateQueue", &again).1, "AWS.SimpleQueueService.QueueDeletedRecently");
    let server = server.restart(|config| config.sqs.sixty_second_rules = false);
    server.sqs_ok("CreateQueue", &again);
    server.sqs_ok("PurgeQueue", &of);
    server.sqs_ok("PurgeQueue", &of);
    server.sqs_ok("DeleteQueue", &of);
    server.sqs_ok("CreateQueue", &again);
}

#[test]
fn accounts_and_regions_meet_unless_they_are_isolated() {
    let server = start();
    let signed = |region: &str, key: &str| {
        format!(
            "authorization: AWS4-HMAC-SHA256 Credential={key}/20260101/{region}/sqs/aws4_request, \
             SignedHeaders=host, Signature={}\r\nx-amz-date: 20260101T000000Z\r\n",
            "0".repeat(64)
        )
    };
    let create = |server: &Server, region: &str, key: &str| {
        let made = server.sqs_at("/", &signed(region, key), "CreateQueue", &json!({ "QueueName": "mail" }));
        assert_eq!(made.status, 200, "{}", made.text());
        serde_json::from_slice::<Value>(&made.body).unwrap()["QueueUrl"].as_str().unwrap().to_owned()
    };
    let names = |server: &Server| {
        let queues = server.json("GET", "/v1/queues", "").expect(200);
        let name = |queue: &Value| queue["name"].as_str().unwrap().to_owned();
        queues["queues"].as_array().unwrap().iter().map(name).collect::<Vec<_>>()
    };
    create(&server, "eu-west-1", "AKIA");
    assert_eq!(create(&server, "us-east-1", "111111111111"), "http://localhost/111111111111/mail");
    assert_eq!(names(&server), ["mail"]);
    let server = Server::start_with(|config| config.sqs.isolate = true);
    create(&server, "eu-west-1", "AKIA");
    assert_eq!(create(&server, "us-east-1", "111111111111"), "https://queue.example.org/111111111111/mail");
    assert_eq!(names(&server), ["mail:eu-west-1:000000000000", "mail:us-east-1:111111111111"]);
    let listed = server.sqs_at("/", &signed("eu-west-1", "AKIA"), "ListQueues", &json!({}));
    assert!(listed.text().contains("[\"https://queue.example.org/000000000000/mail\"]"), "{}", listed.text());
}

#[test]
fn with_keys_a_request_must_be_signed_with_one() {
    let server = Server::start_with(|config| {
        config.sqs.keys.insert("AKIAKNOWN".into(), "secret".into());
    });
    let refused = |headers: &str| {
        let answer = server.sqs_at("/", headers, "ListQueues", &json!({}));
        (answer.status, answer.header("x-amzn-query-error").unwrap_or_default())
    };
    let signed = |key: &str| {
        format!(
            "authorization: AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/sqs/aws4_request, \
             SignedHeaders=host;x-amz-date;x-amz-target, Signature={}\r\nx-amz-date: 20260101T000000Z\r\n",
            "0".repeat(64)
        )
    };
    assert_eq!(refused(""), (403, "MissingAuthenticationToken;Sender".into()));
    assert_eq!(refused(&signed("AKIAOTHER")), (403, "InvalidClientTokenId;Sender".into()));
    assert_eq!(refused(&signed("AKIAKNOWN")), (403, "SignatureDoesNotMatch;Sender".into()));
}

/// What others of this protocol write, and what the service takes.
#[test]
fn requests_are_read_as_old_clients_write_them() {
    let server = start();
    let url = server.make("mail", &json!({}));
    server
        .query_ok("/000000000000/mail", "Action=SetQueueAttributes&Attribute.Name=VisibilityTimeout&Attribute.Value=7");
    assert_eq!(server.attribute(&url, "VisibilityTimeout"), "7");
    server.query_ok("/000000000000/mail", "Action=TagQueue&Tag.Key=team&Tag.Value=billing");
    let slash = format!("{url}/");
    assert_eq!(server.sqs_ok("ListQueueTags", &json!({ "QueueUrl": slash }))["Tags"], json!({ "team": "billing" }));
    assert!(server.query_ok("/000000000000/mail/", "Action=ListQueueTags").contains("<Key>team</Key>"));
    let owner = json!({ "QueueName": "mail", "QueueOwnerAWSAccountId": "me" });
    assert_eq!(server.sqs_refused("GetQueueUrl", &owner).1, "InvalidParameterValue");
}

/// A URL that is signed now.
fn presigned(host: &str, key: &str, secret: &str) -> String {
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::{Digest, Sha256};
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let hmac = |key: &[u8], text: &str| {
        Hmac::<Sha256>::new_from_slice(key).unwrap().chain_update(text).finalize().into_bytes().to_vec()
    };
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let date = &time[..8];
    let scope = format!("{date}/us-east-1/sqs/aws4_request");
    let query = format!(
        "Action=ListQueues&Version=2012-11-05&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={key}%2F{}\
         &X-Amz-Date={time}&X-Amz-Expires=60&X-Amz-SignedHeaders=host",
        scope.replace('/', "%2F")
    );
    let canonical = format!("GET\n/\n{query}\nhost:{host}\n\nhost\n{}", hex(&Sha256::digest(b"")));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
    let start = format!("AWS4{secret}").into_bytes();
    let key = [date, "us-east-1", "sqs", "aws4_request"].iter().fold(start, |key, part| hmac(&key, part));
    format!("/?{query}&X-Amz-Signature={}", hex(&hmac(&key, &text)))
}

#[test]
fn a_presigned_url_is_taken_as_it_was_signed() {
    let server = Server::start_with(|config| {
        config.sqs.keys.insert("AKIAKNOWN".into(), "secret".into());
    });
    let get = |url: &str, host: &str| server.connect().request("GET", url, &format!("host: {host}\r\n"), b"");
    let url = presigned("localhost:7070", "AKIAKNOWN", "secret");
    let listed = get(&url, "localhost:7070");
    assert_eq!(listed.status, 200, "{}", listed.text());
    assert!(listed.text().contains("<ListQueuesResponse"), "{}", listed.text());
    let refused = |answer: Answer, code: &str| {
        assert_eq!(answer.status, 403);
        assert!(answer.text().contains(&format!("<Code>{code}</Code>")), "{}", answer.text());
    };
    refused(get(&url, "127.0.0.1:7070"), "SignatureDoesNotMatch");
    refused(get(&url.replace("ListQueues", "DeleteQueue"), "localhost:7070"), "SignatureDoesNotMatch");
    refused(get(&presigned("localhost", "AKIAKNOWN", "other"), "localhost"), "SignatureDoesNotMatch");
    refused(get(&presigned("localhost", "AKIAOTHER", "secret"), "localhost"), "InvalidClientTokenId");
}

#[test]
fn messages_are_checked_by_what_their_queue_asks_of_jobs() {
    let server = start();
    // In parts: nothing that looks like a key stands in this file.
    let secret = ["sk", "_live_"].concat() + &"a1B2".repeat(6);
    let url = server.make("made", &json!({}));
    server.send(&url, &format!("use {secret}"));
    assert_eq!(server.stats("made")["warned"], json!({"secret-in-payload": 1}), "a queue made here only counts");

    server.json("PUT", "/v1/queues/native", "{}").expect(201);
    let url = url.replace("/made", "/native");
    server.sqs_ok("TagQueue", &json!({ "QueueUrl": url, "Tags": {"a": "b"} }));
    let bad = json!({ "QueueUrl": url, "MessageBody": format!("use {secret}") });
    let (status, code, message) = server.sqs_refused("SendMessage", &bad);
    assert_eq!((status, &*code), (400, "InvalidMessageContents"));
    assert!(message.contains(r#"allow=["/payload"]"#) && !message.contains(&secret), "{message}");

    let attribute = json!({"k": {"DataType": "String", "StringValue": secret}});
    let entries = json!([{"Id": "a", "MessageBody": "fine"},
        {"Id": "b", "MessageBody": "fine", "MessageAttributes": attribute}]);
    let sent = server.sqs_ok("SendMessageBatch", &json!({ "QueueUrl": url, "Entries": entries }));
    assert_eq!((&sent["Successful"][0]["Id"], &sent["Failed"][0]["Id"]), (&json!("a"), &json!("b")), "{sent}");
    assert_eq!(sent["Failed"][0]["Code"], "InvalidMessageContents", "{sent}");
    assert_eq!(server.stats("native")["rejected"], json!({"secret-in-payload": 2}));
    assert_eq!(bodies(&server.take(&url, 10)), ["fine"]);
}
