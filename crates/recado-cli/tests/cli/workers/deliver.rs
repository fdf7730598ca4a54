//! Deliveries to a real web server, and what its answers mean.

use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::endpoint::{Answer, Endpoint, answer};
use super::{QUEUE, one, stage, start, stop};
use crate::support::api::{kinds, list};
use crate::support::{Dir, Process, command, command_through, finish, pass};

/// The published example of the scheme.
const EXAMPLE_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const EXAMPLE: [&str; 4] = [
    "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "1614265330",
    "{\"test\": 2432232314}",
    "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
];
const OTHER_SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The scheme once more, in another language: which of the signatures are by this secret.
const VERIFY: &str = "
import base64, hashlib, hmac, sys
secret, id, timestamp, body, signatures = sys.argv[1:]
key = base64.b64decode(secret.removeprefix('whsec_'))
expected = hmac.new(key, f'{id}.{timestamp}.{body}'.encode(), hashlib.sha256).digest()
for index, signature in enumerate(signatures.split(' ')):
    version, encoded = signature.split(',')
    if version == 'v1' and hmac.compare_digest(base64.b64decode(encoded), expected):
        print(index)
";

/// Which of the signatures are by this secret; `None` without Python.
fn signed_by(secret: &str, [id, timestamp, body, signatures]: [&str; 4]) -> Option<String> {
    let output = Command::new("python3").args(["-c", VERIFY, secret, id, timestamp, body, signatures]).output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap().replace('\n', " ").trim().to_owned())
}

fn deliver(stage: &crate::support::stage::Stage, dir: &Dir, to: &str, more: &[&str]) -> Process {
    start(stage, dir, &[&["deliver", "--allow-private", "--to", to], more].concat())
}

#[test]
fn what_an_answer_means() {
    let (stage, dir) = (stage(), Dir::new());
    let ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let endpoint = Endpoint::start(move |request| match request.header("recado-job-type") {
        "json" => answer(200, "", " {\"ok\": [1]} "),
        "text" => answer(202, "", "thank you"),
        "endless" => Answer::Endless(format!("{ok}\r\n{{")),
        "breaks-off" => Answer::Bytes(format!("{ok}content-length: 100\r\n\r\n{{\"a\":1}}")),
        "stalls" => Answer::Bytes(format!("{ok}transfer-encoding: chunked\r\n\r\n1\r\n7\r\n")),
        "hangs" => Answer::Hang,
        "closes" => Answer::Bytes(String::new()),
        "nonsense" => Answer::Bytes("SSH-2.0-OpenSSH\r\n".to_owned()),
        "moved" => answer(308, "location: /moved\r\n", ""),
        "later" => answer(503, "retry-after: 7200\r\n", "busy"),
        status => answer(status.parse().unwrap(), "", "no such\nmailbox"),
    });
    let done = |result: Value| ("completed", result, None);
    let fails =
        |kind, message, again| (if again { "delayed" } else { "dead" }, Value::Null, Some((kind, message, again)));
    let rows = [
        ("json", done(json!({ "ok": [1] }))),
        ("text", done(Value::Null)),
        ("204", done(Value::Null)),
        ("endless", done(Value::Null)),
        ("breaks-off", done(Value::Null)),
        ("stalls", done(Value::Null)),
        ("400", fails("http-400", "answered 400", false)),
        ("401", fails("http-401", "mailbox", false)),
        ("404", fails("http-404", "mailbox", false)),
        ("410", fails("http-410", "mailbox", false)),
        ("422", fails("http-422", "mailbox", false)),
        ("408", fails("http-408", "mailbox", true)),
        ("425", fails("http-425", "mailbox", true)),
        ("429", fails("http-429", "mailbox", true)),
        ("500", fails("http-500", "answered 500", true)),
        ("later", fails("http-503", "busy", true)),
        ("moved", fails("http-308", "moved to /moved", true)),
        ("hangs", fails("timeout", "cut off after", true)),
        ("closes", fails("no-answer", "", true)),
        ("nonsense", fails("no-answer", "", true)),
    ];
    let ids = rows.each_ref().map(|(kind, _)| one(&stage, kind));
    let worker = deliver(&stage, &dir, &endpoint.url(), &["--timeout", "3s", "-c", "8"]);
    for (id, (kind, (state, result, failure))) in ids.iter().zip(&rows) {
        stage.until_state(id, state);
        let job = stage.job(id);
        assert_eq!((&job["result"], &job["attempts"]), (result, &json!(1)), "{kind}: {job}");
        let errors = list(&job, "errors");
        assert_eq!(errors.len(), usize::from(failure.is_some()), "{kind}: {job}");
        if let Some((word, message, again)) = failure {
            let error = &errors[0];
            assert_eq!((&error["kind"], &error["retryable"]), (&json!(word), &json!(again)), "{kind}: {error}");
            assert!(error["message"].as_str().unwrap().contains(message), "{kind}: {error}");
            if *again {
                let hours = if *kind == "later" { 2 } else { 1 };
                assert_eq!(wait(&job), jiff::SignedDuration::from_hours(hours), "{kind}: {job}");
            }
        }
    }
    stop(worker);
    let moved = |request: &super::endpoint::Request| request.target != "/hook?of=recado";
    assert!(!endpoint.requests().iter().any(moved), "a redirect was followed");
}

/// From the failure to the next attempt.
fn wait(job: &Value) -> jiff::SignedDuration {
    let at = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    at(&job["runAt"]).duration_since(at(&job["errors"][0]["at"]))
}

#[test]
fn a_delivery_is_signed_and_says_what_it_is() {
    if signed_by(EXAMPLE_SECRET, EXAMPLE).is_none() {
        return println!("skipped: python3 not installed");
    }
    assert_eq!(signed_by(EXAMPLE_SECRET, EXAMPLE).unwrap(), "0", "the verifier agrees with what is published");
    assert_eq!(signed_by(OTHER_SECRET, EXAMPLE).unwrap(), "");
    let (stage, dir) = (stage(), Dir::new());
    let endpoint = Endpoint::start(|request| match request.header("recado-attempt") {
        "1" => answer(503, "retry-after: 1\r\n", ""),
        _ => answer(200, "", "1"),
    });
    let worker = deliver(&stage, &dir, &endpoint.url(), &["--secret", EXAMPLE_SECRET, "--secret", OTHER_SECRET]);
    let payload = r#"{"b" : 1.0, "a":[ "\u00f1 ñ" ] ,"n":12345678901234567890123}"#;
    let job = format!(r#"{{"type":"mail.sent","idempotencyKey":"clé 1","payload":{payload}}}"#);
    let json = [("content-type", "application/json")];
    let answer = stage.send("POST", "/v1/queues/q/jobs", &json, &job).unwrap().expect(201);
    let id = answer["jobs"][0]["id"].as_str().unwrap();
    stage.until_state(id, "completed");
    stop(worker);
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 2);
    for (index, request) in requests.iter().enumerate() {
        assert_eq!(request.body, payload, "byte for byte");
        assert_eq!(request.header("recado-attempt"), (index + 1).to_string());
        assert!(request.header("traceparent").starts_with("00-"));
        for (name, expected) in [
            ("webhook-id", id),
            ("content-type", "application/json"),
            ("recado-job-type", "mail.sent"),
            ("recado-idempotency-key", "clé 1"),
        ] {
            assert_eq!(request.header(name), expected, "{name}");
        }
        let timestamp = request.header("webhook-timestamp");
        let signed = [id, timestamp, payload, request.header("webhook-signature")];
        assert_eq!(signed_by(EXAMPLE_SECRET, signed).unwrap(), "0");
        assert_eq!(signed_by(OTHER_SECRET, signed).unwrap(), "1");
        let at = timestamp.parse().unwrap();
        let age = jiff::Timestamp::now().duration_since(jiff::Timestamp::from_second(at).unwrap());
        assert!(age.abs() < jiff::SignedDuration::from_mins(10), "{timestamp}");
    }
}

#[test]
fn secrets_come_from_the_environment_too_and_are_not_told() {
    let (stage, dir) = (stage(), Dir::new());
    let endpoint = Endpoint::start(|_| answer(204, "", ""));
    let (url, to) = (stage.url(), endpoint.url());
    let args = ["deliver", "-q", QUEUE, "--url", url, "--allow-private", "--to", &to];
    let id = one(&stage, "any");
    let mut with_secrets = command(dir.path(), &args);
    with_secrets.env("SSL_CERT_FILE", "/dev/null").env_remove("SSL_CERT_DIR");
    let worker = Process::spawn(with_secrets.env("RECADO_WEBHOOK_SECRET", format!("{EXAMPLE_SECRET} {OTHER_SECRET}")));
    stage.until_state(&id, "completed");
    worker.signal(rustix::process::Signal::TERM);
    worker.end().expect(0);
    let request = endpoint.requests().remove(0);
    assert_eq!(request.header("webhook-signature").split(' ').count(), 2);
    assert!(!request.headers.contains_key("recado-idempotency-key"));
    for secret in ["whsec_c2Vj!cmV0", "whsec_c2VjcmV0", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        let run = finish(command(dir.path(), &args).env("RECADO_WEBHOOK_SECRET", secret)).expect(64).says("secret 1");
        assert!(!run.err.contains(&secret[10..]), "{run:?}");
    }
    let help =
        finish(command(dir.path(), &["deliver", "--help"]).env("RECADO_WEBHOOK_SECRET", EXAMPLE_SECRET)).expect(0);
    assert!(!help.out.contains(EXAMPLE_SECRET), "{help:?}");
}

#[test]
fn what_is_not_public_needs_a_word() {
    let (stage, dir) = (stage(), Dir::new());
    let endpoint = Endpoint::start(|_| answer(204, "", ""));
    let id = one(&stage, "any");
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "169.254.169.254", "10.0.0.1"] {
        let to = format!("http://{host}:{}/", endpoint.port);
        let args = ["deliver", "-q", QUEUE, "--url", stage.url(), "--to", &to];
        finish(&mut command(dir.path(), &args)).expect(77).says("--allow-private");
    }
    assert_eq!(stage.job(&id)["deliveries"], 0);
    let to = format!("http://localhost:{}/", endpoint.port);
    let worker = deliver(&stage, &dir, &to, &[]);
    stage.until_state(&id, "completed");
    stop(worker);
    assert_eq!(endpoint.requests().len(), 1);
}

/// An authority, and a certificate of it for `localhost`.
const CERTIFY: &str = "
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=authority -days 2 \
  -keyout ca.key -out ca.pem
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost -keyout key.pem -out request.pem
printf 'subjectAltName=DNS:localhost' > extensions
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out cert.pem
";

/// A server that speaks TLS and says its port.
const TLS_SERVER: &str = "
import http.server, ssl
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers['content-length']))
        self.send_response(200)
        self.send_header('content-length', '10')
        self.end_headers()
        self.wfile.write(b'\"over TLS\"')
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hook)
tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
tls.load_cert_chain('cert.pem', 'key.pem')
server.socket = tls.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
";

#[test]
fn who_answers_over_tls_is_checked() {
    let (stage, dir) = (stage(), Dir::new());
    let there = |program: &str| Command::new(program).arg("--help").output().is_ok();
    if !there("openssl") || !there("python3") {
        return println!("skipped: openssl or python3 not installed");
    }
    finish(&mut command_through("sh", dir.path(), &["-ec", CERTIFY])).expect(0);
    let mut server = Process::spawn(&mut command_through("python3", dir.path(), &["-c", TLS_SERVER]));
    let Some(port) = server.line() else { panic!("no port: {:#?}", server.end()) };
    let to = format!("https://localhost:{port}/");
    let args = ["deliver", "-q", QUEUE, "--url", stage.url(), "--allow-private", "--to", &to];
    let with_roots = |roots: &str| {
        let mut command = command(dir.path(), &args);
        command.env("SSL_CERT_FILE", roots).env_remove("SSL_CERT_DIR");
        command
    };
    finish(&mut with_roots("/dev/null")).expect(69).says("certificates");
    // Nobody vouches for it, then its authority does.
    for (roots, state) in [("cert.pem", "delayed"), ("ca.pem", "completed")] {
        let id = one(&stage, "any");
        let worker = Process::spawn(&mut with_roots(roots));
        stage.until_state(&id, state);
        let job = stage.job(&id);
        match state {
            "completed" => assert_eq!(job["result"], "over TLS"),
            _ => assert_eq!(kinds(&job), ["no-connection"], "{job}"),
        }
        worker.signal(rustix::process::Signal::TERM);
        worker.end().expect(0);
    }
}

#[test]
fn nobody_there_is_tried_again() {
    let (stage, dir) = (stage(), Dir::new());
    // A port that was free a moment ago; whoever takes it does not speak HTTP.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let id = one(&stage, "any");
    let worker = deliver(&stage, &dir, &format!("http://127.0.0.1:{port}/"), &[]);
    stage.until_state(&id, "delayed");
    assert_eq!(kinds(&stage.job(&id)), ["no-connection"]);
    stop(worker);
}

#[test]
fn so_many_at_a_time_and_no_more() {
    const AT_ONCE: usize = 3;
    let (stage, dir) = (stage(), Dir::new());
    // Each waits until there are as many as there should be, and tells when there are more.
    let open = Arc::new((Mutex::new((0, 0)), Condvar::new()));
    let count = Arc::clone(&open);
    let endpoint = Endpoint::start(move |_| {
        let (numbers, changed) = &*count;
        let mut guard = numbers.lock().unwrap();
        guard.0 += 1;
        guard.1 = guard.1.max(guard.0);
        changed.notify_all();
        drop(changed.wait_while(guard, |(_, most)| *most < AT_ONCE).unwrap());
        // Time for one more than there should be to show itself.
        pass(Duration::from_millis(30));
        numbers.lock().unwrap().0 -= 1;
        answer(204, "", "")
    });
    let jobs: Vec<_> = (0..12).map(|_| json!({ "type": "any" })).collect();
    let ids = stage.enqueue_all(QUEUE, &json!(jobs));
    let worker = deliver(&stage, &dir, &endpoint.url(), &["-c", &AT_ONCE.to_string()]);
    for id in &ids {
        stage.until_state(id, "completed");
    }
    stop(worker);
    assert_eq!(open.0.lock().unwrap().1, AT_ONCE);
    assert_eq!(endpoint.requests().len(), ids.len());
}
