//! Inbound webhooks, signed as each kind of sender does: good, wrong, old, with the old secret and the new one, twice,
//! and into a queue that is full.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::support::api::{Answer, Api};
use crate::support::{Dir, Server};

const OLD: &str = "whsec_b2xkIHNlY3JldCBvbGQgc2VjcmV0IG9sZA==";
const NEW: &str = "whsec_bmV3IHNlY3JldCBuZXcgc2VjcmV0IG5ldw==";
const STRANGE: &str = "whsec_c3RyYW5nZXIgc3RyYW5nZXIgc3RyYW5nZQ==";

/// The headers that sign a request: by secret, instant, id and body.
type Sign = fn(secret: &str, at: u64, id: &str, body: &str) -> Vec<(&'static str, String)>;

/// A sender: how it signs a body at a time, and with which id.
struct Sender {
    scheme: &'static str,
    /// What its hook says beside that.
    more: fn() -> Value,
    sign: Sign,
    has_time: bool,
}

const SENDERS: [Sender; 6] = [
    Sender {
        scheme: "standard-webhooks",
        more: || json!({}),
        sign: |secret, at, id, body| {
            let key = STANDARD.decode(&secret["whsec_".len()..]).unwrap();
            let signature = STANDARD.encode(mac(&key, &format!("{id}.{at}.{body}")));
            vec![
                ("webhook-id", id.to_owned()),
                ("webhook-timestamp", at.to_string()),
                ("webhook-signature", format!("v1,{signature}")),
            ]
        },
        has_time: true,
    },
    Sender {
        scheme: "stripe",
        more: || json!({}),
        sign: |secret, at, _, body| {
            let signature = hex(&mac(secret.as_bytes(), &format!("{at}.{body}")));
            vec![("stripe-signature", format!("t={at},v1={signature},v0=00"))]
        },
        has_time: true,
    },
    Sender {
        scheme: "github",
        more: || json!({}),
        sign: |secret, _, id, body| {
            let signature = hex(&mac(secret.as_bytes(), body));
            vec![
                ("x-github-delivery", id.to_owned()),
                ("x-github-event", "push".to_owned()),
                ("x-hub-signature-256", format!("sha256={signature}")),
            ]
        },
        has_time: false,
    },
    Sender {
        scheme: "slack",
        more: || json!({"eventId": "/id"}),
        sign: |secret, at, _, body| {
            let signature = hex(&mac(secret.as_bytes(), &format!("v0:{at}:{body}")));
            vec![("x-slack-request-timestamp", at.to_string()), ("x-slack-signature", format!("v0={signature}"))]
        },
        has_time: true,
    },
    Sender {
        scheme: "hmac",
        more: || json!({"hmac": {"header": "X-Signature"}}),
        sign: |secret, _, _, body| vec![("x-signature", hex(&mac(secret.as_bytes(), body)))],
        has_time: false,
    },
    Sender {
        scheme: "hmac",
        more: || json!({"hmac": {"header": "x-sig", "prefix": "v1=", "encoding": "base64", "timestampHeader": "x-at"}}),
        sign: |secret, at, _, body| {
            let signature = STANDARD.encode(mac(secret.as_bytes(), &format!("{at}.{body}")));
            vec![("x-sig", format!("v1={signature}")), ("x-at", at.to_string())]
        },
        has_time: true,
    },
];

fn mac(key: &[u8], signed: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(signed.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn start(dir: &Dir) -> Server {
    let mut command = Server::command(&dir.path().join("data"), &[]);
    Server::spawn(command.env("HOOK_OLD", OLD).env("HOOK_NEW", NEW))
}

fn post(api: &Api, hook: &str, headers: &[(&'static str, String)], body: &str) -> Answer {
    let json = ("content-type", "application/json".to_owned());
    let all: Vec<(&str, &str)> = headers.iter().chain([&json]).map(|(name, value)| (*name, value.as_str())).collect();
    api.send("POST", &format!("/v1/hooks/{hook}"), &all, body).expect("an answer")
}

fn event(id: &str) -> String {
    // A payload that is read again would be written otherwise.
    format!("{{ \"id\" : \"{id}\",\"type\":\"paid\",\"data\":{{\"object\":{{\"id\":\"in_\\u0031\",\"n\":1.50}}}}}}\n")
}

fn config(sender: &Sender, queue: &str, secrets: &[&str]) -> Value {
    let mut config = json!({"queue": queue, "type": "paid", "scheme": sender.scheme, "secrets": secrets,
        "payload": {"invoice": "/data/object/id", "n": "/data/object/n"}, "businessId": "/data/object/id"});
    config.as_object_mut().unwrap().extend((sender.more)().as_object().unwrap().clone());
    config
}

#[test]
fn every_scheme_good_wrong_old_rotated_twice_and_full() {
    let dir = Dir::new();
    let server = start(&dir);
    let api = Api::new(&server.url);
    for (number, sender) in SENDERS.iter().enumerate() {
        let hook = &format!("hook-{number}");
        let path = format!("/v1/hooks/{hook}");
        println!("{} {hook}", sender.scheme);
        api.configure(hook, &json!({"maxDepth": 2}));
        api.put(&path, &config(sender, hook, &["env:HOOK_OLD"])).expect(201);
        let send = |secret: &str, at: u64, id: &str| {
            let body = event(id);
            post(&api, hook, &(sender.sign)(secret, at, id, &body), &body)
        };
        let taken = send(OLD, now(), "evt_1").expect(200);
        let job = api.job(taken["id"].as_str().unwrap());
        assert_eq!(
            (&taken["deduplicated"], &job["type"], &job["queue"]),
            (&json!(false), &json!("paid"), &json!(hook))
        );
        assert_eq!(job["payload"].to_string(), r#"{"invoice":"in_1","n":1.5}"#);
        assert_eq!((&job["businessId"], &job["dedupKey"]), (&json!("in_1"), &json!(format!("{hook}/evt_1"))));

        let wrong = send(STRANGE, now(), "evt_2").problem(401, "unauthenticated");
        assert!(wrong.to_string().contains("the signature is wrong"), "{wrong}");
        let body = event("evt_2");
        let signed = (sender.sign)(OLD, now(), "evt_2", &body);
        post(&api, hook, &signed, &body.replace("paid", "Paid")).problem(401, "unauthenticated");
        post(&api, hook, &[], &body).problem(401, "unauthenticated");
        for at in [now() - 400, now() + 400] {
            let old = send(OLD, at, "evt_1");
            if sender.has_time {
                assert!(old.problem(401, "unauthenticated").to_string().contains("too old"));
            } else {
                assert_eq!(old.expect(200)["deduplicated"], true);
            }
        }

        // While the secret is being changed both count, then only the new one.
        api.put(&path, &config(sender, hook, &["env:HOOK_NEW", "env:HOOK_OLD"])).expect(200);
        let again = send(OLD, now(), "evt_1").expect(200);
        assert_eq!((&again["id"], &again["deduplicated"]), (&taken["id"], &json!(true)));
        assert_eq!(send(NEW, now(), "evt_2").expect(200)["deduplicated"], false);
        api.put(&path, &config(sender, hook, &["env:HOOK_NEW"])).expect(200);
        send(OLD, now(), "evt_2").problem(401, "unauthenticated");
        assert_eq!(send(NEW, now(), "evt_2").expect(200)["deduplicated"], true);

        // Full: the sender is told to come again, and then it is taken.
        send(NEW, now(), "evt_3").problem(503, "overloaded");
        let job = api.take(hook);
        api.ack(&job);
        assert_eq!(send(NEW, now(), "evt_3").expect(200)["deduplicated"], false);
        // What is done is still known.
        assert_eq!(send(NEW, now(), "evt_1").expect(200)["id"], taken["id"]);
    }
    let stats = api.get("/v1/queues/hook-0/stats").expect(200);
    assert_eq!((&stats["rejected"]["unauthenticated"], &stats["rejected"]["max-depth"]), (&json!(6), &json!(1)));
    let seen = server.stop();
    for secret in [OLD, NEW, STRANGE] {
        assert!(!seen.err.contains(&secret[6..]) && !seen.out.contains(&secret[6..]), "a secret was told");
    }
}

#[test]
fn what_is_no_event_is_answered() {
    let dir = Dir::new();
    let server = start(&dir);
    let api = Api::new(&server.url);
    let github = &SENDERS[2];
    api.put("/v1/hooks/github", &config(github, "q", &["env:HOOK_NEW"])).expect(201);
    let body = r#"{"zen":"Keep it logically awesome.","hook_id":1}"#;
    let mut ping = (github.sign)(NEW, 0, "72d3162e", body);
    ping[1].1 = "ping".to_owned();
    let answered = post(&api, "github", &ping, body).expect(200);
    assert_eq!(answered, json!({"id": null, "deduplicated": false, "ignored": "ping"}));
    let slack = &SENDERS[3];
    let mut only = config(slack, "q", &["env:HOOK_NEW"]);
    only["only"] = json!({"/type": ["event_callback"]});
    api.put("/v1/hooks/slack", &only).expect(201);
    let body = r#"{"token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}"#;
    let signed = (slack.sign)(NEW, now(), "", body);
    let answered = post(&api, "slack", &signed, body).expect(200);
    assert_eq!(answered, json!({"challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"}));
    post(&api, "slack", &(slack.sign)(OLD, now(), "", body), body).problem(401, "unauthenticated");
    let body = event("evt_1");
    let answered = post(&api, "slack", &(slack.sign)(NEW, now(), "", &body), &body).expect(200);
    assert_eq!(answered["ignored"], "only");
    api.get("/v1/queues/q").problem(404, "not-found");
    server.stop();
}

#[test]
fn a_hook_survives_a_restart_and_says_which_secret_is_missing() {
    let dir = Dir::new();
    let server = start(&dir);
    let file = dir.write("hook.json", &config(&SENDERS[1], "billing", &["env:HOOK_NEW"]).to_string());
    server.run(&["hooks", "put", "stripe", &file]).expect(0);
    let list = server.run(&["hooks"]).expect(0).out;
    assert!(list.contains("stripe") && list.contains("billing") && list.contains("set"), "{list}");
    let none = config(&SENDERS[1], "billing", &["env:HOOK_NONE"]);
    let api = Api::new(&server.url);
    let refused = api.put("/v1/hooks/other", &none).problem(400, "invalid-request");
    assert_eq!(refused["errors"][0]["pointer"], "/secrets/0", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("HOOK_NONE"), "{refused}");
    let told = api.put("/v1/hooks/other", &config(&SENDERS[1], "billing", &[NEW])).problem(400, "invalid-request");
    assert!(!told.to_string().contains(&NEW[6..]), "{told}");
    server.stop();

    let data = dir.path().join("data");
    let server = Server::start(&data);
    let api = Api::new(&server.url);
    let shown = server.json(&["hooks", "show", "stripe"]);
    assert_eq!(shown["secrets"], json!([{"variable": "HOOK_NEW", "set": false}]));
    assert!(shown["warnings"][0].as_str().unwrap().contains("HOOK_NEW"), "{shown}");
    assert!(server.run(&["hooks"]).expect(0).out.contains("missing: HOOK_NEW"));
    let body = event("evt_1");
    let signed = (SENDERS[1].sign)(NEW, now(), "", &body);
    post(&api, "stripe", &signed, &body).problem(503, "overloaded");
    server.stop().says("HOOK_NEW");

    let server = start(&dir);
    let api = Api::new(&server.url);
    let signed = (SENDERS[1].sign)(NEW, now(), "", &body);
    let taken = post(&api, "stripe", &signed, &body).expect(200);
    assert_eq!(taken["deduplicated"], false);
    server.run(&["hooks", "remove", "stripe"]).expect(0);
    let gone = post(&api, "stripe", &signed, &body).problem(404, "not-found");
    assert!(gone["detail"].as_str().unwrap().contains("stripe"), "{gone}");
    assert_eq!(api.job(taken["id"].as_str().unwrap())["state"], "ready", "its job stays");
    server.stop();
}

#[test]
fn what_a_hook_may_not_be_and_what_may_not_be_sent() {
    let dir = Dir::new();
    let server = start(&dir);
    let api = Api::new(&server.url);
    let good = config(&SENDERS[1], "q", &["env:HOOK_NEW"]);
    for (pointer, value) in [
        ("/queue", json!("a b")),
        ("/type", json!("")),
        ("/schemaVersion", json!(0)),
        ("/scheme", json!("sripe")),
        ("/secrets", json!([])),
        ("/secrets", json!(["env:HOOK_NEW", "env:HOOK_NEW", "env:HOOK_OLD"])),
        ("/secrets/0", json!(["HOOK_NEW"])),
        ("/tolerance", json!("0s")),
        ("/tolerance", json!("2h")),
        ("/eventId", json!("id")),
        ("/only/type", json!({"type": "x"})),
        ("/only/~1type", json!({"/type": []})),
        ("/only/~1type", json!({"/type": {"a": 1}})),
        ("/payload", json!({})),
        ("/payload/a", json!({"a": "b"})),
        ("/businessId", json!("header:")),
        ("/hmac", json!({"header": "x"})),
        ("/hmcc", json!(1)),
    ] {
        let mut wrong = good.clone();
        wrong[pointer[1..].split('/').next().unwrap()] = value.clone();
        let refused = api.put("/v1/hooks/h", &wrong);
        assert_eq!(refused.status, 400, "{pointer} {value}: {refused:?}");
        let problem: Value = serde_json::from_str(&refused.text).unwrap();
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{value}: {problem}");
    }
    let mut timeless = config(&SENDERS[2], "q", &["env:HOOK_NEW"]);
    timeless["tolerance"] = json!("5m");
    api.put("/v1/hooks/h", &timeless).problem(400, "invalid-request");
    let mut formless = config(&SENDERS[4], "q", &["env:HOOK_NEW"]);
    formless.as_object_mut().unwrap().remove("hmac");
    api.put("/v1/hooks/h", &formless).problem(400, "invalid-request");

    api.put("/v1/hooks/h", &good).expect(201);
    let send = |body: &str| post(&api, "h", &(SENDERS[1].sign)(NEW, now(), "", body), body);
    send("{").problem(400, "malformed-json");
    send(r#"{"id":"evt_1","data":{"object":{"id":{"card":"4242"}}}}"#).problem(400, "invalid-request");
    send(r#"{"data":1}"#).problem(400, "invalid-request");
    let secret = r#"{"id":"evt_1","data":{"object":{"id":"sk_live_4eC39HqLyjWDarjtT1zdp7dc"}}}"#;
    send(secret).problem(422, "secret-in-payload");
    let padded = |bytes: usize| {
        let body = event("evt_9");
        format!("{body}{}", " ".repeat(bytes - body.len()))
    };
    send(&padded(4 << 20)).expect(200);
    send(&padded((4 << 20) + 1)).problem(413, "request-too-large");
    let body = event("evt_10");
    let signed = (SENDERS[1].sign)(NEW, now(), "", &body);
    let text = [("stripe-signature", signed[0].1.as_str()), ("content-type", "text/plain")];
    api.send("POST", "/v1/hooks/h", &text, &body).unwrap().problem(415, "unsupported-media-type");
    // A web page cannot send, and whoever signs may say what it likes beside.
    let page = [&text[..1], &[("content-type", "application/json"), ("origin", "https://evil.example")]].concat();
    api.send("POST", "/v1/hooks/h", &page, &body).unwrap().problem(403, "foreign-origin");
    let keyed = [&text[..1], &[("content-type", "application/json"), ("idempotency-key", "k")]].concat();
    api.send("POST", "/v1/hooks/h", &keyed, &body).unwrap().expect(200);
    server.stop();
}
