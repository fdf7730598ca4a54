//! Children and batches, as producers, workers and people see them.

use serde_json::{Value, json};

use crate::server::{Server, until};

fn enqueue(server: &Server, queue: &str, jobs: &Value) -> Value {
    server.json("POST", &format!("/v1/queues/{queue}/jobs"), &jobs.to_string()).expect(201)["jobs"].clone()
}

fn refused(server: &Server, job: &Value) -> Value {
    let answer = server.json("POST", "/v1/queues/q/jobs", &job.to_string());
    assert!((400..500).contains(&answer.status), "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

#[track_caller]
fn pointers(problem: &Value) -> Vec<&str> {
    problem["errors"].as_array().unwrap().iter().map(|error| error["pointer"].as_str().unwrap()).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// A leaf below so many parents.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!({ "type": "leaf" }), |job, _| json!({ "type": "t", "children": [job] }))
}

#[test]
fn a_parent_is_handed_out_with_what_its_children_answered() {
    let server = Server::start();
    let job = json!({
        "type": "report", "children": [
            { "type": "page", "payload": 1 },
            { "type": "image", "payload": 2, "queue": "images", "children": [{ "type": "fetch" }] },
        ],
    });
    let made = enqueue(&server, "q", &job);
    let parent = text(&made[0]["id"]);
    let [page, image] = [0, 1].map(|at| text(&made[0]["children"][at]["id"]).to_owned());
    let fetch = text(&made[0]["children"][1]["children"][0]["id"]);
    assert_eq!(made[0]["deduplicated"], false);
    let view = server.job(parent);
    assert_eq!((&view["state"], &view["heldBack"]), (&json!("blocked"), &json!("children-pending")));
    let counts = json!({ "total": 2, "pending": 2, "completed": 0, "failed": 0, "jobs": [
        { "id": page, "state": "ready", "result": null }, { "id": image, "state": "blocked", "result": null },
    ] });
    assert_eq!(view["children"], counts);
    let view = server.job(&page);
    assert_eq!((&view["parent"], view.get("children")), (&json!(parent), None));
    let stats = server.json("GET", "/v1/queues/q/stats", "").expect(200);
    assert_eq!((&stats["blocked"], &stats["heldBack"]["children-pending"]), (&json!(1), &json!(1)), "{stats}");

    let received = server.receive("q", 9);
    assert_eq!(received.len(), 1, "{received:?}");
    let result = "{ \"pages\" : [1, 2.50] }";
    assert_eq!(server.settle(&received[0], &format!("\"outcome\":\"ack\",\"result\":{result}"))["ok"], true);
    let received = server.receive("images", 9);
    assert_eq!(received[0]["id"], fetch);
    server.settle(&received[0], "\"outcome\":\"ack\",\"result\":7");
    let received = server.receive("images", 9);
    assert_eq!((&received[0]["id"], &received[0]["children"]["jobs"][0]["result"]), (&json!(image), &json!(7)));
    server.settle(&received[0], "\"outcome\":\"ack\"");
    let answer = server.json("POST", "/v1/queues/q/receive", "{\"wait\":\"30s\"}");
    assert!(answer.text().contains(result), "byte for byte: {}", answer.text());
    let received = answer.expect(200)["jobs"][0].clone();
    assert_eq!(received["id"], parent);
    assert_eq!(received["children"]["jobs"][1], json!({ "id": image, "state": "completed", "result": null }));
    server.settle(&received, "\"outcome\":\"ack\"");
    let view = server.job(parent);
    assert_eq!(view["children"], json!({ "total": 2, "pending": 0, "completed": 2, "failed": 0 }));
    assert_eq!(server.job(&page)["parent"], Value::Null);
}

#[test]
fn a_batch_ends_with_one_job() {
    let server = Server::start();
    let last = json!({ "type": "done", "queue": "after" });
    let of = |kind: &str| json!({ "type": kind, "batch": { "id": "b", "onComplete": last } });
    enqueue(&server, "q", &json!([of("a"), of("b"), { "type": "c", "batch": { "id": "b" } }]));
    let received = server.receive("q", 9);
    let end = server.job(text(&server.job(text(&received[0]["id"]))["parent"]));
    assert_eq!((&end["queue"], &end["state"]), (&json!("after"), &json!("blocked")));
    server.settle(&received[0], "\"outcome\":\"ack\",\"result\":1");
    server.settle(&received[1], "\"outcome\":\"fail\",\"error\":{\"message\":\"no\",\"retryable\":false}");
    // From within, while it is open.
    enqueue(&server, "q", &json!({ "type": "d", "batch": { "id": "b" } }));
    server.settle(&received[2], "\"outcome\":\"ack\"");
    assert_eq!(server.receive("after", 9), [] as [Value; 0]);
    let more = server.receive("q", 9);
    server.settle(&more[0], "\"outcome\":\"ack\"");
    let ended = server.receive("after", 9);
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert_eq!(ended[0]["children"], json!({ "total": 4, "pending": 0, "completed": 3, "failed": 1 }));
    let problem = refused(&server, &json!({ "type": "e", "batch": { "id": "b" } }));
    assert_eq!(pointers(&problem), ["/batch/onComplete"]);
}

#[test]
fn each_mistake_in_a_family_is_named_where_it_stands() {
    let server = Server::start();
    let child = |child: Value| json!({ "type": "t", "children": [{ "type": "t" }, child] });
    for (job, expected) in [
        (json!({ "type": "t", "queue": "other" }), "/queue"),
        (json!({ "type": "t", "onChildDead": "fail" }), "/onChildDead"),
        (json!({ "type": "t", "batch": { "id": "" } }), "/batch/id"),
        (
            json!({ "type": "t", "batch": { "id": "b", "onComplete": { "type": "t", "delay": "1h", "runAt": "x" } } }),
            "/batch/onComplete/delay",
        ),
        (
            json!({ "type": "t", "batch": { "id": "b", "onComplete": { "type": "t", "batch": { "id": "c" } } } }),
            "/batch/onComplete",
        ),
        (child(json!({ "type": "recado.own" })), "/children/1/type"),
        (child(json!({ "type": "t", "queue": "recado.own" })), "/children/1/queue"),
        (child(json!({ "type": "t", "priority": 256 })), "/children/1/priority"),
        (child(json!({ "type": "t", "dedup": { "key": "k" } })), "/children/1/dedup"),
        (child(json!({ "type": "t", "batch": { "id": "b" } })), "/children/1/batch"),
        (child(json!({ "type": "t", "children": [{ "type": "t", "paylod": 1 }] })), "/children/1/children/0/paylod"),
        (child(json!({ "type": "t", "payload": { "password": "hunter2-Zk4!vQ9x" } })), "/children/1/payload/password"),
        (child(json!({ "type": "t", "payload": "x".repeat(70_000) })), "/children/1/payload"),
    ] {
        let problem = refused(&server, &job);
        assert_eq!(pointers(&problem), [expected], "{problem}");
    }
    // By what the child's own queue asks.
    server.json("PUT", "/v1/queues/strict", r#"{"payload":{"requireBusinessId":true,"secrets":"off"}}"#).expect(201);
    let job = child(json!({ "type": "t", "queue": "strict", "payload": { "password": "hunter2-Zk4!vQ9x" } }));
    let problem = refused(&server, &job);
    assert_eq!((pointers(&problem), &problem["code"]), (vec!["/children/1/businessId"], &json!("schema-violation")));
    server.json("PUT", "/v1/types/page/versions/1", r#"{"type":"object"}"#).expect(201);
    let problem = refused(&server, &child(json!({ "type": "page", "payload": 1 })));
    assert_eq!((pointers(&problem), &problem["code"]), (vec!["/children/1/payload"], &json!("schema-violation")));
    // Nothing of all that is there.
    let queues = server.json("GET", "/v1/queues", "").expect(200);
    assert_eq!(queues["queues"].as_array().unwrap().len(), 1, "{queues}");
    let stream = server.connect().request(
        "POST",
        "/v1/queues/q/jobs",
        "content-type: application/x-ndjson\r\n",
        b"{\"type\":\"t\",\"children\":[{\"type\":\"t\"}]}\n{\"type\":\"t\",\"batch\":{\"id\":\"b\"}}\n",
    );
    assert!(stream.text().contains("\"/batch\""), "{}", stream.text());
}

#[test]
fn families_have_limits() {
    let server = Server::start_full_size();
    let children = |count: usize| json!({ "type": "t", "children": vec![json!({ "type": "t" }); count] });
    assert_eq!(enqueue(&server, "q", &children(1_000))[0]["children"].as_array().unwrap().len(), 1_000);
    assert_eq!(pointers(&refused(&server, &children(1_001))), ["/children"]);
    enqueue(&server, "q", &nested(8));
    let problem = refused(&server, &nested(9));
    assert_eq!(pointers(&problem), ["/children/0".repeat(9)], "{problem}");
    assert_eq!(enqueue(&server, "q", &json!(vec![children(99); 100])).as_array().unwrap().len(), 100);
    let problem = refused(&server, &json!([vec![children(99); 99], vec![children(100)]].concat()));
    assert_eq!((&problem["code"], &problem["actual"]), (&json!("request-too-large"), &json!(10_001)));
    let of = |count: usize| {
        let of = |_| json!({ "type": "t", "batch": { "id": "b", "onComplete": { "type": "t" } } });
        Value::Array((0..count).map(of).collect())
    };
    enqueue(&server, "batches", &of(10_000));
    let answer = server.json("POST", "/v1/queues/batches/jobs", &of(1).to_string());
    assert_eq!(pointers(&answer.problem(400, "invalid-request")), ["/batch/id"]);
}

#[test]
fn what_children_leave_their_parent_has_a_limit() {
    let server = Server::start_full_size();
    let parent = enqueue(&server, "q", &json!({ "type": "t", "children": vec![json!({ "type": "t" }); 17] }));
    let received = server.receive("q", 17);
    let result = format!("\"outcome\":\"ack\",\"result\":\"{}\"", "x".repeat((64 << 10) - 2));
    for job in &received[..16] {
        assert_eq!(server.settle(job, &result)["ok"], true);
    }
    let settled = server.settle(&received[16], "\"outcome\":\"ack\",\"result\":1");
    assert_eq!(settled["problem"]["code"], "payload-too-large", "{settled}");
    assert_eq!((&settled["problem"]["limit"], &settled["problem"]["actual"]), (&json!(1 << 20), &json!((1 << 20) + 1)));
    // The receipt stays good.
    assert_eq!(server.settle(&received[16], "\"outcome\":\"ack\"")["ok"], true);
    let mut delivered = Vec::new();
    until("the parent is let go", || {
        delivered = server.receive("q", 1);
        !delivered.is_empty()
    });
    assert_eq!(delivered[0]["id"], parent[0]["id"]);
    assert_eq!(delivered[0]["children"]["jobs"].as_array().unwrap().len(), 17);
}
