//! Guards: work under a key is done once.

use recado_core::{Begun, Command, GuardAction, GuardBegin, GuardUse, Rejection, Reply};

use crate::script::{Between, Play, check};
use crate::words::{Line, ms, show_at};

impl Play {
    /// `begin q key hold=1m ttl=1d job=a receipt=a#1 attempt=x`.
    pub fn begin(&mut self, line: &mut Line) -> String {
        let receipt = line.take("receipt").map(|word| self.receipt(&word).expect("it was received").1.into());
        let begin = GuardBegin {
            queue: line.word(0).into(),
            key: line.word(1).into(),
            ttl_ms: line.take_as("ttl", ms).unwrap_or(86_400_000),
            hold_ms: line.take_as("hold", ms).unwrap_or(60_000),
            job: line.take("job").map(|name| self.id(&name)),
            receipt,
            attempt_id: line.boxed("attempt"),
        };
        match self.world.act(&Command::GuardBegin(begin)) {
            Ok(Reply::Begun(Begun::New { token })) => {
                self.tokens.push(token);
                format!("new {}", self.tokens.len())
            }
            Ok(Reply::Begun(Begun::Done { result })) => {
                result.map_or_else(|| "done".into(), |place| format!("done {}", self.text(place)))
            }
            Ok(Reply::Begun(Begun::Processing { until })) => format!("processing until={}", show_at(until)),
            Ok(other) => panic!("not an answer to a begin: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }

    /// `complete q key 1 result`, `abort q key 1`, `hold q key 1 for=1m`.
    pub fn use_guard(&mut self, verb: &str, line: &mut Line) -> String {
        let number: Option<usize> = line.word(2).parse().ok();
        let token = number.map_or_else(|| line.word(2).into(), |number| self.tokens[number - 1].clone());
        let action = match verb {
            "complete" => GuardAction::Complete { result: line.words.get(3).map(|text| text.clone().into_bytes()) },
            "abort" => GuardAction::Abort,
            _ => GuardAction::Extend { hold_ms: line.take_as("for", ms).unwrap_or(60_000) },
        };
        let (queue, key) = (line.word(0).into(), line.word(1).into());
        match self.world.act(&Command::GuardUse(GuardUse { queue, key, token, action })) {
            Ok(Reply::Guarded { repeated, until }) => {
                let until = until.map_or_else(String::new, |at| format!(" until={}", show_at(at)));
                format!("ok{}{until}", if repeated { " repeated" } else { "" })
            }
            Ok(other) => panic!("not an answer about a guard: {other:?}"),
            Err(rejection) => self.refused(&rejection),
        }
    }
}

#[test]
fn one_holder_at_a_time_and_one_result() {
    check(
        r#"
        t=0 begin q k                        -> ! not-found
        queue q                              -> created 1
        begin q k hold=1m                    -> new 1
        begin q k hold=1h                    -> processing until=1m
        begin q other                        -> new 2
        +30s hold q k 1 for=1m               -> ok until=90s
        t=1m begin q k                       -> processing until=90s
        complete q k 1 42                    -> ok
        begin q k                            -> done 42
        complete q k 1 42                    -> ok repeated
        complete q k 1 43                    -> ! outdated settled
        begin q k                            -> done 42
        abort q k 1                          -> ! outdated settled
        hold q k 1                           -> ! outdated settled
        complete q other 2                   -> ok
        begin q other                        -> done
        "#,
    );
}

#[test]
fn a_holder_that_is_late_still_counts_until_it_is_overtaken() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k hold=1s                    -> new 1
        t=999ms begin q k                    -> processing until=1s
        t=1s hold q k 1 for=1s               -> ok until=2s
        t=5s complete q k 1 late             -> ok
        begin q k                            -> done late
        begin q l hold=1s                    -> new 2
        t=6s begin q l hold=10s              -> new 3
        complete q l 2 old                   -> ! outdated key-taken
        abort q l 2                          -> ! outdated key-taken
        hold q l 2                           -> ! outdated key-taken
        begin q l                            -> processing until=16s
        complete q l 3 young                 -> ok
        begin q l                            -> done young
        "#,
    );
}

#[test]
fn a_begin_that_is_sent_again_meets_itself_and_holds_from_then() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k attempt=a hold=1m          -> new 1
        +30s begin q k attempt=a hold=1m     -> new 2
        begin q k attempt=b                  -> processing until=90s
        begin q k attempt=a hold=1s          -> new 3
        begin q k                            -> processing until=90s
        begin q other attempt=a              -> new 4
        complete q other 2                   -> ! outdated forged
        complete q k 2 42                    -> ok
        complete q k 1 42                    -> ok repeated
        begin q k attempt=a                  -> done 42
        t=2m begin q l attempt=a hold=1s     -> new 5
        t=3m begin q l attempt=b hold=1m     -> new 6
        begin q l attempt=a                  -> processing until=4m
        t=5m begin q l attempt=a             -> new 7
        complete q l 5                       -> ! outdated key-taken
        complete q l 7                       -> ok
        "#,
    );
}

#[test]
fn an_abort_frees_the_key() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k                            -> new 1
        abort q k 1                          -> ok
        abort q k 1                          -> ok repeated
        complete q k 1                       -> ! outdated expired
        begin q k                            -> new 2
        abort q k 1                          -> ! outdated key-taken
        complete q k forged                  -> ! outdated forged
        complete q l 2                       -> ! outdated forged
        complete q k 2 done                  -> ok
        "#,
    );
}

#[test]
fn its_time_runs_from_the_success_and_else_from_the_begin() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k ttl=1h                     -> new 1
        t=59m complete q k 1 42              -> ok
        due                                  -> 119m
        t=118m begin q k                     -> done 42
        t=119m begin q k ttl=1h hold=2h      -> new 2
        complete q k 1                       -> ! outdated key-taken
        due                                  -> 239m
        +1h hold q k 2 for=2h                -> ok until=299m
        t=299m complete q k 2                -> ! outdated expired
        begin q k                            -> new 3
        "#,
    );
}

#[test]
fn the_time_is_over_whether_or_not_a_tick_has_come() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k ttl=1m                     -> new 1
        complete q k 1 42                    -> ok
        ticks off                            ->
        t=1m complete q k 1                  -> ! outdated expired
        begin q k                            -> new 2
        "#,
    );
}

#[test]
fn with_a_job_it_lives_as_long_as_the_job() {
    check(
        r#"
        t=0 queue q attempts=1 keep=1h       -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        begin q k job=a receipt=a ttl=1s     -> new 1
        complete q k 1 42                    -> ok
        +10s begin q k job=a receipt=a       -> done 42
        fail a                               -> ok
        +30d begin q k job=a                 -> done 42
        replay q ids=a                       -> task 1 completed 1/1
        receive q                            -> a
        begin q k job=a receipt=a            -> done 42
        ack a                                -> ok
        +59m begin q k                       -> done 42
        +1m begin q k                        -> new 2
        begin q l job=a                      -> ! gone
        enqueue q b ; c ; d                  -> b c d
        begin q b job=b                      -> new 3
        begin q c job=c                      -> new 4
        begin q d job=d                      -> new 5
        cancel b                             -> b cancelled
        complete q b 3                       -> ok
        purge q                              -> task 2 completed 2/2
        complete q c 4                       -> ! outdated expired
        begin q d                            -> new 6
        "#,
    );
}

#[test]
fn a_job_that_goes_at_once_takes_its_guards_along() {
    check(
        r#"
        t=0 queue q keep=0s                  -> created 1
        enqueue q a ; b                      -> a b
        begin q k job=a                      -> new 1
        begin q l job=a                      -> new 2
        begin q m job=b                      -> new 3
        receive q                            -> a
        ack a                                -> ok
        complete q k 1                       -> ! outdated expired
        complete q l 2                       -> ! outdated expired
        complete q m 3                       -> ok
        steps off                            ->
        delete q force                       -> task 1 running 0/0
        begin q n                            -> ! full being-deleted 0/0
        "#,
    );
}

#[test]
fn who_has_lost_the_job_begins_nothing() {
    check(
        r#"
        t=0 queue q visibility=10s attempts=3 -> created 1
        queue r                              -> created 1
        enqueue q a ; b                      -> a b
        begin r k job=a                      -> ! invalid [0] /job
        receive q                            -> a
        begin q k job=b receipt=a            -> ! stale forged
        begin q k job=a receipt=a            -> new 1
        t=10s begin q l job=a receipt=a      -> ! stale visibility-timeout (ready)
        complete q k 1 42                    -> ok
        receive q                            -> a@2
        begin q k job=a receipt=a#1          -> ! stale received-again (inFlight)
        begin q k job=a receipt=a#2          -> done 42
        ack a                                -> ok
        begin q l job=a receipt=a            -> ! stale settled (completed)
        begin q l job=a                      -> new 2
        "#,
    );
}

#[test]
fn a_job_with_the_same_word_as_its_idempotency_key_is_not_meant() {
    check(
        r#"
        t=0 enqueue q a key=k ; b key=k      -> a b created
        receive q                            -> a
        begin q k job=a receipt=a            -> new 1
        complete q k 1 guard                 -> ok
        ack a job                            -> ok
        job b                                -> completed result=job
        begin q k                            -> done guard
        "#,
    );
}

#[test]
fn a_hold_lasts_in_elapsed_time_and_through_a_restart() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k hold=30s                   -> new 1
        begin q l hold=10m                   -> new 2
        stepclock 1h                         -> 1h
        begin q k                            -> processing until=3630s
        restart down=1m                      ->
        begin q k                            -> processing until=3690s
        begin q l                            -> processing until=70m
        restart down=1h                      ->
        begin q l                            -> processing until=122m
        complete q k 1 42                    -> ok
        restart                              ->
        begin q k                            -> done 42
        t=122m begin q l                     -> new 3
        "#,
    );
}

#[test]
fn what_is_held_is_not_forgotten_whatever_the_wall_clock_says() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k ttl=1s hold=1m             -> new 1
        begin q l ttl=1s hold=1m             -> new 2
        stepclock 2m                         -> 2m
        begin q k                            -> processing until=3m
        complete q k 1 42                    -> ok
        begin q k                            -> done 42
        restart down=61s                     ->
        begin q l                            -> processing until=241s
        due                                  -> 241s
        t=241s complete q l 2                -> ! outdated expired
        begin q l                            -> new 3
        "#,
    );
}

#[test]
fn a_restart_gives_no_time_to_holds_that_had_lapsed_before() {
    let mut play = Play::new(Between::Replay);
    for line in ["t=0 queue q", "begin q old hold=30s", "begin q on hold=10m", "t=1m enqueue q a"] {
        play.line(line);
    }
    play.line("restart down=1h");
    assert_eq!(play.world.state.open_guards(), 1, "before any tick");
    assert_eq!(play.line("begin q on"), "processing until=62m");
    assert_eq!(play.line("begin q old"), "new 3");
    assert_eq!(play.line("complete q on 2"), "ok");
}

#[test]
fn a_deleted_queue_forgets_them() {
    check(
        r#"
        t=0 queue q                          -> created 1
        begin q k                            -> new 1
        complete q k 1 42                    -> ok
        delete q                             -> ok
        begin q k                            -> ! not-found
        queue q                              -> created 1
        begin q k                            -> new 2
        "#,
    );
}

#[test]
fn room_is_kept_for_the_end_of_what_is_held() {
    let mut play = Play::new(Between::Replay);
    play.line("t=0 queue q");
    let mut open_after = |line: &str| {
        play.line(line);
        play.world.tick();
        play.world.state.open_guards()
    };
    assert_eq!(open_after("begin q k hold=1s"), 1);
    assert_eq!(open_after("begin q l hold=1m"), 2);
    assert_eq!(open_after("t=1s stats q"), 1, "a holder that is late has its room no more");
    assert_eq!(open_after("hold q k 1 for=1m"), 2);
    assert_eq!(open_after("complete q k 1"), 1);
    assert_eq!(open_after("t=2m stats q"), 0);
    assert_eq!(open_after("restart"), 0, "a restart gives no time to a hold that had lapsed");
    assert_eq!(open_after("begin q m"), 1);
    assert_eq!(open_after("restart down=2m"), 1, "but to one that lasted until then");
    assert_eq!(open_after("abort q m 3"), 0);
    assert_eq!(open_after("complete q l 2"), 0);
}

#[test]
fn guards_of_a_queue_are_limited_and_count_as_memory() {
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 queue q idem=:2");
    let before = play.world.state.memory_bytes();
    assert_eq!(play.line("begin q 1"), "new 1");
    assert!(play.world.state.memory_bytes() > before);
    assert_eq!(play.line("begin q 2"), "new 2");
    assert_eq!(play.line("begin q 3"), "! full guards 3/2");
    assert_eq!(play.line("enqueue q a key=1 ; b key=2"), "a b", "keys of jobs are counted apart");
    assert_eq!(play.line("abort q 1 1"), "ok");
    assert_eq!(play.line("begin q 3"), "new 3");
    play.line("queue q idem=:1000");
    play.world.state.set_memory_limit(1);
    assert_eq!(play.line("begin q 4"), "! OutOfMemory");
    assert_eq!(play.line("complete q 3 3 42"), "ok", "what is begun can be ended");
    assert_eq!(play.line("t=1m begin q 2"), "new 4", "a key that is there takes no more memory");
    play.world.check_replay();
    let refused = play.world.run(&Command::GuardBegin(GuardBegin { queue: "r".into(), ..GuardBegin::default() }));
    assert!(matches!(refused, Err(Rejection::QueueNotFound { .. })));
}
