//! Schemas of job types, by command and by file.

use std::fs;

use serde_json::json;

use crate::support::{Dir, Server, command, finish, until};
use rustix::process::Signal;

#[test]
fn a_version_from_its_schema_to_its_drain() {
    let dir = Dir::new();
    let server = Server::start(&dir.path().join("data"));
    let schema = dir.write("mail-1.json", r#"{"type":"object","required":["deliveryId"]}"#);
    let put = server.run(&["types", "put", "email.send", "1", &schema]).expect(0).out;
    assert!(put.contains("email.send version 1 has its schema"), "{put}");
    assert_eq!(server.json(&["types", "show", "email.send", "1"])["required"], json!(["deliveryId"]));
    server
        .run(&["enqueue", "email", "email.send", "{}"])
        .expect(65)
        .says("/payload/deliveryId")
        .says("schema-violation");
    server.run(&["enqueue", "email", "email.send", r#"{"deliveryId":"mail-1"}"#]).expect(0);
    let list = server.run(&["types"]).expect(0).out;
    assert!(list.starts_with("TYPE ") && list.contains("email.send"), "{list}");
    let left = server.run(&["types", "drain", "email.send", "--version", "1", "--json"]).expect(1).json();
    assert_eq!(left, json!({"drained": false, "versions": [{"type": "email.send", "version": 1, "jobs": 1}]}));
    server.run(&["types", "remove", "email.send", "1"]).expect(65).says("schema-in-use");
    server.run(&["queues", "purge", "email"]).expect(0);
    let drained = server.run(&["types", "drain"]).expect(0).out;
    assert!(drained.contains("drained"), "{drained}");
    server.run(&["types", "drain", "email.sent"]).expect(1).says("no version of `email.sent` has a schema");
    server.run(&["types", "remove", "email.send", "1"]).expect(0);
    assert_eq!(server.json(&["types"])["types"], json!([]));
    server.stop();
}

#[test]
fn the_file_names_schemas_and_a_reload_brings_another() {
    let dir = Dir::new();
    let refused = |text: &str, says: &[&str]| {
        dir.write("recado.toml", text);
        let mut run = finish(&mut command(dir.path(), &["serve", "--listen", "127.0.0.1:0"])).expect(65);
        for part in says {
            run = run.says(part);
        }
    };
    refused("[types.\"email.send\"]\nversions.1 = \"absent.json\"\n", &["recado.toml line 2", "absent.json"]);
    refused("[types.email.send]\nversions.1 = \"x\"\n", &["recado.toml line 1", "in quotes"]);
    refused("[types.mail]\nversions.0 = { type = \"object\" }\n", &["line 2", "a version is a whole number from 1"]);
    refused("[types.mail]\nversions.1 = { type = \"sting\" }\n", &["line 2", "`mail` version 1: /type"]);

    fs::create_dir(dir.path().join("schemas")).unwrap();
    dir.write("schemas/mail-1.json", r#"{"required":["id"]}"#);
    let first = "[types.\"email.send\"]\nversions.1 = \"schemas/mail-1.json\"\nversions.2 = { required = [\"to\"] }\n";
    dir.write("recado.toml", first);
    let server = Server::spawn(&mut command(dir.path(), &["serve", "--listen", "127.0.0.1:0", "--data", "data"]));
    server.run(&["enqueue", "q", "email.send", "{}"]).expect(65).says("/payload/id");
    server.run(&["enqueue", "q", "email.send", "{}", "--schema-version", "2"]).expect(65).says("/payload/to");
    dir.write("recado.toml", &(first.to_owned() + "versions.3 = { required = [\"cc\"] }\n"));
    server.process.signal(Signal::HUP);
    until("the third version is there", || {
        let versions = server.json(&["types"])["types"][0]["versions"].as_array().unwrap().len();
        (versions == 3).then_some(())
    });
    server.run(&["enqueue", "q", "email.send", "{}", "--schema-version", "3"]).expect(65).says("/payload/cc");
    server.stop();
}
