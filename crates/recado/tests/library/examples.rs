//! The examples, run as their first lines say.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::World;

/// An example as `cargo test` has built it beside this program.
fn example(name: &str) -> Command {
    let built = std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(built.exists(), "{} is not there: run `cargo test -p recado` without --test", built.display());
    Command::new(built)
}

#[tokio::test]
async fn the_embedded_one_sends_each_mail_once_and_stops_on_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = example("embedded");
    let mut child = command.arg(dir.path()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut sent = Vec::new();
    while sent.len() < 5 {
        let line = lines.next_line().await.unwrap().expect("it ended");
        sent.push(line.split(' ').nth(1).unwrap().to_owned());
    }
    sent.sort_unstable();
    assert_eq!(sent, ["mail-1", "mail-2", "mail-3", "mail-4", "mail-5"]);
    kill_process(Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap(), Signal::INT).unwrap();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("5 runs done, 1 failed"));
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_remote_one_shows_a_result() {
    let world = World::remote().await;
    let url = format!("http://{}", world.address().unwrap());
    let output = example("remote").env("RECADO_URL", url).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains(" is completed: Some(Resized { bytes: 64000 })\n1 runs done\n"), "{text}");
}
