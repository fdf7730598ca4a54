//! Server-sent events, read as a browser reads them.

use serde_json::{Value, json};

use crate::client::Conn;
use crate::server::{Server, until};

/// A reader of events.
struct Reader {
    conn: Conn,
    /// Read and not yet taken.
    text: String,
    /// What a browser would send as `Last-Event-ID`.
    last_id: String,
}

/// One event.
#[derive(Debug, PartialEq)]
struct Event {
    name: String,
    id: Option<String>,
    data: Value,
}

impl Reader {
    fn open(server: &Server, query: &str) -> Self {
        Self::resume(server, query, "")
    }

    fn resume(server: &Server, query: &str, last_id: &str) -> Self {
        let mut conn = server.connect();
        let header = if last_id.is_empty() { String::new() } else { format!("last-event-id: {last_id}\r\n") };
        conn.send(format!("GET /v1/events{query} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n").as_bytes());
        let head = conn.head_only();
        assert_eq!(head.status, 200, "{}", head.head);
        assert_eq!(head.header("content-type").as_deref(), Some("text/event-stream"));
        assert_eq!(head.header("cache-control").as_deref(), Some("no-store"));
        let mut reader = Self { conn, text: String::new(), last_id: last_id.to_owned() };
        assert!(reader.block().expect("it begins").starts_with("retry: 2000"));
        reader
    }

    /// Lines up to the next empty one; none at the end of the stream.
    fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                if let Some(id) = block.lines().find_map(|line| line.strip_prefix("id: ")) {
                    self.last_id = id.to_owned();
                }
                return Some(block);
            }
            self.read()?;
        }
    }

    /// Reads a piece; none at the end of the stream.
    fn read(&mut self) -> Option<()> {
        self.text.push_str(std::str::from_utf8(&self.conn.chunk()?).unwrap());
        Some(())
    }

    /// The next event; none at the end.
    fn next(&mut self) -> Option<Event> {
        loop {
            let block = self.block()?;
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
            if let Some(name) = field("event: ") {
                let data = serde_json::from_str(&field("data: ").unwrap()).unwrap();
                return Some(Event { name, id: field("id: "), data });
            }
        }
    }

    fn names(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.next().expect("another event").name).collect()
    }
}

/// One job of the queue that is taken and fails for good; its id.
fn kill(server: &Server, queue: &str) -> String {
    let id = server.enqueue(queue, r#"{"type":"t","payload":{"secret":"nobody is told"}}"#).remove(0);
    let job = server.receive(queue, 1).remove(0);
    server.settle(&job, r#""outcome":"fail","error":{"kind":"smtp","message":"no route","retryable":false}"#);
    id
}

/// So many of them; how many events that is.
fn kill_many(server: &Server, queue: &str, count: usize) -> usize {
    server.enqueue(queue, &format!("[{}]", vec![r#"{"type":"t"}"#; count].join(",")));
    let settle = |job: &Value| {
        let error = json!({"message": "x", "retryable": false});
        json!({"id": job["id"], "receipt": job["receipt"], "outcome": "fail", "error": error})
    };
    let settles: Vec<Value> = server.receive(queue, count).iter().map(settle).collect();
    assert_eq!(settles.len(), count);
    server.json("POST", "/v1/settle", &json!(settles).to_string()).expect(200);
    2 * count
}

const NEWS: &str = "?event=failed,retried,dead,replayed";

#[test]
fn attempts_deaths_and_replays_are_told_without_what_is_in_the_job() {
    let server = Server::start();
    let mut reader = Reader::open(&server, NEWS);
    let id = kill(&server, "mail");
    let failed = reader.next().unwrap();
    assert_eq!((failed.name.as_str(), &failed.data["jobId"]), ("failed", &json!(id)));
    let dead = reader.next().unwrap();
    let expected = json!({"at": dead.data["at"], "jobId": id, "queue": "mail", "type": "t", "attempt": 1,
        "errorKind": "smtp", "fingerprint": dead.data["fingerprint"]});
    assert_eq!((dead.name.as_str(), &dead.data), ("dead", &expected));
    assert!(dead.data["at"].as_str().unwrap().ends_with('Z'));
    let groups = server.json("GET", "/v1/queues/mail/dead/groups", "").expect(200);
    assert_eq!(groups["groups"][0]["fingerprint"], dead.data["fingerprint"]);
    server.json("POST", "/v1/queues/mail/dead/replay", r#"{"filter":{"all":true}}"#).expect(202);
    assert_eq!(reader.next().unwrap().name, "replayed");
    let job = server.receive("mail", 1).remove(0);
    server.settle(&job, r#""outcome":"fail","error":{"message":"x","retryAfter":"1h"}"#);
    assert_eq!(reader.next().unwrap().name, "failed");
    let retried = reader.next().unwrap();
    assert_eq!(retried.name, "retried");
    assert!(retried.data["runAt"].as_str().unwrap() > retried.data["at"].as_str().unwrap(), "{retried:?}");
}

#[test]
fn a_reader_hears_only_what_it_asked_for() {
    let server = Server::start();
    for queue in ["mail", "sms"] {
        server.json("PUT", &format!("/v1/queues/{queue}"), "{}").expect(201);
    }
    let mut reader = Reader::open(&server, "?queue=mail,sms&event=dead");
    for queue in ["push", "mail", "push", "sms"] {
        kill(&server, queue);
    }
    let queues: Vec<_> = (0..2).map(|_| reader.next().unwrap().data["queue"].clone()).collect();
    assert_eq!(queues, [json!("mail"), json!("sms")]);
}

#[test]
fn who_comes_back_goes_on_behind_what_it_heard() {
    let server = Server::start();
    let reader = Reader::open(&server, NEWS);
    let begin = reader.last_id.clone();
    drop(reader);
    kill(&server, "mail");
    let mut reader = Reader::resume(&server, NEWS, &begin);
    assert_eq!(reader.names(1), ["failed"]);
    let middle = reader.last_id.clone();
    drop(reader);
    kill(&server, "mail");
    assert_eq!(Reader::resume(&server, NEWS, &middle).names(3), ["dead", "failed", "dead"]);
}

#[test]
fn an_id_of_another_process_is_told_reset() {
    let server = Server::start();
    let mut reader = Reader::open(&server, NEWS);
    kill(&server, "mail");
    reader.names(2);
    let last = reader.last_id.clone();
    let server = server.restart(|_| {});
    assert!(reader.next().is_none(), "the stop has ended it");
    let mut reader = Reader::resume(&server, NEWS, &last);
    let reset = reader.next().unwrap();
    assert_eq!((reset.name.as_str(), reset.data), ("reset", json!({"reason": "restarted"})));
    kill(&server, "mail");
    assert_eq!(reader.names(2), ["failed", "dead"]);
    // What nobody heard is not there; what comes behind the reset's own id is.
    let mut reader = Reader::resume(&server, NEWS, &reset.id.unwrap());
    assert_eq!(reader.names(2), ["failed", "dead"]);
}

#[test]
fn an_id_that_is_too_old_is_told_reset() {
    let server = Server::start();
    let mut reader = Reader::open(&server, NEWS);
    let old = reader.last_id.clone();
    // One more than are kept.
    for count in [1_000; 5].into_iter().chain([1]) {
        let told = kill_many(&server, "mail", count);
        reader.names(told);
    }
    let reset = Reader::resume(&server, NEWS, &old).next().unwrap();
    assert_eq!((reset.name.as_str(), reset.data), ("reset", json!({"reason": "too-old"})));
    let newest = reader.last_id.clone();
    assert_eq!(reset.id.as_deref(), Some(newest.as_str()));
}

#[test]
fn a_reader_that_does_not_keep_up_is_cut_off() {
    let server = Server::start();
    let mut slow = Reader::open(&server, NEWS);
    // Its socket takes some, then it falls behind all that is kept.
    rustix::net::sockopt::set_socket_recv_buffer_size(&slow.conn.stream, 256 << 10).unwrap();
    let mut told = 0;
    for _ in 0..25 {
        told += kill_many(&server, "mail", 1_000);
        // One that reads nothing at all is cut off without a word.
        slow.read();
    }
    let mut heard = 0;
    let last = loop {
        match slow.next() {
            Some(event) if event.name == "reset" => break event,
            Some(_) => heard += 1,
            None => panic!("it ended without a word"),
        }
    };
    assert_eq!(last.data, json!({"reason": "too-slow"}));
    assert!(slow.next().is_none() && heard < told, "{heard} of {told}");
    let again = Reader::resume(&server, NEWS, &slow.last_id).next().unwrap();
    assert_eq!((again.name.as_str(), again.data), ("reset", json!({"reason": "too-old"})));
}

#[test]
fn everything_of_one_job() {
    let server = Server::start();
    let id = server.enqueue("mail", r#"[{"type":"t"},{"type":"t"}]"#).remove(0);
    let mut reader = Reader::open(&server, &format!("?jobId={id}"));
    let now = reader.next().unwrap();
    assert_eq!((now.name.as_str(), &now.data["state"], now.id), ("job", &json!("ready"), None));
    let jobs = server.receive("mail", 2);
    server.settle(&jobs[1], r#""outcome":"ack""#);
    server.settle(&jobs[0], r#""outcome":"release""#);
    let job = server.receive("mail", 1).remove(0);
    server.settle(&job, r#""outcome":"ack","result":{"not":"told"}"#);
    let received = reader.next().unwrap();
    assert_eq!((received.name.as_str(), &received.data["attempt"]), ("received", &json!(1)));
    assert!(received.data["visibleAt"].is_string());
    assert_eq!(reader.names(3), ["released", "received", "completed"]);
    let last = reader.last_id.clone();
    drop(reader);
    let mut reader = Reader::resume(&server, &format!("?jobId={id}&event=completed"), &last);
    assert_eq!(reader.next().unwrap().data["state"], "completed");
    // Nothing can happen any more to a job that is not there, so the stream ends.
    server.json("DELETE", "/v1/queues/mail?force=true", "").expect(200);
    assert!(reader.next().is_none());
    server.json("GET", &format!("/v1/events?jobId={id}"), "").problem(410, "gone");
}

#[test]
fn figures_come_every_second_without_ids() {
    let server = Server::start();
    server.enqueue("mail", r#"{"type":"t"}"#);
    server.enqueue("sms", r#"[{"type":"t"},{"type":"t"}]"#);
    for (query, expected) in [("?event=stats", vec!["mail", "sms"]), ("?event=stats&queue=sms", vec!["sms"])] {
        let mut reader = Reader::open(&server, query);
        for _ in 0..2 {
            for queue in &expected {
                let stats = reader.next().unwrap();
                assert_eq!((stats.name.as_str(), stats.id, &stats.data["queue"]), ("stats", None, &json!(queue)));
                assert_eq!(stats.data["stats"]["ready"], if *queue == "sms" { 2 } else { 1 });
            }
        }
    }
}

#[test]
fn breakers_are_told_to_the_queues_that_they_stop() {
    let server = Server::start();
    let breaker = json!({"failureRate": 0.5, "window": "30s", "minJobs": 2, "coolDown": "1s"});
    server.json("PUT", "/v1/limits/stripe", &json!({"breaker": breaker}).to_string()).expect(201);
    server.json("PUT", "/v1/queues/charges", r#"{"limits":["stripe"]}"#).expect(201);
    server.json("PUT", "/v1/queues/mail", &json!({"breaker": breaker}).to_string()).expect(201);
    let mut all = Reader::open(&server, "?event=breaker");
    let mut charges = Reader::open(&server, "?event=breaker&queue=charges");
    for queue in ["mail", "mail", "charges", "charges"] {
        kill(&server, queue);
    }
    let opened = all.next().unwrap();
    let expected =
        json!({"at": opened.data["at"], "queue": "mail", "limit": null, "state": "open", "queues": ["mail"]});
    assert_eq!((opened.name.as_str(), &opened.data), ("breaker", &expected));
    assert!(opened.id.is_some());
    let opened = charges.next().unwrap();
    let expected =
        json!({"at": opened.data["at"], "queue": null, "limit": "stripe", "state": "open", "queues": ["charges"]});
    assert_eq!(opened.data, expected);
    assert_eq!(charges.next().unwrap().data["state"], "halfOpen");
}

#[test]
fn what_cannot_be_asked_for() {
    let server = Server::start();
    server.enqueue("mail", r#"{"type":"t"}"#);
    for (query, told) in [
        ("?event=alert", "sends no alerts"),
        ("?event=dead,daed", "there is no event `daed`"),
        ("?event=completed", "there is no event `completed`"),
        ("?jobId=job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f&event=stats", "there is no event `stats`"),
        ("?jobId=job_018f3c5e7b1a7c3d9e2f1a2b3c4d5e6f&queue=mail", "does not go with jobId"),
        ("?job=1", "unknown parameter"),
    ] {
        let problem = server.json("GET", &format!("/v1/events{query}"), "").problem(400, "invalid-request");
        assert!(problem.to_string().contains(told), "{query}: {problem}");
    }
    let problem = server.json("GET", "/v1/events?queue=mial", "").problem(404, "not-found");
    assert_eq!(problem["nearest"], "mail");
    let names: Vec<String> = (0..101).map(|n| format!("q{n}")).collect();
    let path = format!("/v1/events?queue={}", names.join(","));
    server.json("GET", &path, "").problem(400, "invalid-request");
    let answer = server.connect().request("GET", "/v1/events", "last-event-id: 17\r\n", b"");
    answer.problem(400, "invalid-request");
}

#[test]
fn readers_that_have_left_give_their_places_back() {
    let server = Server::start();
    let readers: Vec<_> = (0..1_000).map(|_| Reader::open(&server, "?event=dead")).collect();
    server.json("GET", "/v1/events", "").problem(503, "overloaded");
    drop(readers);
    until("a place is free", || {
        let mut conn = server.connect();
        conn.send(b"GET /v1/events?event=dead HTTP/1.1\r\nhost: localhost\r\n\r\n");
        conn.head_only().status == 200
    });
}
