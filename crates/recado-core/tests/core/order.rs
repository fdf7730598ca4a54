//! Which job comes next: time, priority, groups, types, limits.

use crate::script::{Between, check, check_between};

#[test]
fn first_in_first_out_within_a_priority() {
    check(
        r#"
        t=0 enqueue q a ; b type=other ; c v=7 -> a b c created
        +1ms enqueue q d type=other ; e      -> d e
        receive q max=10                     -> a b c d e
        "#,
    );
}

#[test]
fn higher_priority_first() {
    check(
        r#"
        t=0 enqueue q a ; b p=3 ; c p=255    -> a b c created
        enqueue q d p=3 type=other           -> d
        receive q max=10                     -> c b d a
        "#,
    );
}

#[test]
fn delayed_jobs_take_their_place_when_due() {
    check(
        r#"
        t=0 enqueue q a delay=10s ; b at=5s ; c -> a b c created
        job a                                -> delayed until=10s
        job b                                -> delayed until=5s
        receive q                            -> c
        receive q                            -> -
        t=7s enqueue q d                     -> d
        t=10s enqueue q e                    -> e
        receive q max=9                      -> b d a e
        t=20s enqueue q f at=5s              -> f
        job f                                -> ready
        "#,
    );
}

#[test]
fn a_waiting_job_can_be_changed() {
    check(
        r#"
        t=0 queue q maxsize=5                -> created 1
        enqueue q a ; b ; c delay=1m         -> a b c
        patch b p=9                          -> ok
        patch c delay=0s payload=new         -> ok
        job c                                -> ready payload=new
        patch a payload=123456               -> ! too-large [0] 6/5
        receive q max=2                      -> b a
        patch b p=1                          -> ! not-waiting inFlight
        patch c at=5s                        -> ok
        job c                                -> delayed until=5s payload=new
        patch c payload=newer                -> ok
        job c                                -> delayed until=5s payload=newer
        fail b after=10s                     -> ok
        patch b payload=n                    -> ok
        job b                                -> delayed 1/1 until=10s p=9 errors=error payload=n
        ack a                                -> ok
        patch a p=1                          -> ! not-waiting completed
        t=10s receive q max=2                -> b@2 c
        "#,
    );
}

#[test]
fn a_worker_gets_what_it_declares() {
    check(
        r#"
        t=0 enqueue q a type=mail ; b type=mail v=2 ; c type=image ; d type=mail v=3 -> a b c d created
        receive q max=9 types=mail@2 worker=w -> b
        job a                                -> ready held=no-capable-worker
        receive q max=9 types=mail@2 worker=w -> - no-capable-worker
        receive q max=9 types=image,mail@3-5 worker=v -> c d
        job a                                -> ready held=no-capable-worker
        receive q max=9 types=mail worker=v  -> a
        receive q types=mail worker=v        -> -
        enqueue q e type=mail v=5 ; f type=mail v=6 ; g type=mail v=2 -> e f g
        receive q max=9 types=mail@3-5 worker=v -> e
        "#,
    );
}

#[test]
fn limits_in_flight() {
    check(
        r#"
        t=0 queue q inflight=2 visibility=10s -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q max=9                      -> a b
        receive q                            -> - queue-in-flight-limit
        job c                                -> ready held=queue-in-flight-limit
        ack a                                -> ok
        receive q max=9                      -> c
        release b                            -> ok
        receive q max=9                      -> b
        +10s receive q max=9                 -> b@2 c@2
        "#,
    );
}

#[test]
fn limits_in_flight_of_a_group() {
    check_between(
        r#"
        t=0 queue q groupmax=2               -> created 1
        enqueue q a group=g ; b group=g ; c group=g ; d group=h ; e ; f ; h -> a b c d e f h
        receive q max=9                      -> a d e b f h
        receive q                            -> - group-in-flight-limit
        job c                                -> ready held=group-in-flight-limit
        ack b                                -> ok
        receive q max=9                      -> c
        "#,
        &[Between::Nothing],
    );
}

#[test]
fn groups_take_turns() {
    check_between(
        r#"
        t=0 enqueue q a1 group=a ; a2 group=a ; a3 group=a ; a4 group=a -> a1 a2 a3 a4 created
        enqueue q b1 group=b ; b2 group=b ; n1 ; n2 -> b1 b2 n1 n2
        receive q max=3                      -> a1 b1 n1
        enqueue q c1 group=c                 -> c1
        receive q max=9                      -> a2 b2 n2 c1 a3 a4
        "#,
        &[Between::Nothing],
    );
}

#[test]
fn without_turns_groups_are_served_in_the_order_of_their_jobs() {
    check(
        r#"
        t=0 queue q unfair                   -> created 1
        enqueue q a1 group=a ; a2 group=a ; b1 group=b ; n1 ; a3 group=a -> a1 a2 b1 n1 a3
        receive q max=9                      -> a1 a2 b1 n1 a3
        "#,
    );
}

#[test]
fn an_ordered_group_gives_one_job_at_a_time() {
    check(
        r#"
        t=0 queue q ordered backoff=fixed:5s visibility=10s -> created 1
        enqueue q a1 group=a ; a2 group=a type=other ; a3 group=a ; b1 group=b -> a1 a2 a3 b1
        receive q max=9                      -> a1 b1
        job a2                               -> ready held=group-order
        receive q                            -> - group-order
        fail a1                              -> ok
        receive q                            -> - group-order
        +5s receive q max=9                  -> a1@2
        release a1                           -> ok
        receive q max=9                      -> a1@2
        release a1 delay=3s                  -> ok
        receive q max=9                      -> - group-order
        +3s receive q max=9                  -> a1@2
        "#,
    );
}

#[test]
fn an_ordered_group_goes_on_when_its_head_ends() {
    check(
        r#"
        t=0 queue q ordered visibility=10s   -> created 1
        enqueue q a ; b ; c ; d expires=1m ; e ; f -> a b c d e f
        enqueue q a1 group=g ; a2 group=g ; a3 group=g ; a4 group=g expires=1m ; a5 group=g ; a6 group=g -> a1 a2 a3 a4 a5 a6
        receive q types=none                 -> - no-capable-worker
        purge q states=ready                 -> task 1 completed 12/12
        enqueue q b1 group=g ; b2 group=g ; b3 group=g ; b4 group=g expires=1m ; b5 group=g ; b6 group=g -> b1 b2 b3 b4 b5 b6
        receive q max=2                      -> b1
        ack b1                               -> ok
        receive q max=2                      -> b2
        fail b2 permanent                    -> ok
        receive q max=2                      -> b3
        cancel b3                            -> b3 requested
        fail b3                              -> ok cancel-requested
        receive q max=2                      -> b4
        fail b4 after=2m                     -> ok
        receive q max=2                      -> - group-order
        +1m job b4                           -> expired 1/1 errors=error,expired
        receive q max=2                      -> b5
        +10s receive q max=2                 -> b5@2
        cancel b6                            -> b6 cancelled
        "#,
    );
}

#[test]
fn a_dead_head_lets_the_group_go_on_or_blocks_it() {
    check(
        r#"
        t=0 queue q ordered ondead-block     -> created 1
        enqueue q a1 group=a ; a2 group=a ; b1 group=b ; b2 group=b -> a1 a2 b1 b2
        receive q max=9                      -> a1 b1
        fail a1 permanent                    -> ok
        fail b1 permanent                    -> ok
        receive q max=9                      -> - group-order
        +1ms discard q ids=b1 reason=known   -> task 1 completed 1/1
        receive q max=9                      -> b2
        replay q ids=a1                      -> task 2 completed 1/1
        receive q max=9                      -> a2
        ack a2                               -> ok
        receive q max=9                      -> a1
        "#,
    );
}

#[test]
fn a_replayed_job_goes_to_the_end_of_its_group() {
    check(
        r#"
        t=0 queue q ordered                  -> created 1
        enqueue q a1 group=a ; a2 group=a ; a3 group=a -> a1 a2 a3
        receive q                            -> a1
        fail a1 permanent                    -> ok
        receive q                            -> a2
        +1ms replay q ids=a1                 -> task 1 completed 1/1
        receive q                            -> - group-order
        ack a2                               -> ok
        receive q                            -> a3
        ack a3                               -> ok
        receive q                            -> a1
        "#,
    );
}

#[test]
fn a_late_ack_of_a_lapsed_head_frees_its_group() {
    check(
        r#"
        t=0 queue q ordered visibility=10s   -> created 1
        enqueue q a1 group=a ; a2 group=a    -> a1 a2
        receive q max=2                      -> a1
        +10s job a1                          -> ready 1/1 errors=visibility-timeout
        job a2                               -> ready held=group-order
        ack a1                               -> ok
        receive q max=2                      -> a2
        "#,
    );
}

#[test]
fn a_delayed_job_of_an_ordered_group_takes_its_place_when_due() {
    check(
        r#"
        t=0 queue q ordered                  -> created 1
        enqueue q a1 group=a delay=5s ; a2 group=a -> a1 a2
        receive q                            -> a2
        t=5s receive q                       -> - group-order
        t=6s enqueue q a3 group=a            -> a3
        ack a2                               -> ok
        receive q                            -> a1
        "#,
    );
}

#[test]
fn an_ordered_queue_knows_no_priority_and_waits_for_a_held_head() {
    check(
        r#"
        t=0 queue q ordered                  -> created 1
        enqueue q a ; b p=1                  -> ! invalid [1] /priority
        enqueue q a1 group=a key=k ; b1 group=b key=k ; b2 group=b -> a1 b1 b2
        patch a1 p=1                         -> ! invalid [0] /priority
        receive q max=9                      -> a1
        receive q max=9                      -> - group-order
        job b1                               -> ready held=idempotency-key-in-flight
        ack a1 done                          -> ok
        job b1                               -> completed result=done
        receive q max=9                      -> b2
        "#,
    );
}

#[test]
fn a_queue_can_become_ordered_and_stop_being_it() {
    check(
        r#"
        t=0 queue q                          -> created 1
        enqueue q a1 group=a ; a2 group=a ; a3 group=a -> a1 a2 a3
        receive q                            -> a1
        queue q ordered                      -> 2
        receive q                            -> - group-order
        fail a1                              -> ok
        // It was received when nothing was ordered, so its backoff does not hold the group.
        receive q                            -> a2
        fail a2                              -> ok
        receive q                            -> - group-order
        queue q                              -> 3
        receive q max=9                      -> a3
        "#,
    );
}

#[test]
fn several_queues_in_strict_order() {
    check(
        r#"
        t=0 enqueue low a ; b                -> a b created
        enqueue high c ; d                   -> c d created
        receive from=high,low strict max=3   -> c d a
        receive from=high,low strict max=3   -> b
        receive from=new,low strict          -> -
        receive from=nowhere nocreate        -> ! not-found
        receive from=hihg nocreate           -> ! not-found nearest=high
        "#,
    );
}

#[test]
fn a_receive_stops_before_its_bytes_but_gives_one() {
    check(
        r#"
        t=0 enqueue q a payload=1234567890 ; b payload=1234567890 ; c payload=1 ; d payload=1 -> a b c d created
        receive q max=9 bytes=5              -> a
        receive q max=9 bytes=11             -> b c
        receive q max=9 bytes=11             -> d
        "#,
    );
}

#[test]
fn a_repeated_receive_gets_the_same_answer_until_it_is_settled() {
    check(
        r#"
        t=0 queue q visibility=20m           -> created 1
        enqueue q a ; b ; c ; d ; e          -> a b c d e
        receive q max=2 attempt=x            -> a b
        +4m receive q max=2 attempt=x        -> a(again) b(again)
        job a                                -> inFlight 1/1 until=24m
        receive q attempt=y                  -> c
        extend a                             -> ok until=24m
        receive q attempt=x                  -> d
        +299999ms receive q attempt=y        -> c(again)
        +1ms receive q attempt=y             -> e
        receive q attempt=y                  -> e(again)
        ack e                                -> ok
        receive q attempt=y                  -> -
        "#,
    );
}

#[test]
fn lanes_have_a_limit() {
    let mut script = "t=0 enqueue q j0 type=t0 -> j0 created\n".to_owned();
    for batch in 0..8 {
        let from = batch * 128;
        let jobs: Vec<String> = (from..from + 128).filter(|n| *n > 0).map(|n| format!("j{n} type=t{n}")).collect();
        let names: Vec<String> = (from..from + 128).filter(|n| *n > 0).map(|n| format!("j{n}")).collect();
        script += &format!("enqueue q {} -> {}\n", jobs.join(" ; "), names.join(" "));
    }
    script += r#"
        enqueue q x type=t1024               -> ! full lanes 1025/1024
        enqueue q x type=t5 p=1              -> ! full lanes 1025/1024
        enqueue q x type=t5 v=2              -> ! full lanes 1025/1024
        patch j5 p=1                         -> ! full lanes 1025/1024
        enqueue q y type=t5                  -> y
        receive q max=1 types=t0             -> j0
        enqueue q x type=t1024               -> ! full lanes 1025/1024
        ack j0                               -> ok
        enqueue q x type=t1024               -> x
        enqueue q z type=t0                  -> ! full lanes 1025/1024
        receive q max=1 types=t1             -> j1
        fail j1 permanent                    -> ok
        enqueue q z type=t0                  -> ! full lanes 1025/1024
        job j0                               -> completed 1/1
    "#;
    check_between(&script, &[Between::Nothing]);
}

#[test]
fn what_is_due_is_handed_out_before_its_timer() {
    check(
        r#"
        t=0 queue q keep=1s backoff=fixed:5s -> created 1
        enqueue q a delay=5s ; b ; c expires=3s ; d -> a b c d
        receive q                            -> b
        fail b                               -> ok
        receive q max=1                      -> c
        ack c                                -> ok
        enqueue q e expires=3s               -> e
        ticks off                            ->
        t=5s receive q max=9                 -> d a b@2
        job e                                -> expired errors=expired
        "#,
    );
}
