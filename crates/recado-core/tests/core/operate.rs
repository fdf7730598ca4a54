//! What operators do: cancel, pause, purge, replay, discard, configure, delete; and the limits they set.

use crate::script::check;

#[test]
fn a_waiting_job_is_cancelled_at_once() {
    check(
        r#"
        t=0 enqueue q a ; b delay=1m         -> a b created
        cancel a b                           -> a cancelled, b cancelled
        job a                                -> cancelled errors=cancelled
        cancel a                             -> a cancelled
        receive q                            -> -
        stats q                              -> cancelled=2
        t=1h stats q                         -> empty
        cancel a                             -> a gone
        "#,
    );
}

#[test]
fn a_job_in_flight_is_marked_and_whatever_follows_decides() {
    check(
        r#"
        t=0 queue q visibility=10s attempts=1 -> created 1
        enqueue q a ; f ; r ; l ; g          -> a f r l g
        receive q max=9 worker=w             -> a f r l g
        cancel a f r l g                     -> a requested, f requested, r requested, l requested, g requested
        cancel a                             -> a requested
        job a                                -> inFlight 1/1 until=10s cancel-requested
        extend l                             -> ok until=10s cancel-requested
        ack a done                           -> ok cancel-requested
        job a                                -> completed 1/1 result=done
        fail f kind=boom                     -> ok cancel-requested
        job f                                -> cancelled 1/1 errors=boom
        fail f kind=boom                     -> ok repeated
        release r                            -> ok cancel-requested
        release r                            -> ok repeated
        giveback g                           -> ok
        t=10s job l                          -> cancelled 1/1 errors=visibility-timeout
        ack l                                -> ! stale cancelled (cancelled)
        ack r                                -> ! stale cancelled (cancelled)
        stats q                              -> completed=1 cancelled=4
        cancel a                             -> a refused completed
        "#,
    );
}

#[test]
fn a_cancel_overtakes_a_lapsed_delivery() {
    check(
        r#"
        t=0 queue q visibility=10s           -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=10s cancel a                       -> a cancelled
        ack a                                -> ! stale cancelled (cancelled)
        "#,
    );
}

#[test]
fn a_dead_job_is_not_cancelled() {
    check(
        r#"
        t=0 enqueue q a                      -> a created
        receive q                            -> a
        fail a permanent                     -> ok
        cancel a                             -> a refused dead
        "#,
    );
}

#[test]
fn all_jobs_of_a_business_object_are_cancelled() {
    check(
        r#"
        t=0 enqueue q a biz=o1 ; b biz=o2 ; c biz=o1 -> a b c created
        enqueue r d biz=o1                   -> d created
        receive q                            -> a
        cancel biz=o1 reason=gone            -> d cancelled, c cancelled, a requested
        cancel biz=o3                        ->
        jobs q biz=o2                        -> b
        audit                                -> cancelled
        "#,
    );
}

#[test]
fn a_paused_queue_gives_nothing_and_takes_all() {
    check(
        r#"
        t=0 enqueue q a ; b                  -> a b created
        receive q                            -> a
        pause q reason=maintenance           -> ok
        pause q reason=maintenance           -> ok
        enqueue q c                          -> c
        ack a                                -> ok
        receive q                            -> - paused
        job b                                -> ready held=paused
        restart                              ->
        receive q                            -> - paused
        resume q                             -> ok
        receive q max=9                      -> b c
        audit                                -> queue-resumed queue-paused
        pause nowhere                        -> ! not-found
        "#,
    );
}

#[test]
fn a_purge_takes_what_waited_when_it_began() {
    check(
        r#"
        t=0 enqueue q a ; b delay=1m ; c ; d -> a b c d created
        receive q                            -> a
        receive q                            -> c
        fail c permanent                     -> ok
        steps off                            ->
        purge q reason=wrong                 -> task 1 running 0/0
        enqueue q e                          -> e
        step 1                               ->
        task 1                               -> task 1 running 1/1
        restart                              ->
        steps on                             ->
        task 1                               -> task 1 completed 2/2
        stats q                              -> ready=1 inFlight=1 dead=1
        job b                                -> ! gone
        ack a                                -> ok
        purge q states=delayed               -> task 2 completed 0/0
        purge q states=ready                 -> task 3 completed 1/1
        audit                                -> purged purged purged
        "#,
    );
}

/// A key that is taken, freed or given to the next moves jobs between line and aside; none slips through.
#[test]
fn a_purge_meets_every_job_of_a_key() {
    check(
        r#"
        t=0 enqueue q a key=k ; b key=k ; c key=k ; d key=k ; e key=k ; f key=k -> a b c d e f created
        purge q                                                                 -> task 1 completed 6/6
        enqueue q k1 key=k p=5 ; k2 key=k p=5 ; w p=1 ; x p=1 ; y p=1 ; z p=1   -> k1 k2 w x y z
        receive q                                                               -> k1
        steps off                                                               ->
        purge q                                                                 -> task 2 running 0/0
        step 2                                                                  ->
        release k1                                                              -> ok
        steps on                                                                ->
        task 2                                                                  -> task 2 completed 6/6
        job k2                                                                  -> ! gone
        "#,
    );
}

#[test]
fn a_receipt_of_a_purged_job_says_so() {
    check(
        r#"
        t=0 queue q visibility=1s            -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=1s purge q                         -> task 1 completed 1/1
        ack a                                -> ! stale purged
        "#,
    );
}

#[test]
fn blocked_jobs_are_purged_when_asked_for() {
    check(
        r#"
        t=0 enqueue q a dedup=k:unfinished   -> a created
        receive q                            -> a
        enqueue q b dedup=k:unfinished:replace -> b(behind a)
        purge q                              -> task 1 completed 0/0
        purge q states=blocked               -> task 2 completed 1/1
        fail a                               -> ok
        "#,
    );
}

const THREE_DEAD: &str = r#"
    t=0 queue q attempts=1 maxreplays=2      -> created 1
    enqueue q a biz=o1 ; b type=image group=g ; c -> a b c
    receive q max=3                          -> a b c
    t=1s fail a kind=net msg="host 17 down"  -> ok
    t=2s fail b kind=disk                    -> ok
    t=3s fail c kind=net msg="host 18 down"  -> ok
    groups q                                 -> mail.send:netx2 image:diskx1
    t=4s stats q                             -> dead=3
"#;

fn with_three_dead(script: &str) {
    check(&format!("{THREE_DEAD}{script}"));
}

#[test]
fn dead_jobs_are_replayed_by_id_or_filter() {
    with_three_dead(
        r#"
        replay q ids=c                       -> task 1 completed 1/1
        job c                                -> ready 0/1 errors=net replays=1
        receive q                            -> c
        ack c ok                             -> ok
        job c                                -> completed 1/2 errors=net replays=1 result=ok
        task 1                               -> task 1 completed 1/1 succeeded=1 failed=0
        replay q type=image                  -> task 2 completed 1/1
        replay q kind=disk                   -> task 3 completed 0/0
        replay q ids=a,c                     -> task 4 completed 1/2 not-dead=1
        stats q                              -> ready=2 completed=1
        "#,
    );
}

#[test]
fn filters_of_dead_jobs() {
    with_three_dead(
        r#"
        discard q group=h                    -> task 1 completed 0/0
        discard q kind=net before=2s         -> task 2 completed 1/1
        job a                                -> ! gone
        replay q ids=a                       -> task 3 completed 0/0 not-found=1
        discard q after=2s                   -> task 4 completed 1/1
        job c                                -> ! gone
        discard q group=g biz=o1             -> task 5 completed 0/0
        discard q group=g                    -> task 6 completed 1/1
        stats q                              -> empty
        ack a                                -> ! stale settled
        "#,
    );
}

#[test]
fn a_job_is_replayed_so_often_and_no_more_unless_forced() {
    with_three_dead(
        r#"
        replay q ids=a                       -> task 1 completed 1/1
        receive q                            -> a
        +1s fail a kind=net                  -> ok
        task 1                               -> task 1 completed 1/1 succeeded=0 failed=1
        +1s replay q ids=a                   -> task 2 completed 1/1
        receive q                            -> a
        +1s fail a kind=net                  -> ok
        +1s replay q ids=a,b                 -> task 3 completed 1/2 max-replays=1
        +1s replay q ids=a force             -> task 4 completed 1/1
        job a                                -> ready 0/3 errors=net,net,net replays=3
        "#,
    );
}

#[test]
fn a_replay_can_carry_a_new_payload() {
    with_three_dead(
        r#"
        replay q ids=a,b patch=new           -> task 1 completed 2/2
        job a                                -> ready 0/1 errors=net replays=1 payload=new
        receive q max=2                      -> a b
        fail a kind=net                      -> ok
        job a                                -> dead 1/2 errors=net,net replays=1 payload=new
        "#,
    );
}

#[test]
fn a_replay_follows_its_rate() {
    with_three_dead(
        r#"
        replay q all rate=1/10s              -> task 1 running 1/3
        t=13s task 1                         -> task 1 running 1/3
        t=14s stats q                        -> ready=1 dead=2
        t=14s stats q                        -> ready=2 dead=1
        t=15s canceltask 1                   -> task 1 cancelled 2/3
        t=1m task 1                          -> task 1 cancelled 2/3
        stats q                              -> ready=2 dead=1
        t=90000s task 1                      -> ! TaskNotFound
        "#,
    );
}

/// Its rate is one of elapsed time: a wall clock that is set back does not stall it.
#[test]
fn a_replay_goes_on_when_the_clock_is_set_back() {
    with_three_dead(
        r#"
        stepclock 1h                         -> 3604s
        replay q all rate=1/10s              -> task 1 running 1/3
        stepclock -1h                        -> 4s
        t=13s task 1                         -> task 1 running 1/3
        t=14s stats q                        -> ready=1 dead=2
        t=14s stats q                        -> ready=2 dead=1
        "#,
    );
}

#[test]
fn a_replay_halts_when_its_first_jobs_fail() {
    with_three_dead(
        r#"
        replay q all rate=1/1s halt=1        -> task 1 running 1/3
        receive q                            -> a
        +1ms fail a kind=net                 -> ok
        t=9s task 1                          -> task 1 running 1/3 succeeded=0 failed=1
        task 1                               -> task 1 halted 1/3 succeeded=0 failed=1
        t=19s stats q                        -> dead=3
        "#,
    );
}

#[test]
fn a_replayed_job_overtakes_its_old_receipts() {
    check(
        r#"
        t=0 queue q attempts=1 visibility=1s -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=1s job a                           -> dead 1/1 errors=visibility-timeout
        +1s replay q ids=a                   -> task 1 completed 1/1
        ack a                                -> ! stale replayed (ready)
        receive q                            -> a
        ack a#1                              -> ! stale received-again (inFlight)
        "#,
    );
}

#[test]
fn a_note_stays_with_its_group_and_goes_with_its_last_job() {
    with_three_dead(
        r#"
        acknowledge q a investigating        -> ok
        groups q                             -> mail.send:netx2(investigating) image:diskx1
        restart                              ->
        groups q                             -> mail.send:netx2(investigating) image:diskx1
        discard q ids=a                      -> task 1 completed 1/1
        groups q                             -> image:diskx1 mail.send:netx1(investigating)
        discard q ids=c                      -> task 2 completed 1/1
        groups q                             -> image:diskx1
        enqueue q d                          -> d
        receive q                            -> d
        fail d kind=net msg="host 9 down"    -> ok
        groups q                             -> image:diskx1 mail.send:netx1
        "#,
    );
}

#[test]
fn at_a_limit_producers_are_refused_and_consumers_go_on() {
    check(
        r#"
        t=0 queue q depth=3 attempts=1 deadmax=2 -> created 1
        enqueue q a ; b ; c                  -> a b c
        enqueue q d                          -> ! full max-depth 4/3
        enqueue q d ; e ; f ; g              -> ! full max-depth 4/3
        receive q max=2                      -> a b
        enqueue q d                          -> ! full max-depth 4/3
        fail a                               -> ok
        enqueue q d                          -> d
        fail b after=1s                      -> ok
        stats q                              -> ready=2 dead=2
        enqueue q e                          -> ! full dead-letter-max 2/2
        receive q max=9                      -> c d
        fail c                               -> ok
        stats q                              -> inFlight=1 dead=3
        enqueue q e                          -> ! full dead-letter-max 3/2
        +1s discard q ids=a,b                -> task 1 completed 2/2
        enqueue q e                          -> e
        "#,
    );
}

#[test]
fn payloads_and_keys_have_limits() {
    check(
        r#"
        t=0 queue q maxsize=4 idem=1h:2      -> created 1
        enqueue q a payload=1234             -> a
        enqueue q b payload=1 ; c payload=12345 -> ! too-large [1] 5/4
        stats q                              -> ready=1
        enqueue q b key=1 payload=1 ; c key=2 payload=1 ; d key=1 payload=1 -> b c d
        enqueue q e key=3 payload=1          -> ! full idempotency-max 3/2
        enqueue q e key=2 payload=1          -> e
        "#,
    );
}

#[test]
fn a_configuration_is_replaced_whole_and_guarded() {
    check(
        r#"
        t=0 queue q attempts=2               -> created 1
        queue q attempts=2                   -> 1
        queue q attempts=3 if=1              -> 2
        queue q attempts=4 if=1              -> ! PreconditionFailed
        queue q attempts=4 if=1,2            -> 3
        queue q if=none                      -> ! PreconditionFailed
        queue r if=none                      -> ! PreconditionFailed
        queue q attempts=5 file              -> 4
        queue q attempts=6                   -> ! ManagedByFile
        queue q attempts=6 file              -> 5
        delete q                             -> ! ManagedByFile
        delete q force                       -> ! ManagedByFile
        enqueue a x                          -> x created
        queue a attempts=1                   -> 2
        receive a                            -> x
        fail x                               -> ok
        job x                                -> dead 1/1 errors=error
        "#,
    );
}

#[test]
fn defaults_hold_where_a_queue_says_nothing() {
    check(
        r#"
        t=0 defaults attempts=1 visibility=7s -> ok
        enqueue q a ; b                      -> a b created
        receive q max=2                      -> a b
        job b                                -> inFlight 1/1 until=7s
        fail a                               -> ok
        job a                                -> dead 1/1 errors=error
        queue q attempts=2                   -> 2
        fail b                               -> ok
        job b                                -> delayed 1/1 until=10s errors=error
        "#,
    );
}

#[test]
fn a_queue_is_deleted_empty_or_by_force() {
    check(
        r#"
        t=0 enqueue q a ; b ; c delay=1m ; d dedup=k:1h ; e key=k -> a b c d e created
        receive q                            -> a
        delete q                             -> ! not-empty 5
        delete q force if=7                  -> ! PreconditionFailed
        receive q                            -> b
        fail b permanent                     -> ok
        ack a                                -> ok
        acknowledge q b noted                -> ok
        steps off                            ->
        delete q force                       -> task 1 running 0/0
        delete q force                       -> task 1 running 0/0
        enqueue q x                          -> ! full being-deleted 0/0
        queue q attempts=3                   -> ! full being-deleted 0/0
        pause q                              -> ! full being-deleted 0/0
        replay q all                         -> ! full being-deleted 0/0
        receive q                            -> - paused
        step 2                               ->
        restart                              ->
        enqueue q x                          -> ! full being-deleted 0/0
        steps on                             ->
        stats nowhere                        -> ! not-found
        stats q                              -> ! not-found
        job e                                -> ! gone
        enqueue q f dedup=k:1h key=k         -> f created
        job f                                -> ready
        cancel f                             -> f cancelled
        delete q if=1 ifnot=2                -> task 2 running 0/0
        delete q                             -> ! not-found
        "#,
    );
}

#[test]
fn jobs_that_move_while_their_queue_is_deleted_go_too() {
    check(
        r#"
        t=0 queue q visibility=10s backoff=fixed:1h -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q max=3                      -> a b c
        steps off                            ->
        delete q force                       -> task 1 running 0/0
        step 1                               ->
        fail b                               -> ok
        t=10s step 1                         ->
        fail c                               -> ok
        steps on                             ->
        task 1                               -> task 1 completed 3/3
        stats q                              -> ! not-found
        "#,
    );
}

#[test]
fn a_delete_that_is_stopped_leaves_the_rest_at_work() {
    check(
        r#"
        t=0 enqueue q a ; b ; c              -> a b c created
        steps off                            ->
        delete q force                       -> task 1 running 0/0
        step 1                               ->
        canceltask 1                         -> task 1 cancelled 1/1
        steps on                             ->
        receive q max=9                      -> b c
        enqueue q d                          -> d
        "#,
    );
}

#[test]
fn deleting_an_empty_queue_is_done_at_once() {
    check(
        r#"
        t=0 receive q                        -> -
        delete q                             -> ok
        delete q                             -> ! not-found
        audit                                -> queue-deleted
        "#,
    );
}

#[test]
fn a_cancel_by_business_object_meets_what_can_be_cancelled_whatever_has_ended() {
    check(
        r#"
        t=0 queue q attempts=1               -> created 1
        enqueue q a biz=o ; b biz=o ; c biz=o ; d biz=o delay=1h -> a b c d
        receive q                            -> a
        fail a                               -> ok
        receive q                            -> b
        cancel biz=o                         -> d cancelled, c cancelled, b requested
        cancel biz=o                         ->
        replay q ids=a                       -> task 1 completed 1/1
        cancel biz=o                         -> a cancelled
        ack b                                -> ok cancel-requested
        enqueue r e biz=o                    -> e created
        cancel biz=o                         -> e cancelled
        cancel biz=o                         ->
        "#,
    );
}
