use axum::http::HeaderValue;
use serde_json::json;

use super::super::HookBody;
use super::*;

fn hook(more: Value) -> Hook {
    let mut config = json!({"queue": "q", "type": "t", "scheme": "stripe", "secrets": ["env:NONE"],
        "payload": {"event": "/id", "object": "/data/object/id"}});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let (config, definition) = HookBody::read(&config).unwrap();
    Hook { name: "h".into(), source: recado_core::Source::Api, config, secrets: definition.secrets(), definition }
}

/// What becomes of a body: a payload, the word of what is ignored, or the pointers of what is wrong.
fn made(more: Value, headers: &[(&'static str, &'static str)], body: &str) -> String {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, HeaderValue::from_static(value));
    }
    match Event::read(&map, body.as_bytes()).and_then(|event| event.make(&hook(more))) {
        Ok(Made::Job(job)) => {
            let key = job.dedup.map(|dedup| dedup.key).unwrap_or_default();
            format!("{key} {} {}", job.business_id.unwrap_or_default(), String::from_utf8(job.payload).unwrap())
        }
        Ok(Made::Ignored(why)) => why.to_owned(),
        Ok(Made::Challenge(challenge)) => format!("challenge {challenge}"),
        Err(problem) => problem.errors().iter().map(|error| error.pointer.clone()).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn only_what_is_named_goes_into_the_job_and_numbers_keep_their_digits() {
    let body = r#"{"id":"evt_1","data":{"object":{"id":123456789012345678901,"card":"4242"}},"a/b":[{"~":true}]}"#;
    assert_eq!(made(json!({}), &[], body), r#"h/evt_1  {"event":"evt_1","object":123456789012345678901}"#);
    let more = json!({"payload": {"x": "/a~1b/0/~0", "y": "/none", "z": "header:x-of", "w": "/a~1b/00"},
        "eventId": "/data/object/id", "businessId": "/id"});
    let expected = r#"h/123456789012345678901 evt_1 {"w":null,"x":true,"y":null,"z":"a\"b"}"#;
    assert_eq!(made(more, &[("x-of", "a\"b")], body), expected);
}

#[test]
fn what_does_not_fit_is_named() {
    for (body, expected) in [
        (r#"{"id":"e","data":{"object":{"id":{"no":1}}}}"#, "/data/object/id"),
        (r#"{"id":"e","data":{"object":{"id":[1]}}}"#, "/data/object/id"),
        (r#"{"data":1}"#, "/id"),
        (r#"{"id":null}"#, "/id"),
        (r#"{"id":true}"#, "/id /id"),
        (r#"{"id":"e","id":"f"}"#, "/id"),
        ("[]", "/id"),
        ("7", "/id"),
    ] {
        assert_eq!(made(json!({}), &[], body), expected, "{body}");
    }
    let long = format!(r#"{{"id":"{}"}}"#, "e".repeat(HOOK_EVENT_ID_BYTES_MAX));
    assert!(made(json!({}), &[], &long).starts_with("h/e"));
    let longer = format!(r#"{{"id":"{}"}}"#, "e".repeat(HOOK_EVENT_ID_BYTES_MAX + 1));
    assert_eq!(made(json!({}), &[], &longer), "/id");
}

#[test]
fn only_some_events() {
    let only = |only: Value| json!({ "only": only });
    let body = r#"{"id":"e","type":"invoice.paid","live":true,"n":1}"#;
    let job = "h/e  ";
    for (filter, is_wanted) in [
        (json!({"/type": "invoice.paid"}), true),
        (json!({"/type": ["invoice.sent", "invoice.paid"], "/live": true, "/n": 1}), true),
        (json!({"/type": "invoice.paid", "/live": false}), false),
        (json!({"/type": "invoice"}), false),
        (json!({"/none": "x"}), false),
        (json!({"header:x-kind": "push"}), true),
        (json!({"header:x-kind": ["pull"]}), false),
    ] {
        let came = made(only(filter.clone()), &[("x-kind", "push")], body);
        assert_eq!(came.starts_with(job), is_wanted, "{filter}: {came}");
        assert!(is_wanted || came == "only");
    }
}

#[test]
fn what_is_no_event_is_answered() {
    let github = json!({"scheme": "github"});
    assert_eq!(made(github.clone(), &[("x-github-event", "ping")], r#"{"zen":"x"}"#), "ping");
    let delivery = [("x-github-event", "push"), ("x-github-delivery", "72d3162e")];
    assert!(made(github, &delivery, r#"{"id":7}"#).starts_with("h/72d3162e  "));
    let question = r#"{"token":"x","challenge":"3eZb","type":"url_verification"}"#;
    assert_eq!(made(json!({"scheme": "slack"}), &[], question), "challenge 3eZb");
    assert_eq!(made(json!({}), &[], question), "/id", "of Slack alone");
}

#[test]
fn places() {
    for wrong in ["", "id", "header:", "header:a b", "/a~2", "/~", &format!("/{}", "a".repeat(PLACE_BYTES_MAX))] {
        assert!(Place::parse(wrong).is_err(), "{wrong}");
    }
    let Ok(Place::Body(_, parts)) = Place::parse("/a~1b/~0/") else { panic!() };
    assert_eq!(parts, ["a/b", "~", ""]);
}
