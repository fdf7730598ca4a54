//! A delivery from its receive to its end: timeouts, attempts, backoff, release, extend, late settles.

use recado_core::{Answer, ErrorEntry, Query};

use crate::script::{Between, Play, check};

#[test]
fn a_job_is_handed_out_once_and_acked() {
    check(
        r#"
        t=0 enqueue q a ; b                  -> a b created
        stats q                              -> ready=2
        receive q worker=w                   -> a
        job a                                -> inFlight 1/1 until=30s
        receive q max=5                      -> b
        receive q                            -> -
        ack a "42"                           -> ok
        job a                                -> completed 1/1 result=42
        ack b                                -> ok
        job b                                -> completed 1/1
        stats q                              -> completed=2
        "#,
    );
}

#[test]
fn the_visibility_timeout_makes_a_job_visible_in_its_old_place() {
    check(
        r#"
        t=0 queue q visibility=1s            -> created 1
        enqueue q a                          -> a
        +1ms enqueue q b                     -> b
        receive q                            -> a
        t=1s job a                           -> inFlight 1/1 until=1001ms
        t=1001ms job a                       -> ready 1/1 errors=visibility-timeout
        receive q max=2                      -> a@2 b
        ack a#1                              -> ! stale received-again (inFlight)
        "#,
    );
}

#[test]
fn a_visibility_timeout_is_the_receives_or_the_jobs_or_the_queues() {
    check(
        r#"
        t=0 queue q visibility=5s            -> created 1
        enqueue q a                          -> a
        enqueue q b visibility=2s            -> b
        enqueue q c visibility=2s            -> c
        receive q max=2                      -> a b
        receive q visibility=7s              -> c
        job a                                -> inFlight 1/1 until=5s
        job b                                -> inFlight 1/1 until=2s
        job c                                -> inFlight 1/1 until=7s
        due                                  -> 2s
        "#,
    );
}

#[test]
fn an_attempt_longer_than_its_timeout_fails() {
    check(
        r#"
        t=0 queue q visibility=10s timeout=15s attempts=2 backoff=fixed:1s -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=9s extend a                        -> ok until=15s
        extend a visibility=1s               -> ok until=10s
        extend a visibility=1h               -> ok until=15s
        t=15s job a                          -> delayed 1/1 until=16s errors=timeout
        t=16s receive q                      -> a@2
        t=21s extend a                       -> ok until=31s
        t=30s extend a                       -> ok until=31s
        t=31s job a                          -> dead 2/2 errors=timeout,timeout
        ack a                                -> ok
        job a                                -> completed 2/2 errors=timeout,timeout,late-ack
        "#,
    );
}

#[test]
fn a_jobs_own_timeout_beats_the_queues() {
    check(
        r#"
        t=0 queue q visibility=1h timeout=15s -> created 1
        enqueue q a timeout=5s               -> a
        receive q                            -> a
        job a                                -> inFlight 1/1 until=5s
        "#,
    );
}

#[test]
fn attempts_are_finite() {
    check(
        r#"
        t=0 queue q attempts=2 backoff=fixed:1s -> created 1
        enqueue q a                          -> a
        enqueue q b attempts=1               -> b
        receive q max=2                      -> a b
        fail a kind=boom                     -> ok
        fail b kind=boom                     -> ok
        job a                                -> delayed 1/1 until=1s errors=boom
        job b                                -> dead 1/1 errors=boom
        t=1s receive q                       -> a@2
        fail a kind=bang                     -> ok
        job a                                -> dead 2/2 errors=boom,bang
        stats q                              -> dead=2
        +1h stats q                          -> dead=2
        "#,
    );
}

#[test]
fn lapses_use_attempts_and_the_last_one_kills() {
    check(
        r#"
        t=0 queue q attempts=2 visibility=1s -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=1s receive q                       -> a@2
        t=2s job a                           -> dead 2/2 errors=visibility-timeout,visibility-timeout
        receive q                            -> -
        release a                            -> ! stale dead (dead)
        extend a                             -> ! stale dead (dead)
        ack a "late"                         -> ok
        job a                                -> completed 2/2 errors=visibility-timeout,visibility-timeout,late-ack result=late
        ack a "late"                         -> ok repeated
        "#,
    );
}

#[test]
fn a_late_failure_of_a_killed_delivery_says_more_about_the_death() {
    check(
        r#"
        t=0 queue q attempts=1 visibility=1s -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=1s groups q                        -> mail.send:visibility-timeoutx1
        fail a kind=boom                     -> ok
        job a                                -> dead 1/1 errors=visibility-timeout,boom
        groups q                             -> mail.send:boomx1
        fail a kind=boom                     -> ok repeated
        ack a                                -> ! stale dead (dead)
        "#,
    );
}

#[test]
fn deliveries_are_bounded_whatever_became_of_them() {
    check(
        r#"
        t=0 queue q deliveries=3             -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        release a                            -> ok
        job a                                -> ready 0/1
        receive q                            -> a
        release a                            -> ok
        receive q                            -> a
        release a reason=enough              -> ok
        job a                                -> dead 1/3 errors=max-deliveries
        release a reason=enough              -> ok repeated
        ack a                                -> ! stale dead (dead)
        "#,
    );
}

#[test]
fn however_long_an_error_is_it_says_that_no_hand_out_was_left() {
    let long = "é".repeat(2_000);
    for end in ["fail a msg={long}", "release a reason={long}"] {
        let mut play = Play::new(Between::Nothing);
        for line in ["t=0 queue q deliveries=1", "enqueue q a", "receive q"] {
            play.line(line);
        }
        assert_eq!(play.line(&end.replace("{long}", &long)), "ok");
        let Ok(Answer::Job(job)) = play.world.ask(&Query::Job(play.id("a"))) else { panic!("{end}: no job") };
        let bytes = play.world.bytes(*job.errors.last().unwrap());
        let ErrorEntry { message, .. } = ErrorEntry::from_bytes(&bytes).unwrap();
        assert!(message.ends_with("éé; that was hand-out 1, the last that maxDeliveries allows"), "{end}: {message}");
        assert!((1_020..=1_024).contains(&message.len()), "{end}: {} bytes", message.len());
    }
}

#[test]
fn a_jobs_own_attempts_raise_the_bound_of_deliveries_that_follows_from_them() {
    let mut script = "t=0 queue q attempts=1 backoff=fixed:1ms -> created 1\nenqueue q a attempts=12 -> a\n".to_owned();
    for attempt in 1..=12 {
        let shown = if attempt == 1 { "a".to_owned() } else { format!("a@{attempt}") };
        script += &format!("t={attempt}s receive q -> {shown}\nfail a -> ok\n");
    }
    script += "stats q -> dead=1";
    check(&script);
}

#[test]
fn backoff_is_fixed_exponential_or_a_list() {
    check(
        r#"
        t=0 queue q backoff=exp:1s:3:5s      -> created 1
        enqueue q f backoff=fixed:2s ; e ; l backoff=list:1s,7s -> f e l
        receive q max=3                      -> f e l
        fail f                               -> ok
        fail e                               -> ok
        fail l                               -> ok
        job f                                -> delayed 1/1 until=2s errors=error
        job e                                -> delayed 1/1 until=1s errors=error
        job l                                -> delayed 1/1 until=1s errors=error
        t=10s receive q max=3                -> e@2 l@2 f@2
        fail f                               -> ok
        fail e                               -> ok
        fail l                               -> ok
        job f                                -> delayed 2/2 until=12s errors=error,error
        job e                                -> delayed 2/2 until=13s errors=error,error
        job l                                -> delayed 2/2 until=17s errors=error,error
        t=20s receive q max=3                -> f@3 e@3 l@3
        fail e                               -> ok
        fail l                               -> ok
        job e                                -> delayed 3/3 until=25s errors=error,error,error
        job l                                -> delayed 3/3 until=27s errors=error,error,error
        "#,
    );
}

#[test]
fn a_worker_chooses_the_wait_or_says_that_it_is_pointless() {
    check(
        r#"
        t=0 enqueue q a ; b ; c              -> a b c created
        receive q max=3                      -> a b c
        fail a after=2m                      -> ok
        job a                                -> delayed 1/1 until=2m errors=error
        fail b permanent kind=bad-address    -> ok
        job b                                -> dead 1/1 errors=bad-address
        fail c after=0s                      -> ok
        job c                                -> ready 1/1 errors=error
        "#,
    );
}

#[test]
fn retried_jobs_stand_at_their_due_instant() {
    check(
        r#"
        t=0 queue q backoff=fixed:5s         -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        fail a                               -> ok
        t=4s enqueue q b                     -> b
        t=6s enqueue q c                     -> c
        receive q max=3                      -> b a@2 c
        "#,
    );
}

#[test]
fn a_release_uses_no_attempt_and_keeps_the_place() {
    check(
        r#"
        t=0 enqueue q a                      -> a created
        t=1s enqueue q b                     -> b
        receive q                            -> a
        release a                            -> ok
        job a                                -> ready 0/1
        receive q max=2                      -> a b
        release a                            -> ok
        release a                            -> ok repeated
        release a#1                          -> ! stale received-again (ready)
        ack a                                -> ! stale settled (ready)
        release b delay=1m                   -> ok
        job b                                -> delayed 0/1 until=61s errors=snoozed
        t=61s job b                          -> ready 0/1 errors=snoozed
        receive q max=3                      -> a b
        "#,
    );
}

#[test]
fn a_delivery_given_back_never_happened() {
    check(
        r#"
        t=0 enqueue q a                      -> a created
        receive q                            -> a
        giveback a                           -> ok
        job a                                -> ready
        giveback a                           -> ok
        receive q                            -> a
        ack a                                -> ok
        giveback a                           -> ok
        job a                                -> completed 1/1
        "#,
    );
}

#[test]
fn an_extended_delivery_is_hidden_longer_and_shows_progress() {
    check(
        r#"
        t=0 queue q visibility=10s           -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=5s extend a                        -> ok until=15s
        extend a                             -> ok until=15s
        t=6s extend a visibility=20s progress=50 -> ok until=26s
        job a                                -> inFlight 1/1 until=26s progress=50
        t=7s extend a                        -> ok until=17s
        job a                                -> inFlight 1/1 until=17s progress=50
        t=17s job a                          -> ready 1/1 errors=visibility-timeout progress=50
        receive q                            -> a@2
        job a                                -> inFlight 2/2 until=27s errors=visibility-timeout
        "#,
    );
}

#[test]
fn late_settles_count_until_they_are_overtaken() {
    check(
        r#"
        t=0 queue q visibility=1s backoff=fixed:5s -> created 1
        enqueue q a ; b ; c ; d ; e          -> a b c d e
        receive q max=5                      -> a b c d e
        t=1s stats q                         -> ready=5
        ack a done                           -> ok
        job a                                -> completed 1/1 errors=visibility-timeout,late-ack result=done
        ack a done                           -> ok repeated
        fail b kind=boom                     -> ok
        job b                                -> delayed 1/1 until=6s errors=visibility-timeout,boom
        fail b kind=boom                     -> ok repeated
        ack b                                -> ! stale settled (delayed)
        release c                            -> ok
        job c                                -> ready 0/1 errors=visibility-timeout
        extend d                             -> ok until=2s
        job d                                -> inFlight 1/1 until=2s errors=visibility-timeout
        receive q max=5                      -> c e@2
        ack e#1                              -> ! stale received-again (inFlight)
        ack e                                -> ok
        ack e#1                              -> ! stale received-again (completed)
        ack e as=a                           -> ! stale forged
        ack e forged                         -> ! stale forged
        "#,
    );
}

#[test]
fn every_settle_can_be_repeated_and_no_other_comes_after_it() {
    check(
        r#"
        t=0 enqueue q a ; f ; d              -> a f d created
        receive q max=3                      -> a f d
        ack a 1                              -> ok
        ack a 1                              -> ok repeated
        ack a 2                              -> ! stale settled (completed)
        ack a                                -> ! stale settled (completed)
        fail a                               -> ! stale settled (completed)
        release a                            -> ! stale settled (completed)
        extend a                             -> ! stale settled (completed)
        fail f                               -> ok
        fail f                               -> ok repeated
        fail f kind=other                    -> ! stale settled (delayed)
        ack f                                -> ! stale settled (delayed)
        extend f                             -> ! stale settled (delayed)
        fail d permanent                     -> ok
        fail d permanent                     -> ok repeated
        ack d                                -> ! stale dead (dead)
        "#,
    );
}

#[test]
fn errors_are_the_first_and_the_last_ten() {
    let mut script = "t=0 queue q attempts=40 backoff=fixed:1ms -> created 1\nenqueue q a -> a\n".to_owned();
    for attempt in 1..=25 {
        let shown = if attempt == 1 { "a".to_owned() } else { format!("a@{attempt}") };
        script += &format!("t={attempt}s receive q -> {shown}\nfail a kind=e{attempt} -> ok\n");
    }
    let kept: Vec<String> = (1..=10).chain(16..=25).map(|n| format!("e{n}")).collect();
    script += &format!("t=26s job a -> ready 25/25 errors={}", kept.join(","));
    check(&script);
}

#[test]
fn a_finished_job_is_kept_for_its_time_and_number() {
    check(
        r#"
        t=0 queue q keep=10s:2               -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q max=3                      -> a b c
        ack a                                -> ok
        ack b                                -> ok
        t=1s ack c                           -> ok
        job a                                -> ! gone
        ack a                                -> ok repeated
        ack a other                          -> ! stale settled
        fail a                               -> ! stale settled
        stats q                              -> completed=2
        t=10s stats q                        -> completed=1
        t=11s stats q                        -> empty
        queue q keep=0s                      -> 2
        enqueue q d                          -> d
        receive q                            -> d
        ack d done                           -> ok
        job d                                -> ! gone
        ack d done                           -> ok repeated
        ack d                                -> ! stale settled
        "#,
    );
}

#[test]
fn fewer_finished_jobs_are_kept_as_soon_as_the_queue_says_so() {
    check(
        r#"
        t=0 queue q keep=1h:4                -> created 1
        enqueue q a ; b ; c ; d ; e          -> a b c d e
        receive q max=5                      -> a b c d e
        ack a                                -> ok
        ack b                                -> ok
        ack c                                -> ok
        ack d                                -> ok
        queue q keep=1h:2                    -> 2
        stats q                              -> inFlight=1 completed=2
        job b                                -> ! gone
        job c                                -> completed 1/1
        ack e                                -> ok
        stats q                              -> completed=2
        queue q keep=0s:2                    -> 3
        stats q                              -> empty
        "#,
    );
    check(
        r#"
        t=0 enqueue q a key=k ; b            -> a b created
        receive q max=2                      -> a b
        ack a paid                           -> ok
        ack b                                -> ok
        defaults keep=1h:0                   -> ok
        stats q                              -> empty
        enqueue q c key=k                    -> c
        t=1s enqueue q d key=k               -> d
        receive q                            -> -
        "#,
    );
}

#[test]
fn a_job_not_received_in_time_expires() {
    check(
        r#"
        t=0 enqueue q a expires=5s ; b expires=5s ; c expires=5s delay=1m ; d expires=10s -> a b c d created
        t=4s receive q                       -> a
        t=5s job b                           -> expired errors=expired
        job c                                -> expired errors=expired
        job a                                -> inFlight 1/1 until=34s
        receive q                            -> d
        ack a                                -> ok
        t=20s ack d                          -> ok
        stats q                              -> completed=2 expired=2
        cancel b                             -> b refused expired
        t=1h stats q                         -> completed=2 expired=2
        t=3605s stats q                      -> completed=1
        "#,
    );
}
