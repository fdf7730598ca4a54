//! What everything costs: the figures that trimming and the memory limit go by, against what is there.

use crate::script::{Between, Play};

/// Bytes of the log when nothing is in it that could be freed, and what the state says of them.
fn log_and_live(play: &mut Play) -> (u64, u64) {
    play.world.copy_all();
    let bytes: usize = play.world.log.iter().map(|batch| batch.head.len() + batch.tail.len()).sum();
    (bytes as u64, play.world.state.live_bytes())
}

/// Whatever lives is counted: the log can be trimmed to what the state says, which is not far too much either.
#[test]
fn live_bytes_are_what_the_log_needs() {
    let long = "x".repeat(1_000);
    let rows: [(&str, Vec<String>); 12] = [
        ("plain", vec!["enqueue q {n}".into()]),
        ("with keys", vec!["enqueue q {n} group=g{n} key=k{n} dedup=d{n}:1h biz=b{n} attempts=3".into()]),
        ("payload", vec![format!("enqueue q {{n}} payload={long}")]),
        ("patched", vec!["enqueue q {n}".into(), format!("patch {{n}} payload={long}")]),
        ("in flight", vec!["enqueue q {n}".into(), "receive q worker=somebody-with-a-name attempt=a{n}".into()]),
        ("progress", vec!["enqueue q {n}".into(), "receive q".into(), format!("extend {{n}} progress={long}")]),
        ("completed", vec!["enqueue q {n}".into(), "receive q".into(), format!("ack {{n}} {long}")]),
        ("saved result", vec!["enqueue q {n} key=k{n}".into(), "receive q".into(), format!("ack {{n}} {long}")]),
        ("dead", vec!["enqueue q {n}".into(), "receive q".into(), format!("fail {{n}} permanent kind={long}")]),
        ("request", vec!["enqueue q request=r{n}:body producer=p{n}:1 {n}".into()]),
        ("queue", vec!["queue q{n} owner=somebody-with-a-name".into(), format!("pause q{{n}} reason={long}")]),
        ("task", vec![format!("replay q all patch={long} reason={long}"), format!("purge q reason={long}")]),
    ];
    for (name, lines) in rows {
        let mut play = Play::new(Between::Nothing);
        play.line("t=0 queue q keep=100d:100000 visibility=1h");
        for n in 0..50 {
            for line in &lines {
                let reply = play.line(&line.replace("{n}", &n.to_string()));
                assert!(!reply.starts_with('!'), "{name}: {line} -> {reply}");
            }
        }
        let (log, live) = log_and_live(&mut play);
        assert!(log <= live && live <= 3 * log, "{name}: {log} bytes of log, {live} live");
    }
}
