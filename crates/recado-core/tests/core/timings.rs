//! What `auto` means for a visibility timeout, and what it is chosen by.

use recado_core::Command;

use crate::script::{Between, Play};

/// For how long the next job of a type is hidden, in seconds.
fn hidden_s(play: &mut Play, name: &str, kind: &str) -> u64 {
    play.line(&format!("enqueue q {name} type={kind}"));
    assert_eq!(play.line(&format!("receive q types={kind}")), name);
    let view = play.view(name).expect("it is there");
    (view.visible_at.expect("it is in flight") - play.world.now) / 1_000
}

fn run(play: &mut Play, kind: &str, count: usize, takes: &str) {
    for n in 0..count {
        let name = format!("{kind}{takes}{n}");
        play.line(&format!("enqueue q {name} type={kind}"));
        assert_eq!(play.line(&format!("receive q types={kind} visibility=12h")), name);
        assert_eq!(play.line(&format!("+{takes} ack {name}")), "ok");
    }
}

#[test]
fn auto_follows_from_the_completions_of_each_type() {
    let mut play = Play::new(Between::Replay);
    play.line("t=0 queue q keep=0s:0");
    run(&mut play, "slow", 19, "60s");
    assert_eq!(hidden_s(&mut play, "a", "slow"), 30);
    play.line("+60s ack a");
    let chosen = hidden_s(&mut play, "b", "slow");
    assert!((90..=102).contains(&chosen), "{chosen}");
    assert_eq!(hidden_s(&mut play, "c", "other"), 30);
    run(&mut play, "quick", 20, "1ms");
    assert_eq!(hidden_s(&mut play, "d", "quick"), 5);
    // Nor does a run during which the wall clock was stepped.
    for n in 0..5 {
        play.line(&format!("enqueue q stepped{n} type=quick"));
        play.line("receive q types=quick visibility=1h");
        play.line("stepclock 10h");
        assert_eq!(play.line(&format!("ack stepped{n}")), "ok");
    }
    assert_eq!(hidden_s(&mut play, "s", "quick"), 5);
    // A failure says nothing about how long the work takes.
    play.line("fail b permanent");
    // What was saved outlives the log of the completions.
    play.world.copy_all();
    play.world.trim();
    play.world.run(&Command::SaveFigures { after: None }).expect("saved");
    play.world.close();
    play.line("restart down=1h");
    assert_eq!(hidden_s(&mut play, "e", "slow"), chosen);
    assert_eq!(hidden_s(&mut play, "f", "quick"), 5);
    play.line("queue q visibility=7s");
    assert_eq!(hidden_s(&mut play, "g", "slow"), 7);
}

#[test]
fn types_beyond_those_told_apart_share_one_measurement() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 queue q keep=0s:0");
    for n in 0..16 {
        play.line(&format!("enqueue q waits{n} type=t{n} delay=1h"));
    }
    run(&mut play, "x", 10, "60s");
    run(&mut play, "y", 10, "60s");
    assert!(hidden_s(&mut play, "a", "x") >= 90);
    // A type that no job has makes way for another.
    play.line("cancel waits3");
    run(&mut play, "z", 20, "1ms");
    assert_eq!(hidden_s(&mut play, "b", "z"), 5);
}
