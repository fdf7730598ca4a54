//! Calls of SQS, in both protocols.
//!
//! Whatever is refused is refused as the caller's fault; a message that is accepted comes back the same through both
//! protocols.

use http::{HeaderMap, HeaderValue, Method};
use recado_sqs::answer::Answer;
use recado_sqs::message::{Message, Received};
use recado_sqs::signature::Signed;
use recado_sqs::{Action, Call, Form, Protocol, Request, SqsError, decode, encode};
use serde_json::Value;

/// The first byte says what it is: `A`, `B` ... a JSON body of the first, second ... action, any other a query.
pub(crate) fn run(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    match usize::from(first.wrapping_sub(b'A')) {
        number if number < Action::ALL.len() => {
            let target = format!("AmazonSQS.{}", Action::ALL[number].name());
            let headers = HeaderMap::from_iter([(
                http::HeaderName::from_static("x-amz-target"),
                HeaderValue::from_str(&target).expect("an action's name"),
            )]);
            check(&Call { method: &Method::POST, path: "/", query: "", headers: &headers, body: rest });
        }
        _ => {
            let query = String::from_utf8_lossy(rest);
            let path = "/000000000000/q";
            check(&Call { method: &Method::GET, path, query: &query, headers: &HeaderMap::new(), body: b"" });
        }
    }
}

fn check(call: &Call<'_>) {
    let protocol = Protocol::of(call).expect("a call of SQS");
    if let Ok(Some(signed)) = Signed::parse(call) {
        assert!(signed.verify(call, "secret", 0).is_err(), "signed by chance");
    }
    match decode(call, protocol) {
        Ok(Request::SendMessage(request)) => comes_back(request.message),
        Ok(Request::SendMessageBatch(batch)) => {
            batch.entries.into_iter().filter_map(|entry| entry.content.ok()).for_each(comes_back);
        }
        Ok(_) => {}
        Err(error) => refused(Form::of(call, protocol), error),
    }
}

fn refused(form: Form, error: SqsError) {
    let response = encode(form, &Err(error), "id");
    assert!(response.status().is_client_error(), "{response:?}");
    std::str::from_utf8(response.body()).expect("an answer is text");
}

fn comes_back(message: Message) {
    let body = message.body.clone();
    let everything = "Action=ReceiveMessage&QueueUrl=q&MessageAttributeName.1=All&AttributeName.1=All";
    let (headers, method) = (HeaderMap::new(), Method::GET);
    let call = Call { method: &method, path: "/", query: everything, headers: &headers, body: b"" };
    let Ok(Request::ReceiveMessage(receive)) = decode(&call, Protocol::Query) else { panic!("a receive") };
    let received = Received {
        message_id: "m".to_owned(),
        receipt_handle: "h".to_owned(),
        body: message.body.clone(),
        system: Vec::new(),
        attributes: message.attributes.clone(),
    };
    let shown = receive.show(received);
    let sent = message.sent("m".to_owned(), None);
    assert_eq!((&shown.md5_of_body, &shown.md5_of_attributes), (&sent.md5_of_body, &sent.md5_of_attributes));

    let answer = Ok(Answer::ReceiveMessage(vec![shown]));
    let json: Value = serde_json::from_slice(encode(Form::Json, &answer, "id").body()).expect("JSON");
    assert_eq!(json["Messages"][0]["Body"], body.as_str());
    let xml = String::from_utf8(encode(Form::Xml, &answer, "id").into_body()).expect("XML is text");
    let inner = xml.split_once("<Body>").and_then(|(_, rest)| rest.split_once("</Body>")).expect("a body").0;
    assert!(!inner.contains(['<', '>', '\r']), "{inner}");
    let plain = inner.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&#xD;", "\r");
    assert_eq!(plain.replace("&amp;", "&"), body);
}
