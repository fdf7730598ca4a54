//! Jobs that wait for others: children and batches.

use crate::script::{Between, Play, check};

#[test]
fn a_parent_runs_once_after_its_children_and_reads_their_results() {
    check(
        r#"
        t=0 enqueue q p > c1 > c2 queue=r    -> p(c1 c2) created
        job p                                -> blocked held=children-pending children=0+0/2
        job c1                               -> ready of=p
        jobs r                               -> c2
        stats q                              -> ready=1 blocked=1
        receive q max=9                      -> c1
        ack c1 41                            -> ok
        job p                                -> blocked held=children-pending children=1+0/2
        children p                           -> c1:completed=41 c2:ready
        receive r                            -> c2
        +1s ack c2 42                        -> ok
        ack c2 42                            -> ok repeated
        job p                                -> ready children=2+0/2
        restart                              ->
        receive q max=9                      -> p
        children p                           -> c1:completed=41 c2:completed=42
        ack p                                -> ok
        job p                                -> completed 1/1 children=2+0/2
        children p                           ->
        job c1                               -> completed 1/1 result=41
        "#,
    );
}

#[test]
fn a_settle_lets_the_parent_go_before_the_next_tick() {
    check(
        r#"
        t=0 enqueue q p > c                  -> p(c) created
        receive q                            -> c
        ticks off                            ->
        ack c                                -> ok
        receive q                            -> p
        ack p                                -> ok
        enqueue q s > d >> e                 -> s(d(e))
        receive q                            -> e
        fail e permanent                     -> ok
        job d                                -> blocked held=children-pending children=0+1/1 of=s
        ticks on                             ->
        job s                                -> dead errors=child-dead children=0+1/1
        "#,
    );
}

#[test]
fn a_parent_takes_its_place_when_it_is_let_go() {
    check(
        r#"
        t=0 enqueue q p > c                  -> p(c) created
        enqueue q d delay=1h > e             -> d(e)
        +1s enqueue q a                      -> a
        receive q max=2                      -> c e
        +1s ack c                            -> ok
        ack e                                -> ok
        receive q max=9                      -> a p
        ack a                                -> ok
        ack p                                -> ok
        job d                                -> delayed until=1h children=1+0/1
        t=1h receive q                       -> d
        "#,
    );
}

#[test]
fn a_dead_child_is_the_end_of_its_parent_or_is_not() {
    check(
        r#"
        t=0 queue q attempts=1               -> created 1
        enqueue q p > c1 > c2                -> p(c1 c2)
        enqueue q s continue > d1 > d2       -> s(d1 d2)
        receive q max=9                      -> c1 c2 d1 d2
        fail c1                              -> ok
        job p                                -> dead errors=child-dead children=0+1/2
        ack c2 7                             -> ok
        children p                           -> c1:dead c2:completed=7
        fail d1                              -> ok
        job s                                -> blocked held=children-pending children=0+1/2
        ack d2                               -> ok
        receive q max=9                      -> s
        children s                           -> d1:dead d2:completed
        stats q                              -> inFlight=1 dead=3 completed=2
        "#,
    );
}

#[test]
fn cancelled_expired_and_purged_children_count_as_dead() {
    check(
        r#"
        t=0 enqueue q a > a1                 -> a(a1) created
        enqueue q b > b1 expires=5s          -> b(b1)
        enqueue q c > c1 queue=r             -> c(c1)
        enqueue q d > d1 queue=s             -> d(d1)
        enqueue q e continue > e1 > e2 expires=5s > e3 queue=r > e4 -> e(e1 e2 e3 e4)
        cancel a1                            -> a1 cancelled
        cancel e1                            -> e1 cancelled
        job a                                -> dead errors=child-dead children=0+1/1
        purge r                              -> task 1 completed 2/2
        job c                                -> dead errors=child-dead children=0+1/1
        delete s force                       -> task 2 running 0/0
        job d                                -> dead errors=child-dead children=0+1/1
        +5s job b                            -> dead errors=child-dead children=0+1/1
        job e                                -> blocked held=children-pending children=0+3/4
        receive q                            -> e4
        ack e4 1                             -> ok
        children e                           -> e1:cancelled e2:expired e3:purged e4:completed=1
        receive q                            -> e
        "#,
    );
}

#[test]
fn a_dead_child_that_completes_after_all_is_taken_for_completed() {
    check(
        r#"
        t=0 queue q attempts=1 visibility=10s -> created 1
        enqueue q p > c                      -> p(c)
        enqueue q s continue > d > e         -> s(d e)
        receive q max=9                      -> c d e
        fail c                               -> ok
        job p                                -> dead errors=child-dead children=0+1/1
        +10s job d                           -> dead 1/1 errors=visibility-timeout of=s
        job s                                -> ready children=0+2/2
        ack d 5                              -> ok
        children s                           -> d:completed=5 e:dead
        replay q ids=c                       -> task 1 completed 1/1
        receive q max=9                      -> c s
        ack c 6                              -> ok
        job p                                -> dead errors=child-dead children=1+0/1
        replay q ids=p                       -> task 2 completed 1/1
        receive q                            -> p
        children p                           -> c:completed=6
        "#,
    );
}

#[test]
fn children_have_children_and_a_death_goes_up() {
    check(
        r#"
        t=0 queue q attempts=1               -> created 1
        enqueue q p > c >> g >> h > d        -> p(c(g h) d)
        job c                                -> blocked held=children-pending children=0+0/2 of=p
        receive q max=9                      -> g h d
        ack g 1                              -> ok
        ack h 2                              -> ok
        ack d 3                              -> ok
        job p                                -> blocked held=children-pending children=1+0/2
        receive q                            -> c
        children c                           -> g:completed=1 h:completed=2
        ack c 4                              -> ok
        receive q                            -> p
        children p                           -> c:completed=4 d:completed=3
        enqueue q s > t >> u                 -> s(t(u))
        receive q                            -> u
        fail u                               -> ok
        job t                                -> dead errors=child-dead children=0+1/1 of=s
        job s                                -> dead errors=child-dead children=0+1/1
        "#,
    );
}

#[test]
fn children_go_on_without_a_parent() {
    check(
        r#"
        t=0 enqueue q p > c1 > c2            -> p(c1 c2) created
        receive q                            -> c1
        cancel p                             -> p cancelled
        job p                                -> cancelled errors=cancelled children=0+0/2
        job c1                               -> inFlight 1/1 until=30s
        ack c1                               -> ok
        receive q                            -> c2
        ack c2                               -> ok
        receive q                            -> -
        enqueue q s > d                      -> s(d)
        purge q states=blocked               -> task 1 completed 1/1
        job s                                -> ! gone
        receive q                            -> d
        ack d                                -> ok
        "#,
    );
}

#[test]
fn a_child_that_its_idempotency_key_completes_leaves_the_saved_result() {
    check(
        r#"
        t=0 enqueue q a key=k                -> a created
        receive q                            -> a
        ack a 42                             -> ok
        enqueue q p key=n > c key=k          -> p(c)
        job c                                -> completed result=42 of=p
        receive q                            -> p
        children p                           -> c:completed=42
        ack p 43                             -> ok
        enqueue q s key=n > d                -> s(d)
        receive q                            -> d
        ack d                                -> ok
        job s                                -> completed result=43 children=1+0/1
        "#,
    );
}

#[test]
fn a_duplicate_parent_brings_no_children() {
    check(
        r#"
        t=0 enqueue q p dedup=k:1h > c       -> p(c) created
        enqueue q s dedup=k:1h > d           -> dup(p differs blocked)
        stats q                              -> ready=1 blocked=1
        enqueue q s dedup=k:1h:replace       -> dup(p differs blocked)
        job p                                -> blocked held=children-pending payload="s" children=0+0/1
        enqueue q s dedup=k:1h:replace > d   -> ! invalid [0] /dedup/onDuplicate
        enqueue q s > d dedup=k:1h           -> ! invalid [0] /children/0/dedup
        queue r maxsize=5                    -> created 1
        enqueue q s > d queue=r payload="12345" > e queue=r payload="123456" -> ! too-large [0] 6/5
        enqueue q s nocreate > d queue=missing -> ! not-found
        "#,
    );
}

#[test]
fn a_batch_ends_once_whatever_became_of_its_jobs() {
    check(
        r#"
        t=0 queue q attempts=1               -> created 1
        enqueue q a batch=b:last@r ; c batch=b ; d -> a c d
        job last                             -> blocked held=children-pending children=0+0/2
        job a                                -> ready of=last
        jobs r                               -> last
        receive q max=9                      -> a c d
        ack a 1                              -> ok
        // A job of the batch may add to it: it is open as long as that job is.
        enqueue q e batch=b:other            -> e
        fail c                               -> ok
        job last                             -> blocked held=children-pending children=1+1/3
        receive r                            -> - children-pending
        receive q                            -> e
        ack e                                -> ok
        receive r max=9                      -> last
        children last                        ->
        ack last                             -> ok
        job last                             -> completed 1/1 children=2+1/3
        receive r                            -> -
        enqueue q f batch=b                  -> ! invalid [0] /batch/onComplete
        enqueue q f batch=b:end              -> f
        job end                              -> blocked held=children-pending children=0+0/1
        "#,
    );
}

#[test]
fn what_ends_a_batch_can_be_cancelled_and_its_id_is_free_then() {
    check(
        r#"
        t=0 enqueue q a batch=b:last         -> a created
        cancel last                          -> last cancelled
        receive q                            -> a
        enqueue q c batch=b:next             -> c
        ack a                                -> ok
        job last                             -> cancelled errors=cancelled children=0+0/1
        job next                             -> blocked held=children-pending children=0+0/1
        receive q                            -> c
        ack c                                -> ok
        receive q                            -> next
        enqueue q x > y batch=b:z >> w       -> ! invalid [0] /children/0/batch
        enqueue q x batch=n:z dedup=k:1h     -> ! invalid [0] /dedup
        "#,
    );
}

#[test]
fn a_child_that_a_redrive_policy_hands_off_counts_as_dead() {
    check(
        r#"
        t=0 queue dlq                        -> created 1
        queue q redrive=dlq:1                -> created 1
        enqueue q p continue > c             -> p(c)
        receive q                            -> c
        fail c                               -> ok
        job p                                -> ready children=0+1/1
        receive q                            -> p
        receive dlq                          -> c
        ack c 1                              -> ok
        children p                           -> c:completed=1
        "#,
    );
}

#[test]
fn a_parent_that_is_not_known_yet_learns_from_its_copy() {
    // The log is trimmed below what began the family, one item after the other, while it goes on.
    for max in 1..4 {
        let mut play = Play::new(Between::Nothing);
        for line in [
            "queue q keep=0s",
            "enqueue q p continue > c1 > c2 > c3 > c4 expires=5s",
            "receive q max=2",
            "ack c1 1",
            "ack c2 2",
            "receive q",
            "ack c3 3",
            "+5s job c4",
            "receive q",
        ] {
            play.line(line);
            play.world.copy(max);
            play.world.trim();
            play.world.check_replay();
            play.world.swap();
        }
        assert_eq!(play.line("children p"), "c1:completed=1 c2:completed=2 c3:completed=3 c4:expired");
    }
}
