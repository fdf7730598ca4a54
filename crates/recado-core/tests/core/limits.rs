//! Rate limits and shared limits: never more than the limit, and the next job at the very instant of its token.
//!
//! A state made anew within one service knows the tokens only of what the log still shows, so scripts with rates do
//! not run where all is copied and replayed; a start empties every bucket.

use crate::script::{Between, Play, check, check_between};

const TOKENS_KEPT: [Between; 3] = [Between::Nothing, Between::Replay, Between::Copy];

#[test]
fn a_rate_limit_gives_its_burst_and_then_one_an_interval() {
    check_between(
        r#"
        t=0 queue q rate=10/1s:3             -> created 1
        enqueue q a ; b ; c ; d ; e ; f ; g  -> a b c d e f g
        receive q max=9                      -> a b c
        job d                                -> ready held=queue-rate-limit
        receive q                            -> - queue-rate-limit
        due                                  -> 100ms
        t=99ms receive q                     -> - queue-rate-limit
        t=100ms receive q max=9              -> d
        t=320ms receive q max=9              -> e f
        // A job that comes back takes a token when it goes out again.
        release a                            -> ok
        receive q                            -> - queue-rate-limit
        t=400ms receive q                    -> a
        t=10s receive q max=9                -> g
        "#,
        &TOKENS_KEPT,
    );
}

#[test]
fn a_service_begins_with_empty_buckets() {
    check_between(
        r#"
        t=0 queue q rate=10/1s:5             -> created 1
        limit l rate=10/1s:5                 -> created
        queue r limits=l                     -> created 1
        queue s grouprate=10/1s:5            -> created 1
        enqueue q a ; b ; c ; d ; e ; f      -> a b c d e f
        enqueue r g ; h ; i                  -> g h i
        enqueue s j group=x ; k group=x ; m  -> j k m
        restart down=1h
        receive q max=9                      -> - queue-rate-limit
        receive r max=9                      -> - shared-limit
        receive s max=9                      -> m
        receive s                            -> - group-rate-limit
        // A group that comes only now is no exception.
        enqueue s n group=y                  -> n
        job n                                -> ready held=group-rate-limit
        "#,
        &TOKENS_KEPT,
    );
    let mut play = Play::new(Between::Nothing);
    play.line("t=0 queue q rate=10/1s:5");
    play.line("queue s grouprate=10/1s:5");
    play.line("enqueue q a ; b ; c ; d ; e ; f ; g ; h ; i");
    play.line("enqueue s j group=x ; k group=x ; m group=y");
    play.line("restart down=1h");
    for (line, reply) in [
        ("+99ms receive q max=9", "- queue-rate-limit"),
        ("+1ms receive q max=9", "a"),
        ("receive s max=9", "j m"),
        ("receive s max=9", "- group-rate-limit"),
        ("+100ms receive s max=9", "k"),
        ("+10s receive q max=9", "b c d e f"),
    ] {
        assert_eq!(play.line(line), reply, "{line}");
    }
}

#[test]
fn a_step_of_the_clock_makes_no_tokens() {
    check_between(
        r#"
        t=0 queue q rate=1/10s               -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q                            -> a
        stepclock 1h                         -> 1h
        receive q                            -> - queue-rate-limit
        +9999ms receive q                    -> - queue-rate-limit
        +1ms receive q                       -> b
        stepclock -1h                        -> 10s
        +10s receive q                       -> c
        "#,
        &TOKENS_KEPT,
    );
}

#[test]
fn another_rate_holds_from_the_last_delivery_on() {
    check_between(
        r#"
        t=0 queue q rate=1/1h visibility=1h  -> created 1
        enqueue q a ; b ; c ; d ; e          -> a b c d e
        receive q                            -> a
        t=1m receive q                       -> - queue-rate-limit
        queue q rate=1/1s visibility=1h      -> 2
        receive q max=9                      -> b
        receive q                            -> - queue-rate-limit
        queue q visibility=1h                -> 3
        receive q max=2                      -> c d
        queue q rate=1/1s visibility=1h      -> 4
        receive q max=9                      -> e
        "#,
        &TOKENS_KEPT,
    );
}

#[test]
fn each_group_has_a_rate_of_its_own() {
    check_between(
        r#"
        t=0 queue q grouprate=1/10s          -> created 1
        enqueue q a group=x ; b group=x ; c group=y ; d ; e -> a b c d e
        receive q max=9                      -> a c d e
        job b                                -> ready held=group-rate-limit
        receive q                            -> - group-rate-limit
        due                                  -> 10s
        ack a                                -> ok
        // A group that has gone meanwhile has not got a new bucket.
        t=5s cancel b                        -> b cancelled
        queue q grouprate=1/10s keep=0s:0    -> 2
        enqueue q f group=x                  -> f
        receive q                            -> - group-rate-limit
        t=10s receive q                      -> f
        t=20s due                            -> 30s
        "#,
        &TOKENS_KEPT,
    );
}

#[test]
fn an_ordered_group_keeps_its_order_under_a_rate() {
    check_between(
        r#"
        t=0 queue q ordered grouprate=1/10s backoff=fixed:1s -> created 1
        enqueue q a group=x ; b group=x      -> a b
        receive q max=9                      -> a
        fail a                               -> ok
        t=1s receive q                       -> - group-rate-limit
        t=10s receive q max=9                -> a@2
        ack a                                -> ok
        receive q                            -> - group-rate-limit
        t=20s receive q                      -> b
        "#,
        &TOKENS_KEPT,
    );
}

#[test]
fn queues_share_what_is_in_flight() {
    check(
        r#"
        t=0 limit stripe inflight=2          -> created
        queue q limits=stripe                -> created 1
        queue r limits=stripe                -> created 1
        enqueue q a ; b ; c                  -> a b c
        enqueue r d ; e                      -> d e
        enqueue other f                      -> f created
        receive q                            -> a
        receive r max=9                      -> d
        receive q                            -> - shared-limit
        receive from=q,r,other strict max=9  -> f
        job b                                -> ready held=shared-limit
        limits                               -> stripe 2/2 q r held
        ack d                                -> ok
        receive q max=9                      -> b
        // Who leaves the limit takes along what is out.
        queue q                              -> 2
        limits                               -> stripe 0/2 r
        receive q                            -> c
        queue q limits=stripe                -> 3
        limits                               -> stripe 3/2 q r held
        receive r                            -> - shared-limit
        limit stripe inflight=4              -> ok
        receive r                            -> e
        "#,
    );
}

#[test]
fn queues_share_a_rate() {
    check_between(
        r#"
        t=0 limit api rate=2/1s              -> created
        limit pool inflight=9                -> created
        queue q limits=pool,api              -> created 1
        queue r limits=api                   -> created 1
        enqueue q a ; b ; c                  -> a b c
        enqueue r d ; e                      -> d e
        receive from=r,q strict max=9        -> d e
        limits                               -> api 2 tokens=0 q r held, pool 0/9 q
        receive q                            -> - shared-limit
        t=499ms receive q                    -> - shared-limit
        t=500ms receive q max=9              -> a
        limits                               -> api 3 tokens=0 q r held, pool 1/9 q
        "#,
        &TOKENS_KEPT,
    );
}

#[test]
fn a_limit_is_there_before_who_names_it_and_after() {
    check(
        r#"
        t=0 queue q limits=stripe            -> ! invalid [0] /limits
        limit stripe inflight=1              -> created
        queue q limits=stripe,stripo         -> ! invalid [0] /limits
        queue q limits=stripe                -> created 1
        unlimit stripe                       -> ! LimitInUse
        unlimit stripo                       -> ! LimitNotFound
        limit stripe inflight=1 file         -> ok
        limit stripe inflight=2              -> ! ManagedByFile
        unlimit stripe                       -> ! ManagedByFile
        delete q                             -> ok
        unlimit stripe file                  -> ok
        limits                               ->
        // The defaults may name one that comes later.
        defaults limits=late                 -> ok
        enqueue r a ; b                      -> a b created
        receive r                            -> a
        limit late inflight=1                -> created
        receive r                            -> - shared-limit
        limits                               -> late 1/1 r held
        defaults                             -> ok
        receive r                            -> b
        unlimit late                         -> ok
        audit                                -> limit-removed limit-put limit-removed queue-deleted limit-put queue-configured limit-put
        "#,
    );
}
