//! Circuit breakers: open hands out nothing and uses up no attempt, then one probe at a time.

use crate::script::{Between, check, check_between};

/// What a breaker counts while closed follows from what the log still shows.
const COUNTS_KEPT: [Between; 3] = [Between::Nothing, Between::Replay, Between::Copy];

#[test]
fn too_many_failures_open_it_and_a_good_probe_closes_it() {
    check_between(
        r#"
        t=0 queue q breaker=50%:10s:4:30s backoff=fixed:1s -> created 1
        enqueue q a ; b ; c ; d ; e ; f      -> a b c d e f
        receive q max=5                      -> a b c d e
        ack a                                -> ok
        ack b                                -> ok
        fail c                               -> ok
        stats q                              -> ready=1 delayed=1 inFlight=2 completed=2 breaker=closed:1/3
        // The fourth makes enough, and half of them failed.
        fail d                               -> ok
        receive q max=9                      -> - breaker-open
        job f                                -> ready held=breaker-open
        stats q                              -> ready=1 delayed=2 inFlight=1 completed=2 breaker=open:0/0:until=30s
        due                                  -> 1s
        // What was out before may end as it likes: only a probe counts.
        t=10s fail e                         -> ok
        t=29999ms receive q                  -> - breaker-open
        t=30s receive q max=9                -> f
        job c                                -> ready 1/1 held=breaker-open errors=error
        receive q                            -> - breaker-open
        release f                            -> ok
        receive q max=9                      -> f
        fail f                               -> ok
        receive q                            -> - breaker-open
        stats q                              -> ready=3 delayed=1 completed=2 breaker=open:0/0:until=1m
        t=59s receive q                      -> - breaker-open
        t=1m receive q max=9                 -> c@2
        ack c                                -> ok
        stats q                              -> ready=3 completed=3 breaker=closed:0/0
        receive q max=9                      -> d@2 e@2 f@2
        fail d                               -> ok
        fail e                               -> ok
        fail f                               -> ok
        stats q                              -> delayed=3 completed=3 breaker=closed:3/3
        "#,
        &COUNTS_KEPT,
    );
}

#[test]
fn where_it_is_survives_restarts_and_trims() {
    check(
        r#"
        t=0 queue q breaker=100%:10s:1:30s backoff=fixed:1s visibility=20s -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        fail a                               -> ok
        +2s enqueue q b                      -> b
        restart down=10s
        receive q                            -> - breaker-open
        // The cool-down goes on while nobody serves.
        restart down=30s
        receive q max=9                      -> a@2
        restart down=5s
        // The probe is still out.
        receive q                            -> - breaker-open
        stats q                              -> ready=1 inFlight=1 breaker=halfopen:0/0
        // It was lost while the server was down: nobody knows how it would have ended.
        restart down=20s
        +20s receive q max=9                 -> a@2
        ack a                                -> ok
        stats q                              -> ready=1 completed=1 breaker=closed:0/0
        receive q                            -> b
        "#,
    );
}

#[test]
fn a_visibility_timeout_is_a_failure() {
    check(
        r#"
        t=0 queue q breaker=100%:10s:2:30s visibility=1s -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q max=2                      -> a b
        t=1s receive q max=9                 -> - breaker-open
        stats q                              -> ready=3 breaker=open:0/0:until=31s
        // An ack that comes late is no probe.
        ack a                                -> ok
        receive q                            -> - breaker-open
        t=31s receive q max=9                -> b@2
        t=32s receive q                      -> - breaker-open
        "#,
    );
}

#[test]
fn a_shared_breaker_holds_all_its_queues() {
    check_between(
        r#"
        t=0 limit stripe breaker=50%:10s:2:30s -> created
        queue q limits=stripe                -> created 1
        queue r limits=stripe attempts=1     -> created 1
        enqueue q a ; b                      -> a b
        enqueue r c ; d                      -> c d
        receive q                            -> a
        receive r                            -> c
        ack a                                -> ok
        fail c                               -> ok
        receive q                            -> - breaker-open
        receive r                            -> - breaker-open
        limits                               -> stripe 0 q r breaker=open:0/0:until=30s held
        t=30s receive r                      -> d
        receive q                            -> - breaker-open
        limits                               -> stripe 1 q r breaker=halfopen:0/0 held
        // The probe goes with its queue.
        purge r states=inFlight              -> task 1 completed 1/1
        receive q                            -> b
        ack b                                -> ok
        limits                               -> stripe 0 q r breaker=closed:0/0
        "#,
        &COUNTS_KEPT,
    );
}

#[test]
fn a_breaker_that_is_taken_away_lets_go() {
    check(
        r#"
        t=0 queue q breaker=50%:10s:1:1h attempts=1 -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q                            -> a
        fail a                               -> ok
        receive q                            -> - breaker-open
        queue q breaker=60%:10s:1:1h attempts=1 -> 2
        receive q                            -> - breaker-open
        queue q                              -> 3
        receive q                            -> b
        queue q breaker=50%:10s:1:1h         -> 4
        receive q                            -> c
        defaults breaker=50%:10s:1:1h        -> ok
        enqueue r d ; e                      -> d e created
        receive r                            -> d
        fail d permanent                     -> ok
        receive r                            -> - breaker-open
        defaults                             -> ok
        receive r                            -> e
        "#,
    );
}

/// Attempts of a time before that of the last one were not counted at all, so a clock that was set back kept the breaker
/// closed until it had caught up.
#[test]
fn it_counts_on_when_the_clock_is_set_back() {
    check_between(
        r#"
        t=2h queue q breaker=100%:10s:2:30s  -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q max=2                      -> a b
        fail a permanent                     -> ok
        stepclock -1h                        -> 1h
        fail b permanent                     -> ok
        receive q                            -> - breaker-open
        "#,
        &COUNTS_KEPT,
    );
}

/// A longer window has slots with smaller numbers, which were taken for old ones: the breaker never opened again.
#[test]
fn it_counts_on_with_another_window() {
    check_between(
        r#"
        t=0 queue q breaker=100%:10s:2:30s   -> created 1
        enqueue q a ; b ; c ; d              -> a b c d
        receive q max=3                      -> a b c
        fail a permanent                     -> ok
        queue q breaker=100%:1h:2:30s        -> 2
        fail b permanent                     -> ok
        fail c permanent                     -> ok
        receive q                            -> - breaker-open
        "#,
        &COUNTS_KEPT,
    );
}
