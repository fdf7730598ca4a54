//! Data directories that cannot be used: which and what to do is said, and nothing is touched.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::support::api::Api;
use crate::support::{Dir, Server, command, finish, run};

/// A business id that is easy to find in a segment.
const MARKER: &str = "marker-of-the-first-job";

/// Where the head of a record begins.
const RECORD_HEADER_BYTES: usize = 72;

/// A directory with jobs in it, cleanly closed.
fn filled(dir: &Dir) -> PathBuf {
    let data = dir.path().join("data");
    let server = Server::start(&data);
    server.run(&["enqueue", "email", "email.send", "--business-id", MARKER]).expect(0);
    for _ in 0..3 {
        server.run(&["enqueue", "email", "email.send"]).expect(0);
    }
    server.stop();
    data
}

/// Every file of the log under `data`, with its content.
fn contents(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    let mut dirs = vec![data.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let bytes = fs::read(&path).unwrap();
                files.push((path, bytes));
            }
        }
    }
    files.sort();
    files
}

fn serve(data: &Path) -> Command {
    let data = data.display().to_string();
    command(Path::new("/"), &["serve", "--listen", "127.0.0.1:0", "--data", &data])
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[test]
fn a_directory_in_use() {
    let dir = Dir::new();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    server.run(&["enqueue", "email", "email.send"]).expect(0);
    let second = finish(&mut serve(&data)).expect(75).says("in use").says("data");
    assert_eq!(second.out, "");
    let data = data.display().to_string();
    run(&["log", "check", &data]).expect(75).says("in use");
    // The first one goes on.
    server.run(&["enqueue", "email", "email.send"]).expect(0);
    server.stop();
    run(&["log", "check", &data]).expect(0);
}

#[test]
fn a_corrupted_log_stops_the_start_and_can_be_repaired() {
    let dir = Dir::new();
    let data = filled(&dir);
    let (file, mut bytes) = contents(&data)
        .into_iter()
        .find(|(_, bytes)| find(bytes, MARKER.as_bytes()).is_some())
        .expect("the job is in the log");
    // The head of its record: the tail holds payloads, which an open does not read.
    let marker = find(&bytes, MARKER.as_bytes()).unwrap();
    let record = bytes[..marker].windows(4).rposition(|window| window == b"RcdR").unwrap();
    bytes[record + RECORD_HEADER_BYTES] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let before = contents(&data);

    let refused = finish(&mut serve(&data)).expect(65).says("recado log check").says("offset");
    assert!(refused.err.contains(&file.display().to_string()), "{refused:#?}");
    assert!(before == contents(&data), "nothing is touched");
    let text = data.display().to_string();
    let report = run(&["log", "check", &text, "--json"]).expect(1).json();
    assert_eq!(report["verdict"], "corrupt");
    assert!(before == contents(&data), "a check changes nothing");
    let repair = run(&["log", "repair", &text, "--json"]).expect(0).json();
    assert!(!repair["keptIn"].as_array().unwrap().is_empty(), "{repair}");
    run(&["log", "check", &text]).expect(0);
    Server::start(&data).stop();
}

#[test]
fn a_missing_first_file_stops_the_start_and_a_repair_goes_on_without_it() {
    let dir = Dir::new();
    let data = filled(&dir);
    let server = Server::start(&data);
    let api = Api::new(&server.url);
    let job = json!({ "type": "t", "payload": "x".repeat(60_000) });
    for _ in 0..4 {
        api.enqueue_all("later", &json!(vec![job.clone(); 50]));
    }
    server.stop();
    let text = data.display().to_string();
    run(&["log", "check", &text]).expect(0);
    let first = data.join("0000000000000000.log");
    fs::remove_file(&first).unwrap();
    let before = contents(&data);
    finish(&mut serve(&data)).expect(65).says("segment file is missing").says(&first.display().to_string());
    let report = run(&["log", "check", &text, "--json"]).expect(1).json();
    assert_eq!((&report["verdict"], &report["damage"]["file"]), (&json!("corrupt"), &json!(first)));
    assert!(before == contents(&data), "nothing is touched");
    let repair = run(&["log", "repair", &text]).expect(0);
    assert!(repair.out.contains("0000000000000001.log now: whatever stood before it is lost"), "{repair:#?}");
    run(&["log", "check", &text]).expect(0);
    Server::start(&data).stop();
}

#[test]
fn a_newer_format_is_left_alone() {
    let dir = Dir::new();
    let data = filled(&dir);
    let is_segment = |path: &Path| path.extension().is_some_and(|end| end == "log");
    for (path, mut bytes) in contents(&data).into_iter().filter(|(path, _)| is_segment(path)) {
        bytes[8] = 99;
        let crc = crc32c(&bytes[..252]);
        bytes[252..256].copy_from_slice(&crc.to_le_bytes());
        fs::write(path, bytes).unwrap();
    }
    let before = contents(&data);
    finish(&mut serve(&data)).expect(65).says("format 99").says("newer version");
    assert!(before == contents(&data), "nothing is touched");
}

#[test]
fn a_read_only_directory() {
    let dir = Dir::new();
    let data = filled(&dir);
    let before = contents(&data);
    for (path, _) in &before {
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
    }
    for path in before.iter().map(|(path, _)| path.parent().unwrap()).chain([data.as_path()]) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let mut command = serve(&data);
    if rustix::process::geteuid().is_root() {
        // Root may write anywhere; the binary is copied to where nobody can run it.
        let copy = dir.path().join("recado");
        fs::copy(env!("CARGO_BIN_EXE_recado"), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        command = Command::new(copy);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        command.current_dir("/").uid(65_534).gid(65_534);
    }
    finish(&mut command).expect(77).says("read-only").says("data");
    assert!(before == contents(&data), "nothing is touched");
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_directory_without_a_log_is_not_checked_but_told() {
    let dir = Dir::new();
    let empty = dir.path().display().to_string();
    for verb in ["check", "repair"] {
        run(&["log", verb, &empty]).expect(65).says("is not a data directory");
        run(&["log", verb, &format!("{empty}/absent")]).expect(65).says("absent");
    }
    assert_eq!(dir.entries(), [""; 0], "nothing is made");
}

#[test]
fn a_backup_opens_as_a_server_of_its_own() {
    let dir = Dir::new();
    let data = filled(&dir);
    let copy = dir.path().join("copy");
    let (from, to) = (data.display().to_string(), copy.display().to_string());
    let report = run(&["backup", &to, "--data", &from, "--json"]).expect(0).json();
    assert!(report["batches"].as_u64().unwrap() >= 4, "{report}");
    run(&["backup", &to, "--data", &from]).expect(65).says("not empty");
    let server = Server::start(&copy);
    assert_eq!(server.json(&["queues", "stats", "email"])["ready"], 4);
    server.stop();
}

#[test]
fn a_backup_of_a_running_server() {
    let dir = Dir::new();
    let data = dir.path().join("data");
    let server = Server::start(&data);
    server.run(&["enqueue", "email", "email.send"]).expect(0);
    let copy = dir.path().join("copy");
    let (from, to) = (data.display().to_string(), copy.display().to_string());
    server.run(&["backup", &to, "--data", &from]).expect(75).says("in use");
    server.run(&["backup", &to]).expect(0);
    server.run(&["enqueue", "email", "email.send"]).expect(0);
    let second = Server::start(&copy);
    assert_eq!(second.json(&["queues", "stats", "email"])["ready"], 1);
    second.stop();
    server.stop();
}

/// CRC-32C, a bit at a time.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| {
        if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 }
    };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
