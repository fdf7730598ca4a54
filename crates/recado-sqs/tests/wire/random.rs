//! Whatever comes in is read or refused, and the refusal can be written.

use http::{HeaderMap, Method};
use proptest::prelude::*;
use recado_sqs::signature::Signed;
use recado_sqs::{Action, Form, Protocol, decode, encode};
use serde_json::Value;

use crate::Owned;

/// Members that requests have, and one that none has.
const NAMES: &[&str] = &[
    "QueueUrl",
    "QueueName",
    "MessageBody",
    "Entries",
    "Id",
    "ReceiptHandle",
    "VisibilityTimeout",
    "DelaySeconds",
    "Attributes",
    "AttributeNames",
    "MessageAttributes",
    "DataType",
    "StringValue",
    "BinaryValue",
    "tags",
    "Tags",
    "TagKeys",
    "Label",
    "Actions",
    "AWSAccountIds",
    "SourceArn",
    "TaskHandle",
    "MaxResults",
    "NextToken",
    "Policy",
    "RedrivePolicy",
    "FifoQueue",
    "MessageGroupId",
    "Foo",
];

/// Parts of the Query protocol's names.
const PARTS: &[&str] = &[
    "QueueUrl",
    "MessageBody",
    "Attribute",
    "AttributeName",
    "MessageAttribute",
    "Name",
    "Value",
    "DataType",
    "1",
    "2",
    "0",
    "-1",
    "x",
    "",
    "SendMessageBatchRequestEntry",
    "DeleteMessageBatchRequestEntry",
    "Id",
    "Tag",
    "Key",
    "TagKey",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[0-9-]{0,6}",
        Just("http://h/000000000000/q".to_owned()),
        Just("arn:aws:sqs:r:000000000000:q".to_owned()),
        Just(r#"{"deadLetterTargetArn":"arn:aws:sqs:r:000000000000:q","maxReceiveCount":1}"#.to_owned()),
        prop::sample::select(vec!["true", "String", "Number", "Binary", "AAAA", "All", "aws.x"])
            .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (0..50_i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 12, |inner| {
        let name = prop_oneof![prop::sample::select(NAMES).prop_map(str::to_owned), "[a-zA-Z.]{1,5}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..8).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn query() -> impl Strategy<Value = String> {
    let name = prop::collection::vec(prop::sample::select(PARTS), 1..7).prop_map(|parts| parts.join("."));
    let pair = (name, text())
        .prop_map(|(name, value)| form_urlencoded::Serializer::new(String::new()).append_pair(&name, &value).finish());
    let raw = any::<String>();
    prop::collection::vec(prop_oneof![4 => pair, 1 => raw], 0..20).prop_map(|pairs| pairs.join("&"))
}

/// Reads it as both protocols, and as a claim of a signature; writes what became of it.
fn survive(call: &Owned) {
    let call = call.call();
    let _ = Protocol::of(&call);
    if let Ok(Some(signed)) = Signed::parse(&call) {
        let _ = signed.verify(&call, "secret", 0);
    }
    for protocol in [Protocol::Json, Protocol::Query] {
        if let Err(error) = decode(&call, protocol) {
            let response = encode(Form::of(&call, protocol), &Err(error), "r");
            assert!(response.status().is_client_error());
            assert!(str::from_utf8(response.body()).is_ok());
        }
    }
}

fn call(action: Action, path: &str, query: String, body: Vec<u8>) -> Owned {
    let call = Owned { method: Method::POST, path: path.to_owned(), query, headers: HeaderMap::new(), body };
    call.header("x-amz-target", &format!("AmazonSQS.{}", action.name()))
        .header("content-type", "application/x-www-form-urlencoded")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes(action in prop::sample::select(Action::ALL), path in ".{0,20}", query in any::<String>(), body in any::<Vec<u8>>()) {
        survive(&call(action, &path, query, body));
    }

    #[test]
    fn members(action in prop::sample::select(Action::ALL), members in prop::collection::vec((prop::sample::select(NAMES), value()), 0..8)) {
        let members: serde_json::Map<String, Value> =
            members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        survive(&call(action, "/", String::new(), Value::Object(members).to_string().into_bytes()));
    }

    #[test]
    fn parameters(action in prop::sample::select(Action::ALL), query in query(), in_body in any::<bool>()) {
        let query = format!("Action={}&{query}", action.name());
        let (query, body) = if in_body { (String::new(), query.into_bytes()) } else { (query, Vec::new()) };
        survive(&call(action, "/000000000000/q", query, body));
    }

    #[test]
    fn claims(header in "AWS4-HMAC-SHA256( [A-Za-z]{1,13}=[a-z0-9/;,-]{0,30}){0,4}", date in "[0-9TZ]{0,17}") {
        let call = call(Action::ListQueues, "/", String::new(), Vec::new());
        survive(&call.header("authorization", &header).header("x-amz-date", &date));
    }
}
