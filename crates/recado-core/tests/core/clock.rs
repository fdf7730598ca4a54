//! Time: restarts, grace, steps of the wall clock.

use crate::script::check;
use crate::words::Line;
use crate::world::World;

#[test]
fn receipts_settle_after_a_restart() {
    check(
        r#"
        t=0 enqueue q a ; b ; c              -> a b c created
        receive q max=3                      -> a b c
        t=1s restart                         ->
        ack a                                -> ok
        fail b permanent                     -> ok
        extend c                             -> ok until=31s
        restart                              ->
        ack a                                -> ok repeated
        job b                                -> dead 1/1 errors=error
        ack c                                -> ok
        ack c forged                         -> ! stale forged
        "#,
    );
}

#[test]
fn no_lease_ends_before_its_own_timeout_has_passed_in_service() {
    check(
        r#"
        t=0 queue q visibility=10s           -> created 1
        enqueue q a ; b                      -> a b
        receive q                            -> a
        receive q visibility=1h              -> b
        t=9s restart                         ->
        job a                                -> inFlight 1/1 until=19s
        job b                                -> inFlight 1/1 until=1h
        t=19s job a                          -> ready 1/1 errors=visibility-timeout
        t=3599s restart                      ->
        job b                                -> inFlight 1/1 until=3659s
        "#,
    );
}

#[test]
fn a_lease_that_ended_while_the_server_was_down_uses_no_attempt() {
    check(
        r#"
        t=0 queue q visibility=10s attempts=1 -> created 1
        enqueue q a ; b ; c                  -> a b c
        receive q max=3                      -> a b c
        t=1s restart down=1h                 ->
        job a                                -> inFlight 1/1 until=3611s
        ack a                                -> ok
        extend b                             -> ok until=3611s
        t=3611s job c                        -> ready 0/1 errors=interrupted
        job b                                -> dead 1/1 errors=visibility-timeout
        receive q                            -> c
        "#,
    );
}

#[test]
fn a_second_restart_does_not_make_it_a_lapse() {
    check(
        r#"
        t=0 queue q visibility=10s attempts=1 -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        t=1s restart down=1h                 ->
        +1s restart                          ->
        +10s job a                           -> ready 0/1 errors=interrupted
        "#,
    );
}

#[test]
fn a_late_settle_after_down_time_counts() {
    check(
        r#"
        t=0 queue q visibility=10s timeout=20s -> created 1
        enqueue q a ; b                      -> a b
        receive q max=2                      -> a b
        t=1s restart down=1h                 ->
        t=3611s job a                        -> ready 0/1 errors=interrupted
        ack a                                -> ok
        fail b kind=boom                     -> ok
        job b                                -> delayed 1/1 until=3621s errors=interrupted,boom
        "#,
    );
}

#[test]
fn interruptions_are_bounded_by_deliveries() {
    check(
        r#"
        t=0 queue q visibility=1s deliveries=2 -> created 1
        enqueue q a                          -> a
        receive q                            -> a
        restart down=1h                      ->
        +1s receive q                        -> a
        restart down=1h                      ->
        +1s job a                            -> dead 1/2 errors=interrupted,interrupted
        "#,
    );
}

#[test]
fn a_step_of_the_wall_clock_moves_leases_and_backoffs_and_not_run_at() {
    check(
        r#"
        t=0 queue q visibility=10s backoff=fixed:20s -> created 1
        enqueue q a ; b ; c ; d at=2h ; e    -> a b c d e
        receive q max=3                      -> a b c
        fail b                               -> ok
        release c delay=15s                  -> ok
        stepclock 1h                         -> 1h
        job a                                -> inFlight 1/1 until=3610s
        job b                                -> delayed 1/1 until=3620s errors=error
        job c                                -> delayed 0/1 until=3615s errors=snoozed
        job d                                -> delayed until=2h
        +9s job a                            -> inFlight 1/1 until=3610s
        +1s job a                            -> ready 1/1 errors=visibility-timeout
        stepclock -1h                        -> 10s
        job b                                -> delayed 1/1 until=20s errors=error
        job d                                -> delayed until=2h
        t=20s job b                          -> ready 1/1 errors=error
        job c                                -> ready 0/1 errors=snoozed
        receive q max=9                      -> a@2 e c b@2
        "#,
    );
}

#[test]
fn a_step_back_does_not_let_new_jobs_pass_old_ones() {
    check(
        r#"
        t=2h queue q ordered                 -> created 1
        enqueue q a group=g                  -> a
        stepclock -1h                        -> 1h
        enqueue q b group=g                  -> b
        receive q                            -> a
        ack a                                -> ok
        receive q                            -> b
        "#,
    );
}

#[test]
fn a_step_back_does_not_hold_what_waits_for_no_time() {
    check(
        r#"
        t=2h enqueue q a dedup=k:unfinished  -> a created
        receive q                            -> a
        enqueue q b dedup=k:unfinished:replace -> b(behind a)
        stepclock -1h                        -> 1h
        ack a                                -> ok
        job b                                -> ready
        receive q                            -> b
        "#,
    );
}

#[test]
fn a_step_back_does_not_keep_dead_jobs_from_a_replay() {
    check(
        r#"
        t=2h enqueue q a ; b                 -> a b created
        receive q max=2                      -> a b
        fail a permanent                     -> ok
        fail b permanent                     -> ok
        stepclock -1h                        -> 1h
        replay q type=mail.send              -> task 1 completed 2/2
        receive q max=2                      -> a b
        "#,
    );
}

#[test]
fn no_fencing_token_is_given_twice_though_receives_were_forgotten() {
    let mut world = World::new(2);
    let job = crate::words::new_job(Line::parse("a"));
    let enqueue = recado_core::Enqueue { queue: "q".into(), create: true, jobs: vec![job], ..Default::default() };
    world.act(&recado_core::Command::Enqueue(enqueue)).unwrap();
    world.close();
    let receive = recado_core::Receive { queues: vec![("q".into(), 1)], max: 1, max_bytes: 1, ..Default::default() };
    let written = world.log.len();
    let first = world.receive(&receive).unwrap().0.remove(0);
    // A power loss takes the receive, which need not be synced; the world checks that tokens grow.
    world.close();
    world.log.truncate(written);
    world.restart(10);
    let second = world.receive(&receive).unwrap().0.remove(0);
    assert!(second.id == first.id && second.fence > first.fence);
    let outcome = recado_core::Outcome::Ack { result: None };
    let settle = recado_core::Settle { job: None, receipt: first.receipt.as_str().into(), outcome };
    assert!(world.act(&recado_core::Command::Settle(settle)).is_err(), "the forgotten receipt is refused");
}

#[test]
fn fencing_tokens_grow_with_every_delivery_and_across_restarts() {
    let mut world = World::new(1);
    let job = crate::words::new_job(Line::parse("a"));
    let enqueue = recado_core::Enqueue { queue: "q".into(), create: true, jobs: vec![job], ..Default::default() };
    world.act(&recado_core::Command::Enqueue(enqueue)).unwrap();
    let receive = recado_core::Receive { queues: vec![("q".into(), 1)], max: 1, max_bytes: 1, ..Default::default() };
    let mut last = 0;
    for round in 0..20 {
        let (given, _) = world.receive(&receive).unwrap();
        assert!(given[0].fence > last && given[0].fence < 1 << 53, "round {round}");
        last = given[0].fence;
        let outcome = recado_core::Outcome::Release { delay_ms: None, reason: None };
        let settle = recado_core::Settle { job: None, receipt: given[0].receipt.as_str().into(), outcome };
        world.act(&recado_core::Command::Settle(settle)).unwrap();
        if round % 3 == 0 {
            world.restart(5);
        }
        if round % 4 == 0 {
            world.copy_all();
        }
    }
}
