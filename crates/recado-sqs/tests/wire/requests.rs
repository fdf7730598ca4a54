//! A request of every action, as botocore writes it in both protocols.

use std::collections::BTreeMap;

use recado_sqs::arn::Arn;
use recado_sqs::attributes::{AttributeName, GivenAttributes};
use recado_sqs::message::{AttributeFilter, AttributeValue, Message, MessageAttribute, SystemFilter};
use recado_sqs::page::Page;
use recado_sqs::request::*;
use recado_sqs::task_handle::TaskHandle;
use recado_sqs::url::Address;
use recado_sqs::{Action, Request};
use serde_json::json;

use crate::{form_at, get, json, json_at};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn email() -> Address {
    Address { account: Some("000000000000".to_owned()), name: "email".to_owned() }
}

fn arn(name: &str) -> Arn {
    Arn::parse(&format!("arn:aws:sqs:us-east-1:000000000000:{name}")).unwrap()
}

fn given(action: Action, members: serde_json::Value) -> GivenAttributes {
    match json(action, &members).read() {
        Ok(Request::CreateQueue(request)) => request.attributes,
        Ok(Request::SetQueueAttributes(request)) => request.attributes,
        other => panic!("{other:?}"),
    }
}

fn entry<T>(id: &str, content: T) -> Entry<T> {
    Entry { id: id.to_owned(), content: Ok(content) }
}

fn text(data_type: &str, value: &str) -> MessageAttribute {
    MessageAttribute { data_type: data_type.to_owned(), value: AttributeValue::Text(value.to_owned()) }
}

fn message(body: &str) -> Message {
    Message {
        body: body.to_owned(),
        delay_s: None,
        attributes: BTreeMap::new(),
        trace_header: None,
        deduplication_id: None,
        group_id: None,
    }
}

fn about_queues(action: Action) -> Option<Request> {
    let (queue, label) = (email(), "readers".to_owned());
    Some(match action {
        Action::AddPermission => Request::AddPermission(AddPermission {
            queue,
            label,
            accounts: words(&["111111111111", "222222222222"]),
            actions: words(&["ReceiveMessage", "DeleteMessage"]),
        }),
        Action::CreateQueue => Request::CreateQueue(CreateQueue {
            name: "email.fifo".to_owned(),
            attributes: given(
                action,
                json!({"QueueName": "x.fifo", "Attributes": {"VisibilityTimeout": "60", "FifoQueue": "true"}}),
            ),
            tags: BTreeMap::from([("empty", ""), ("team", "mail")].map(|(k, v)| (k.to_owned(), v.to_owned()))),
        }),
        Action::DeleteQueue => Request::DeleteQueue(DeleteQueue { queue }),
        Action::GetQueueAttributes => Request::GetQueueAttributes(GetQueueAttributes {
            queue,
            names: vec![AttributeName::QueueArn, AttributeName::DelaySeconds],
        }),
        Action::GetQueueUrl => Request::GetQueueUrl(GetQueueUrl {
            queue: Address { account: Some("111111111111".to_owned()), name: "email".to_owned() },
        }),
        Action::ListDeadLetterSourceQueues => Request::ListDeadLetterSourceQueues(ListDeadLetterSourceQueues {
            queue,
            page: Page { max: Some(2), after: Some("email".to_owned()) },
        }),
        Action::ListQueueTags => Request::ListQueueTags(ListQueueTags { queue }),
        Action::ListQueues => {
            Request::ListQueues(ListQueues { prefix: "em".to_owned(), page: Page { max: Some(1_000), after: None } })
        }
        Action::PurgeQueue => Request::PurgeQueue(PurgeQueue { queue }),
        Action::RemovePermission => Request::RemovePermission(RemovePermission { queue, label }),
        Action::SetQueueAttributes => Request::SetQueueAttributes(SetQueueAttributes {
            queue,
            attributes: given(
                action,
                json!({"QueueUrl": "q", "Attributes": {
                    "RedrivePolicy":
                        r#"{"maxReceiveCount":5,"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead"}"#,
                    "DelaySeconds": "7",
                }}),
            ),
        }),
        Action::TagQueue => {
            Request::TagQueue(TagQueue { queue, tags: BTreeMap::from([("team".to_owned(), "mail".to_owned())]) })
        }
        Action::UntagQueue => Request::UntagQueue(UntagQueue { queue, keys: words(&["team", "k 2"]) }),
        _ => return None,
    })
}

fn about_messages(action: Action) -> Option<Request> {
    let queue = email();
    let change = |handle: &str, visibility_timeout_s| VisibilityChange {
        receipt_handle: handle.to_owned(),
        visibility_timeout_s,
    };
    Some(match action {
        Action::ChangeMessageVisibility => {
            Request::ChangeMessageVisibility(ChangeMessageVisibility { queue, change: change("h+1/=", 0) })
        }
        Action::ChangeMessageVisibilityBatch => Request::ChangeMessageVisibilityBatch(ChangeMessageVisibilityBatch {
            queue,
            entries: vec![entry("a", change("h1", 43_200)), entry("b", change("h2", 3))],
        }),
        Action::DeleteMessage => Request::DeleteMessage(DeleteMessage { queue, receipt_handle: "h1".to_owned() }),
        Action::DeleteMessageBatch => Request::DeleteMessageBatch(DeleteMessageBatch {
            queue,
            entries: vec![entry("a", "h1".to_owned()), entry("b", "h2".to_owned())],
        }),
        Action::ReceiveMessage => Request::ReceiveMessage(ReceiveMessage {
            queue,
            system: SystemFilter::new(["SentTimestamp", "MessageGroupId"]),
            attributes: AttributeFilter::new(words(&["color", "size.*"])),
            max: 10,
            visibility_timeout_s: Some(5),
            wait_s: Some(20),
            attempt_id: Some("try-1".to_owned()),
        }),
        Action::SendMessage => Request::SendMessage(SendMessage {
            queue: Address { name: "email.fifo".to_owned(), ..queue },
            message: Message {
                delay_s: Some(0),
                attributes: BTreeMap::from([
                    ("color".to_owned(), text("String", "bl\u{e5}")),
                    ("size".to_owned(), text("Number.int", "-12")),
                    (
                        "raw".to_owned(),
                        MessageAttribute {
                            data_type: "Binary.png".to_owned(),
                            value: AttributeValue::Binary(vec![0, 0xff, 0x10]),
                        },
                    ),
                ]),
                trace_header: Some("Root=1-5759e988-bd862e3fe1be46a994272793".to_owned()),
                deduplication_id: Some("d-1".to_owned()),
                group_id: Some("g!1".to_owned()),
                ..message("caf\u{e9} & <tea>\r\n\t+ \u{1F600}")
            },
        }),
        Action::SendMessageBatch => Request::SendMessageBatch(SendMessageBatch {
            queue,
            entries: vec![
                entry(
                    "a",
                    Message {
                        delay_s: Some(900),
                        attributes: BTreeMap::from([("n".to_owned(), text("Number", "1"))]),
                        ..message("one")
                    },
                ),
                entry("b-_2", Message { group_id: Some("g".to_owned()), ..message("two") }),
            ],
        }),
        _ => return None,
    })
}

fn expected(action: Action) -> Request {
    let task = TaskHandle { task_id: "11111111-2222-3333-4444-555555555555".to_owned(), source: arn("dead") };
    match action {
        Action::CancelMessageMoveTask => Request::CancelMessageMoveTask(CancelMessageMoveTask { task }),
        Action::ListMessageMoveTasks => {
            Request::ListMessageMoveTasks(ListMessageMoveTasks { source: arn("dead"), max: 10 })
        }
        Action::StartMessageMoveTask => Request::StartMessageMoveTask(StartMessageMoveTask {
            source: arn("dead"),
            destination: Some(arn("email")),
            messages_per_second: Some(500),
        }),
        _ => about_queues(action).or_else(|| about_messages(action)).expect("every action"),
    }
}

#[test]
fn every_action_in_both_protocols() {
    let vectors: serde_json::Value = serde_json::from_str(include_str!("vectors/requests.json")).unwrap();
    for &action in Action::ALL {
        let vector = &vectors[action.name()];
        let read = json_at("/", action.name(), vector["json"].as_str().unwrap()).read();
        assert_eq!(read, Ok(expected(action)), "JSON");
        let query = vector["query"].as_str().unwrap();
        assert_eq!(form_at("/", query).read(), Ok(expected(action)), "form");
        assert_eq!(get(&format!("/?{query}")).read(), Ok(expected(action)), "GET");
        assert_eq!(expected(action).action(), action);
    }
}

fn queue(of: &crate::Owned) -> (Option<String>, String) {
    match of.read() {
        Ok(Request::PurgeQueue(PurgeQueue { queue })) => (queue.account, queue.name),
        other => panic!("{other:?}"),
    }
}

#[test]
fn which_queue_is_meant() {
    let found = |account: &str, name: &str| (Some(account.to_owned()), name.to_owned());
    let only = |name: &str| (None, name.to_owned());
    let by_url = |url: &str| queue(&json(Action::PurgeQueue, &json!({ "QueueUrl": url })));
    assert_eq!(by_url("https://sqs.eu-west-1.amazonaws.com/111111111111/a"), found("111111111111", "a"));
    assert_eq!(by_url("http://h:1/proxy/111111111111/a.fifo"), found("111111111111", "a.fifo"));
    assert_eq!(by_url("a"), only("a"));
    assert_eq!(by_url("/111111111111/a"), found("111111111111", "a"));
    assert_eq!(by_url("http://h/queue/a"), only("a"));
    assert_eq!(by_url("http://h/111111111111/emails%3Aeu"), found("111111111111", "emails:eu"));

    let body = "Action=PurgeQueue";
    assert_eq!(queue(&form_at("/222222222222/b", body)), found("222222222222", "b"));
    assert_eq!(queue(&get("/222222222222/b?Action=PurgeQueue")), found("222222222222", "b"));
    assert_eq!(queue(&json_at("/222222222222/b", "PurgeQueue", "{}")), found("222222222222", "b"));
    assert_eq!(queue(&json_at("/222222222222/b", "PurgeQueue", "")), found("222222222222", "b"));
    // The parameter beats the path.
    assert_eq!(
        queue(&form_at("/222222222222/b", &format!("{body}&QueueUrl=http://h/111111111111/a"))),
        found("111111111111", "a")
    );
}

#[test]
fn what_may_be_left_out_or_ignored() {
    let read = json_at("/", "ReceiveMessage", r#"{"QueueUrl":"q","Unknown":{"a":[1]},"WaitTimeSeconds":null}"#).read();
    let Ok(Request::ReceiveMessage(request)) = read else { panic!("{read:?}") };
    assert_eq!((request.max, request.visibility_timeout_s, request.wait_s), (1, None, None));
    let read = form_at("/", "Action=ReceiveMessage&QueueUrl=q&AttributeName=All&Version=2012-11-05&x.y.z=1").read();
    let Ok(Request::ReceiveMessage(request)) = read else { panic!("{read:?}") };
    assert!(request.system.shows(recado_sqs::message::SystemAttribute::SenderId), "a list of one, not numbered");
    let read = form_at("/", "Action=UntagQueue&QueueUrl=q&TagKey.10=c&TagKey.2=b&TagKey.1=a").read();
    let Ok(Request::UntagQueue(request)) = read else { panic!("{read:?}") };
    assert_eq!(request.keys, ["a", "b", "c"], "in the order of their numbers");
}
