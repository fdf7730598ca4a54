//! The four keys: deduplication, producers, idempotency keys, requests.

use crate::script::check;

#[test]
fn a_duplicate_within_its_window_is_the_first_job() {
    check(
        r#"
        t=0 enqueue q a dedup=k:5m                  -> a created
        enqueue q b dedup=k:5m payload="\"a\""      -> dup(a differs ready)
        enqueue q c dedup=k:5m payload=a            -> dup(a differs ready)
        enqueue q d dedup=other:5m                  -> d
        enqueue r e dedup=k:5m                      -> e created
        receive q                                   -> a
        enqueue q f dedup=k:5m                      -> dup(a differs inFlight)
        ack a 42                                    -> ok
        enqueue q f dedup=k:5m                      -> dup(a differs completed 42)
        t=5m enqueue q f dedup=k:5m                 -> f
        stats q                                     -> ready=2 completed=1
        "#,
    );
}

#[test]
fn the_same_payload_is_told_from_another() {
    check(
        r#"
        t=0 enqueue q a dedup=k:5m payload=1 -> a created
        enqueue q b dedup=k:5m payload=1     -> dup(a same ready)
        enqueue q b dedup=k:5m payload=2     -> dup(a differs ready)
        "#,
    );
}

#[test]
fn a_window_outlives_its_job() {
    check(
        r#"
        t=0 queue q keep=0s                  -> created 1
        enqueue q a dedup=k:5m payload=1     -> a
        receive q                            -> a
        ack a 42                             -> ok
        job a                                -> ! gone
        enqueue q b dedup=k:5m payload=1     -> dup(a same gone)
        t=4m restart                         ->
        enqueue q b dedup=k:5m payload=2     -> dup(a differs gone)
        t=5m enqueue q b dedup=k:5m          -> b
        "#,
    );
}

#[test]
fn unfinished_lasts_until_the_job_ends() {
    check(
        r#"
        t=0 queue q attempts=2 backoff=fixed:1s -> created 1
        enqueue q a dedup=k:unfinished delay=1m -> a
        enqueue q b dedup=k:unfinished       -> dup(a differs delayed)
        t=1m enqueue q b dedup=k:unfinished  -> dup(a differs ready)
        receive q                            -> a
        enqueue q b dedup=k:unfinished       -> dup(a differs inFlight)
        fail a                               -> ok
        enqueue q b dedup=k:unfinished       -> dup(a differs delayed)
        +1s receive q                        -> a@2
        ack a                                -> ok
        enqueue q b dedup=k:unfinished       -> b
        cancel b                             -> b cancelled
        enqueue q c dedup=k:unfinished expires=1s -> c
        +1s enqueue q d dedup=k:unfinished   -> d
        purge q                              -> task 1 completed 1/1
        enqueue q e dedup=k:unfinished       -> e
        "#,
    );
}

#[test]
fn death_releases_the_key_and_a_replay_that_finds_it_held_leaves_the_job_dead() {
    check(
        r#"
        t=0 enqueue q a dedup=k:unfinished   -> a created
        receive q                            -> a
        fail a permanent                     -> ok
        +1ms enqueue q b dedup=k:unfinished  -> b
        replay q ids=a                       -> task 1 completed 0/1 conflict=1
        job a                                -> dead 1/1 errors=error
        receive q                            -> b
        ack b                                -> ok
        replay q ids=a                       -> task 2 completed 1/1
        job a                                -> ready 0/1 errors=error replays=1
        enqueue q c dedup=k:unfinished       -> dup(a differs ready)
        "#,
    );
}

#[test]
fn a_window_is_no_conflict_for_the_replay_of_its_own_job() {
    check(
        r#"
        t=0 enqueue q a dedup=k:1h           -> a created
        receive q                            -> a
        fail a permanent                     -> ok
        enqueue q b dedup=k:1h               -> dup(a differs dead)
        +1ms replay q ids=a                  -> task 1 completed 1/1
        enqueue q b dedup=k:1h               -> dup(a differs ready)
        "#,
    );
}

#[test]
fn replace_gives_a_waiting_job_the_new_payload_and_time() {
    check(
        r#"
        t=0 enqueue q a dedup=k:unfinished:replace payload=1 p=5 -> a created
        enqueue q b dedup=k:unfinished:replace payload=2 delay=1m -> dup(a differs delayed)
        job a                                -> delayed until=1m p=5 payload=2
        enqueue q c dedup=k:unfinished:replace payload=3 -> dup(a differs ready)
        job a                                -> ready p=5 payload=3
        enqueue q c dedup=k:unfinished:conflict payload=3 -> dup(a same ready)
        enqueue q c dedup=k:unfinished:conflict payload=1 -> ! conflict [0] a
        "#,
    );
}

/// The payload was checked for the type it came with.
#[test]
fn replace_does_not_put_a_payload_into_a_job_of_another_type() {
    check(
        r#"
        t=0 enqueue q a dedup=k:unfinished payload=1 -> a created
        enqueue q b dedup=k:unfinished:replace type=other payload=2 -> ! invalid [0] /type
        enqueue q b dedup=k:unfinished:replace v=2 payload=2 -> ! invalid [0] /schemaVersion
        enqueue q b dedup=n:5m ; c dedup=n:5m:replace type=other -> ! invalid [1] /type
        job a                                -> ready payload=1
        receive q                            -> a
        enqueue q d dedup=k:unfinished:replace type=other -> d(behind a)
        "#,
    );
}

#[test]
fn replace_queues_behind_an_in_flight_holder() {
    check(
        r#"
        t=0 queue q backoff=fixed:1s         -> created 1
        enqueue q a dedup=k:unfinished       -> a
        receive q                            -> a
        enqueue q b dedup=k:unfinished:replace -> b(behind a)
        job b                                -> blocked held=dedup-key-in-flight
        receive q                            -> - dedup-key-in-flight
        enqueue q c dedup=k:unfinished       -> dup(b differs blocked)
        enqueue q c dedup=k:unfinished:replace payload=new -> dup(b differs blocked)
        job b                                -> blocked held=dedup-key-in-flight payload=new
        fail a                               -> ok
        job b                                -> blocked held=dedup-key-in-flight payload=new
        +1s receive q max=2                  -> a@2
        ack a                                -> ok
        job b                                -> ready payload=new
        receive q max=2                      -> b
        enqueue q d dedup=k:unfinished       -> dup(b differs inFlight)
        "#,
    );
}

#[test]
fn whatever_ends_the_holder_lets_the_one_behind_it_go_on() {
    check(
        r#"
        t=0 enqueue q a dedup=k:unfinished   -> a created
        receive q                            -> a
        enqueue q b dedup=k:unfinished:replace delay=5s -> b(behind a)
        stats q                              -> blocked=1 inFlight=1
        fail a permanent                     -> ok
        job b                                -> delayed until=5s
        t=5s receive q                       -> b
        enqueue q c dedup=k:unfinished:replace -> c(behind b)
        cancel b                             -> b requested
        release b                            -> ok cancel-requested
        job b                                -> cancelled 1/1 errors=cancelled
        receive q                            -> c
        "#,
    );
}

#[test]
fn duplicates_within_one_batch() {
    check(
        r#"
        t=0 enqueue q a dedup=k:5m payload=1 ; b dedup=k:5m payload=1 ; c dedup=k:5m payload=2 -> a dup(a same ready) dup(a differs ready) created
        stats q                              -> ready=1
        enqueue q d dedup=n:5m payload=1 ; e dedup=n:5m:conflict payload=2 -> ! conflict [1] ?
        enqueue q d dedup=n:5m payload=1 p=3 ; e dedup=n:5m:replace payload=2 delay=1s -> d dup(d differs delayed)
        job d                                -> delayed until=1s p=3 payload=2
        enqueue q f dedup=m:5m delay=1m ; g dedup=m:5m -> f dup(f differs delayed)
        enqueue q h dedup=m:5m:replace payload=1 ; i dedup=m:5m payload=1 -> dup(f differs ready) dup(f same ready)
        "#,
    );
}

#[test]
fn a_producers_batches_are_taken_once_and_in_order() {
    check(
        r#"
        t=0 enqueue q producer=p:1 a ; b     -> a b created
        enqueue q producer=p:1 a ; b         -> duplicate
        enqueue q producer=p:3 c             -> ! gap expected=2
        enqueue q producer=p:2 c             -> c
        enqueue q producer=p:1 a             -> duplicate
        enqueue r producer=p:2 d             -> ! gap expected=1
        enqueue q producer=other:1 e         -> e
        enqueue q producer=p:3 f p=1 ; g payload=123456789 -> f g
        +365d restart                        ->
        enqueue q producer=p:3 h             -> duplicate
        enqueue q producer=p:4 h             -> h
        delete q force                       -> task 1 running 0/0
        enqueue q producer=p:1 i             -> i created
        "#,
    );
}

#[test]
fn a_refused_batch_does_not_advance_its_producer() {
    check(
        r#"
        t=0 queue q maxsize=3                -> created 1
        enqueue q producer=p:1 a payload=12345 -> ! too-large [0] 5/3
        enqueue q producer=p:1 a payload=123 -> a
        "#,
    );
}

#[test]
fn jobs_with_one_key_are_never_in_flight_together() {
    check(
        r#"
        t=0 enqueue q a key=k ; b key=k ; c  -> a b c created
        receive q max=3                      -> a c
        job b                                -> ready held=idempotency-key-in-flight
        receive q                            -> - idempotency-key-in-flight
        release a                            -> ok
        receive q max=3                      -> a
        cancel a                             -> a requested
        fail a                               -> ok cancel-requested
        job a                                -> cancelled 1/2 errors=error
        receive q                            -> b
        "#,
    );
}

#[test]
fn the_others_complete_with_the_saved_result() {
    check(
        r#"
        t=0 queue q idem=1h keep=1d          -> created 1
        enqueue q a key=k ; b key=k ; c key=k delay=1m -> a b c
        receive q max=3                      -> a
        ack a "sent"                         -> ok
        job b                                -> completed result=sent
        job c                                -> completed result=sent
        stats q                              -> completed=3
        enqueue q d key=k                    -> d
        job d                                -> completed result=sent
        enqueue r e key=k                    -> e created
        receive r                            -> e
        t=59m enqueue q f key=k              -> f
        job f                                -> completed result=sent
        t=1h enqueue q g key=k               -> g
        job g                                -> ready
        job f                                -> completed result=sent
        receive q                            -> g
        ack g again                          -> ok
        job g                                -> completed 1/1 result=again
        enqueue q h key=k                    -> h
        job h                                -> completed result=again
        "#,
    );
}

#[test]
fn a_failed_holder_lets_the_next_one_try() {
    check(
        r#"
        t=0 queue q attempts=1               -> created 1
        enqueue q a key=k ; b key=k          -> a b
        receive q                            -> a
        fail a                               -> ok
        job a                                -> dead 1/1 errors=error
        receive q                            -> b
        ack b done                           -> ok
        +1ms replay q ids=a                  -> task 1 completed 1/1 succeeded=1 failed=0
        job a                                -> completed 0/1 errors=error replays=1 result=done
        "#,
    );
}

#[test]
fn a_saved_result_lasts_while_a_dead_job_carries_the_key() {
    check(
        r#"
        t=0 queue q idem=1h attempts=1 keep=1d -> created 1
        enqueue q a key=k ; b key=k          -> a b
        receive q                            -> a
        fail a                               -> ok
        receive q                            -> b
        ack b done                           -> ok
        +20h enqueue q c key=k               -> c
        job c                                -> completed result=done
        discard q ids=a                      -> task 1 completed 1/1
        +5m enqueue q d key=k                -> d
        job d                                -> ready
        "#,
    );
}

#[test]
fn ignoring_the_key_runs_the_job_again() {
    check(
        r#"
        t=0 queue q attempts=1 visibility=10s -> created 1
        enqueue q a key=k ; b key=k          -> a b
        receive q                            -> a
        fail a                               -> ok
        receive q                            -> b
        ack b one                            -> ok
        +1ms replay q ids=a ignorekey        -> task 1 completed 1/1
        job a                                -> ready 0/1 errors=error replays=1
        receive q                            -> a
        +9s extend a                         -> ok until=19001ms
        ack a two                            -> ok
        job a                                -> completed 1/2 errors=error replays=1 result=two
        enqueue q c key=k                    -> c
        job c                                -> completed result=two
        "#,
    );
}

#[test]
fn a_late_settle_of_a_job_that_ignores_the_key_counts() {
    check(
        r#"
        t=0 queue q attempts=2 visibility=10s -> created 1
        enqueue q a key=k ; b key=k          -> a b
        receive q                            -> a
        fail a permanent                     -> ok
        receive q                            -> b
        ack b one                            -> ok
        +1ms replay q ids=a ignorekey        -> task 1 completed 1/1
        receive q                            -> a
        +10s job a                           -> ready 1/2 errors=error,visibility-timeout replays=1
        ack a two                            -> ok
        "#,
    );
}

#[test]
fn a_late_settle_is_overtaken_by_another_job_with_the_key() {
    check(
        r#"
        t=0 queue q visibility=10s           -> created 1
        enqueue q a key=k ; b key=k p=1      -> a b
        enqueue q c key=n                    -> c
        receive q types=mail.send max=1      -> b
        +10s receive q max=1 types=other     -> - no-capable-worker
        job b                                -> ready 1/1 held=no-capable-worker p=1 errors=visibility-timeout
        patch b p=0 delay=1h                 -> ok
        receive q                            -> a
        ack b                                -> ! stale key-taken (delayed)
        release a                            -> ok
        ack b                                -> ! stale key-taken (delayed)
        receive q                            -> a
        ack a done                           -> ok
        ack b                                -> ! stale key-taken (completed)
        "#,
    );
}

#[test]
fn a_death_by_timeout_is_not_taken_back_once_the_key_is_taken() {
    check(
        r#"
        t=0 queue q visibility=10s attempts=1 -> created 1
        enqueue q a key=k ; b key=k          -> a b
        receive q                            -> a
        +10s job a                           -> dead 1/1 errors=visibility-timeout
        receive q                            -> b
        ack a                                -> ! stale key-taken (dead)
        fail a                               -> ! stale key-taken (dead)
        fail b                               -> ok
        ack a                                -> ! stale key-taken (dead)
        "#,
    );
}

#[test]
fn a_late_ack_completes_the_others() {
    check(
        r#"
        t=0 queue q visibility=10s attempts=1 -> created 1
        enqueue q a key=k ; b key=k delay=1m -> a b
        receive q                            -> a
        +10s ack a done                      -> ok
        job a                                -> completed 1/1 errors=visibility-timeout,late-ack result=done
        job b                                -> completed result=done
        "#,
    );
}

#[test]
fn an_expired_or_cancelled_job_gives_its_key_up() {
    check(
        r#"
        t=0 queue q idem=1h:1                -> created 1
        enqueue q a key=k expires=1s         -> a
        enqueue q b key=n                    -> ! full idempotency-max 2/1
        enqueue q b key=k                    -> b
        t=1s job a                           -> expired errors=expired
        cancel b                             -> b cancelled
        t=2h enqueue q c key=n               -> c
        "#,
    );
}

#[test]
fn an_http_request_repeated_within_ten_minutes_gets_the_saved_answer() {
    check(
        r#"
        t=0 enqueue q request=r:body a ; b dedup=k:1h -> a b created
        enqueue q request=r:body a ; b dedup=k:1h -> a b saved created
        enqueue q request=r:other c          -> ! RequestKeyReused
        t=1m restart                         ->
        enqueue q request=r:body a ; b dedup=k:1h -> a b saved created
        t=599999ms enqueue q request=r:body a -> a saved created
        stats q                              -> ready=2
        t=10m enqueue q request=r:other c    -> c
        "#,
    );
}

#[test]
fn a_refused_request_may_be_sent_again() {
    check(
        r#"
        t=0 queue q depth=1                  -> created 1
        enqueue q a                          -> a
        enqueue q request=r:body b           -> ! full max-depth 2/1
        cancel a                             -> a cancelled
        enqueue q request=r:body b           -> b
        "#,
    );
}

#[test]
fn rules_of_keys_do_not_wait_for_timers() {
    check(
        r#"
        t=0 queue q idem=1h                  -> created 1
        enqueue q a key=k ; b key=k ; c dedup=d:1h -> a b c
        receive q                            -> a
        ticks off                            ->
        ack a done                           -> ok
        receive q max=9                      -> c
        receive q max=9                      -> - idempotency-key-in-flight
        ack c                                -> ok
        job b                                -> ready held=idempotency-key-in-flight
        ticks on                             ->
        job b                                -> completed result=done
        ticks off                            ->
        t=59m enqueue q d dedup=d:1h         -> dup(c differs completed)
        t=1h enqueue q e key=k ; f dedup=d:1h -> e f
        ticks on                             ->
        receive q max=9                      -> e f
        "#,
    );
}

#[test]
fn a_request_that_is_over_is_taken_anew_before_its_timer() {
    check(
        r#"
        t=0 enqueue q request=r:body a       -> a created
        ticks off                            ->
        t=10m enqueue q request=r:other b    -> b
        enqueue q request=r:other c          -> b saved
        "#,
    );
}
