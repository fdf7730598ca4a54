//! What SQS adds to a queue: hand-off of what keeps failing, retention, FIFO groups, moves.

use crate::script::check;

#[test]
fn a_job_that_was_received_too_often_goes_to_the_target() {
    check(
        r#"
        t=0 queue dlq retention=14d visibility=10s -> created 1
        queue q redrive=dlq:2 retention=4d visibility=10s -> created 1
        enqueue q a group=g biz=b ; b        -> a b
        receive q max=9                      -> a b
        t=10s receive q                      -> a@2
        receive q                            -> b@2
        t=20s stats q                        -> ready=2
        receive q max=9                      -> -
        stats q                              -> empty
        stats dlq                            -> ready=2
        job a                                -> ready 0/2 errors=visibility-timeout,visibility-timeout by=q first=0s
        ack a                                -> ! stale forwarded (ready)
        jobs dlq group=g                     -> a
        jobs dlq biz=b                       -> a
        receive dlq                          -> a
        job a                                -> inFlight 1/3 until=30s errors=visibility-timeout,visibility-timeout by=q first=0s
        ack a                                -> ok
        "#,
    );
}

#[test]
fn a_failure_that_ends_a_job_hands_it_off_at_once() {
    check(
        r#"
        t=0 queue dlq retention=14d          -> created 1
        queue q redrive=dlq:9 retention=4d backoff=fixed:1s -> created 1
        queue n redrive=dlq:9 attempts=1 visibility=10s -> created 1
        enqueue q a key=k ; b                -> a b
        receive q max=2                      -> a b
        fail a permanent                     -> ok
        job a                                -> ready 0/1 errors=error by=q first=0s
        fail b                               -> ok
        job b                                -> delayed 1/1 until=1s errors=error
        enqueue n c                          -> c
        receive n                            -> c
        t=10s job c                          -> ready 0/1 errors=visibility-timeout by=n first=0s
        stats dlq                            -> ready=2
        "#,
    );
}

#[test]
fn without_a_target_a_job_stays() {
    check(
        r#"
        t=0 queue q redrive=dlq:1 retention=4d visibility=10s -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=10s receive q                      -> a@2
        queue dlq retention=4d               -> created 1
        t=20s receive q                      -> -
        job a                                -> ready 0/2 errors=visibility-timeout,visibility-timeout by=q first=0s
        delete q                             -> ok
        job a                                -> ready 0/2 errors=visibility-timeout,visibility-timeout
        "#,
    );
}

#[test]
fn a_late_ack_counts_until_the_job_is_handed_off() {
    check(
        r#"
        t=0 queue dlq retention=4d           -> created 1
        queue q redrive=dlq:1 retention=4d visibility=10s -> created 1
        enqueue q a ; b                      -> a b
        receive q max=2                      -> a b
        t=10s ack a                          -> ok
        receive q                            -> -
        ack b                                -> ! stale forwarded (ready)
        stats dlq                            -> ready=1
        "#,
    );
}

#[test]
fn retention_ends_jobs_that_are_waiting_or_in_flight() {
    check(
        r#"
        t=0 queue q retention=60s visibility=10m -> created 1
        enqueue q a ; b delay=5m             -> a b
        t=10s enqueue q c                    -> c
        receive q                            -> a
        t=60s stats q                        -> ready=1 expired=2
        ack a                                -> ! stale expired (expired)
        queue q retention=2m visibility=10m  -> 2
        t=100s stats q                       -> ready=1 expired=2
        queue q retention=60s                -> 3
        stats q                              -> expired=3
        job c                                -> expired errors=expired
        "#,
    );
}

#[test]
fn a_handed_off_job_keeps_its_age_but_in_a_fifo_queue() {
    check(
        r#"
        t=0 queue dlq retention=60s          -> created 1
        queue fdlq retention=60s fifo        -> created 1
        queue q redrive=dlq:1 retention=60s visibility=10s -> created 1
        queue f redrive=fdlq:1 retention=60s visibility=10s fifo -> created 1
        enqueue q a                          -> a
        enqueue f b group=g                  -> b
        receive q                            -> a
        receive f bygroup                    -> b
        t=30s receive q                      -> -
        receive f bygroup                    -> -
        t=60s stats dlq                      -> expired=1
        stats fdlq                           -> ready=1
        t=90s stats fdlq                     -> expired=1
        "#,
    );
}

#[test]
fn one_receive_takes_several_jobs_of_a_fifo_group() {
    check(
        r#"
        t=0 queue f fifo retention=4d visibility=30s -> created 1
        enqueue f a1 group=a ; b1 group=b ; a2 group=a ; a3 group=a ; b2 group=b -> a1 b1 a2 a3 b2
        receive f max=2 bygroup              -> a1 a2
        receive f max=10 bygroup             -> b1 b2
        receive f max=10 bygroup             -> - group-order
        ack a1                               -> ok
        receive f max=10 bygroup             -> - group-order
        ack a2                               -> ok
        receive f max=10 bygroup             -> a3
        "#,
    );
}

/// A receive that takes more of a group went past the limit of what may be in flight of it.
#[test]
fn one_receive_takes_no_more_of_a_fifo_group_than_may_be_in_flight() {
    check(
        r#"
        t=0 queue f fifo groupmax=2 visibility=30s -> created 1
        enqueue f a1 group=a ; a2 group=a ; a3 group=a ; b1 group=b -> a1 a2 a3 b1
        receive f max=10 bygroup             -> a1 a2 b1
        ack a1                               -> ok
        ack a2                               -> ok
        receive f max=10 bygroup             -> a3
        "#,
    );
}

#[test]
fn a_fifo_group_gives_what_is_visible_again_up_to_what_is_not() {
    check(
        r#"
        t=0 queue f fifo retention=4d visibility=30s -> created 1
        enqueue f a group=g ; b group=g ; c group=g ; d group=g -> a b c d
        receive f max=3 bygroup              -> a b c
        extend b visibility=5m               -> ok until=5m
        t=30s receive f max=10 bygroup       -> a@2
        ack a                                -> ok
        receive f max=10 bygroup             -> - group-order
        extend b visibility=0s               -> ok until=30s
        receive f max=10 bygroup             -> b@2 c@2 d
        "#,
    );
}

#[test]
fn jobs_of_a_fifo_group_come_back_in_their_order() {
    check(
        r#"
        t=0 queue f fifo retention=4d visibility=10s -> created 1
        enqueue f a group=g ; b group=g ; c group=g -> a b c
        receive f max=2 bygroup              -> a b
        t=10s receive f max=10 bygroup       -> a@2 b@2 c
        receive f max=1                      -> -
        enqueue f d group=g                  -> d
        receive f max=1                      -> - group-order
        t=20s receive f max=10               -> a@3
        ack a                                -> ok
        receive f max=10                     -> b@3
        "#,
    );
}

/// A retry has a later instant than the jobs that wait behind it: the rest of its group was looked for behind that.
#[test]
fn a_retry_takes_the_rest_of_its_fifo_group_along_in_its_order() {
    check(
        r#"
        t=0 queue f fifo retention=4d visibility=10s backoff=fixed:3s -> created 1
        enqueue f a group=g                  -> a
        receive f                            -> a
        t=1s fail a                          -> ok
        t=2s enqueue f b group=g             -> b
        t=5s enqueue f c group=g             -> c
        receive f max=2 bygroup              -> a@2 b
        receive f max=2 bygroup              -> - group-order
        ack a                                -> ok
        ack b                                -> ok
        receive f max=2 bygroup              -> c
        "#,
    );
}

#[test]
fn a_fifo_queue_takes_no_late_settle() {
    check(
        r#"
        t=0 queue f fifo retention=4d visibility=10s -> created 1
        enqueue f a group=g                  -> a
        receive f                            -> a
        extend a visibility=20s              -> ok until=20s
        t=15s ticks off                      ->
        t=20s ack a                          -> ! stale visibility-timeout (inFlight)
        ticks on                             ->
        ack a                                -> ! stale visibility-timeout (ready)
        extend a visibility=20s              -> ! stale visibility-timeout (ready)
        receive f                            -> a@2
        ack a                                -> ok
        "#,
    );
}

#[test]
fn fifo_deduplication_is_by_queue_or_by_group_and_forgotten_by_a_purge() {
    check(
        r#"
        t=0 queue f fifo retention=4d        -> created 1
        enqueue f a group=g dedup=k:5m       -> a
        enqueue f b group=h dedup=k:5m       -> dup(a differs ready)
        queue f fifo-by-group retention=4d   -> 2
        enqueue f c group=h dedup=k:5m       -> dup(a differs ready)
        enqueue f d group=g dedup=l:5m ; e group=h dedup=l:5m ; x group=h dedup=l:5m -> d e dup(e differs ready)
        queue f fifo retention=4d            -> 3
        enqueue f m group=g dedup=l:5m       -> m
        receive f max=9 bygroup              -> a d m e
        purge f states=ready,delayed,inFlight -> task 1 completed 4/4
        stats f                              -> empty
        ack a                                -> ! stale purged
        enqueue f n group=g dedup=k:5m       -> n
        enqueue f o group=g dedup=k:5m       -> dup(n differs ready)
        t=5m enqueue f p group=g dedup=k:5m  -> p
        "#,
    );
}

#[test]
fn dead_letters_are_moved_back_as_new_jobs() {
    check(
        r#"
        t=0 queue dlq retention=4d visibility=10s -> created 1
        queue q redrive=dlq:1 retention=4d visibility=10s -> created 1
        queue r redrive=dlq:1 retention=4d visibility=10s -> created 1
        move q                               -> ! NotATarget
        enqueue q a group=g biz=b            -> a
        enqueue r b                          -> b
        receive from=q,r strict max=2        -> a b
        t=10s receive from=q,r strict max=2  -> -
        stats dlq                            -> ready=2
        move dlq                             -> task 1 completed 2/2
        stats dlq                            -> empty
        stats q                              -> ready=1
        stats r                              -> ready=1
        job a                                -> ! gone
        receive q                            -> ?
        jobs q biz=b                         -> ?
        jobs q group=g                       -> ?
        "#,
    );
}

#[test]
fn a_move_goes_at_its_rate_is_cancelled_and_fails() {
    check(
        r#"
        t=0 queue dlq retention=4d           -> created 1
        queue q redrive=dlq:1 retention=4d   -> created 1
        queue other retention=4d             -> created 1
        enqueue dlq a ; b ; c ; d            -> a b c d
        move dlq to=other rate=1/1s          -> task 1 running 1/4
        move dlq to=other                    -> ! MoveRunning
        t=1s                                 ->
        task 1                               -> task 1 running 2/4
        canceltask 1                         -> task 1 cancelled 2/4
        stats other                          -> ready=2
        move dlq to=gone                     -> task 2 halted 0/2
        move dlq                             -> task 3 halted 0/2
        stats dlq                            -> ready=2
        "#,
    );
}

#[test]
fn a_configuration_without_sqs_leaves_what_it_added() {
    check(
        r#"
        t=0 queue dlq                        -> created 1
        queue q redrive=dlq:1 retention=4d visibility=10s -> created 1
        queue q visibility=20s               -> 2
        enqueue q a                          -> a
        receive q                            -> a
        t=20s receive q                      -> -
        stats dlq                            -> ready=1
        "#,
    );
}
