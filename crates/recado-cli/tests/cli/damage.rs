//! A payload that decayed on the disk: shown, told, and no reason for anything else to stop.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::api::{Api, list};
use crate::support::{Dir, Server, run, until};

/// Changes a byte of what is stored.
fn decay(data: &Path, stored: &str) {
    let files = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "log");
    for path in files.filter(is_segment) {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(stored.len()).position(|window| window == stored.as_bytes()) {
            bytes[at] ^= 1;
            return fs::write(path, bytes).unwrap();
        }
    }
    panic!("{stored} is not stored");
}

#[test]
fn a_damaged_payload_is_shown_and_told_and_the_rest_goes_on() {
    let dir = Dir::new();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    let api = Api::new(&server.url);
    let bad = api.enqueue("q", &json!({ "type": "t", "payload": "decays" }));
    let good = api.enqueue("q", &json!({ "type": "t", "payload": "stays" }));
    server.stop();
    decay(&data, "\"decays\"");

    let text = data.display().to_string();
    let report = run(&["log", "check", &text, "--json"]).expect(1).json();
    assert_eq!(report["verdict"], "payloads-damaged");
    let damage = &list(&report, "damagedPayloads")[0];
    assert!(damage["file"].as_str().unwrap().starts_with(&text) && damage["offset"].as_u64() > Some(0), "{damage}");
    let repair = run(&["log", "repair", &text]).expect(0);
    assert!(repair.out.contains("payload damaged") && repair.out.contains("no repair"), "{repair:#?}");
    let copy = dir.path().join("offline").display().to_string();
    run(&["backup", &copy, "--data", &text]).expect(1).says("damaged payloads");

    let server = Server::start(&data);
    let api = Api::new(&server.url);
    for query in ["", "?payload=false"] {
        let page = api.get(&format!("/v1/queues/q/jobs{query}")).expect(200);
        let jobs = list(&page, "jobs");
        assert_eq!((&jobs[0]["id"], &jobs[1]["id"]), (&json!(bad), &json!(good)));
        assert!(jobs[0].get("payload").is_none() && jobs[1].get("unreadable").is_none(), "{jobs:?}");
        assert_eq!(jobs[0]["unreadable"].get("payload").is_some(), query.is_empty(), "{jobs:?}");
    }
    assert!(api.job(&bad)["unreadable"]["payload"].as_str().unwrap().contains("damaged"));
    // The receive that meets it comes back empty and puts it aside.
    let taken = until("the good one is received", || api.receive("q", &json!({})).pop());
    assert_eq!(taken["id"], json!(good));
    let metrics = api.get("/metrics").text;
    let count = metrics.lines().find_map(|line| line.strip_prefix("recado_log_unreadable_total ")).unwrap();
    assert!(count.parse::<u64>().unwrap() > 0, "{count}");
    let copy = dir.path().join("online").display().to_string();
    server.run(&["backup", &copy]).expect(1).says("damaged payloads");
    api.delete(&format!("/v1/jobs/{bad}")).expect(200);
    until("it is cancelled", || (api.state(&bad) == "cancelled").then_some(()));
    let ended = server.stop();
    assert!(ended.err.contains("stored bytes cannot be read"), "{ended:#?}");
    Server::start(Path::new(&copy)).stop();
}
