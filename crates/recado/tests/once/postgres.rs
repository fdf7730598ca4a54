//! PostgreSQL, also within the caller's own transaction.

use std::sync::Arc;
use std::time::Duration;

use recado::once::{Begun, OnceError, PostgresStore, Step, Store, in_transaction};
use tokio_postgres::{Client, Config, NoTls};

use super::service::Postgres;
use super::suite::QUEUE;

fn store(address: &str) -> PostgresStore {
    PostgresStore::new(address.parse::<Config>().unwrap())
}

pub(crate) fn connect(address: &str) -> Arc<dyn Store> {
    Arc::new(store(address))
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgresql() {
    let service = Postgres::start();
    let address = service.address();
    store(&address).create_table().await.unwrap();
    store(&address).create_table().await.expect("it is there already");
    let stores: Vec<Arc<dyn Store>> = (0..10).map(|_| connect(&address)).collect();
    super::suite::all(&stores).await;
    super::child::is_killed("postgres", &address, &stores[0]).await;
    rows_whose_time_is_over_go(&address).await;
    a_step_begins_also_while_they_cannot_go(&address).await;
    a_broken_connection_is_made_again(&address).await;
    client(&address).await.batch_execute("CREATE TABLE effects (key text)").await.unwrap();
    effect_and_mark_commit_together(&address).await;
    of_many_transactions_one_has_the_effect(&address).await;
    a_transaction_meets_other_holders(&address).await;
    the_example_charges_once(&address).await;
}

#[allow(dead_code)] // its own beginning
#[path = "../../examples/once_postgres.rs"]
mod example;

async fn the_example_charges_once(address: &str) {
    for _ in 0..2 {
        let said = example::sell(address, "order-42").await.unwrap();
        assert_eq!(said, "order-42: charge 1, receipt for charge 1");
    }
    assert_eq!(count(&client(address).await, "SELECT count(*) FROM charges").await, 1);
}

async fn client(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn count(client: &Client, question: &str) -> i64 {
    client.query_one(question, &[]).await.unwrap().get(0)
}

async fn rows_whose_time_is_over_go(address: &str) {
    let (store, mut client) = (store(address), client(address).await);
    client.batch_execute("TRUNCATE recado_once").await.unwrap();
    for number in 0..30 {
        let step = Step::new(QUEUE, &format!("old-{number}")).keep_for(Duration::from_millis(1));
        let Begun::New { token } = store.begin(&step).await.unwrap() else { panic!("it is new") };
        store.complete(&step, &token, b"1").await.unwrap();
    }
    let old = "SELECT count(*) FROM recado_once WHERE key LIKE 'old-%'";
    let give_up = tokio::time::Instant::now() + Duration::from_secs(60);
    let mut number = 0;
    while count(&client, old).await > 15 {
        assert!(tokio::time::Instant::now() < give_up, "they never went");
        store.begin(&Step::new(QUEUE, &format!("new-{number}"))).await.unwrap();
        number += 1;
    }
    // Also where no step is ever begun outside of a transaction.
    while count(&client, old).await > 0 {
        assert!(tokio::time::Instant::now() < give_up, "they never went");
        let transaction = client.transaction().await.unwrap();
        let step = Step::new(QUEUE, &format!("new-{number}"));
        in_transaction(&transaction, &step, async { Ok::<_, String>(1) }).await.unwrap();
        transaction.commit().await.unwrap();
        number += 1;
    }
}

async fn a_step_begins_also_while_they_cannot_go(address: &str) {
    let (store, client) = (store(address), client(address).await);
    let stuck = "
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
        CREATE TRIGGER refuse BEFORE DELETE ON recado_once FOR EACH ROW EXECUTE FUNCTION refuse();
        INSERT INTO recado_once VALUES ('q', 'stuck', 't', now(), NULL, now())";
    client.batch_execute(stuck).await.unwrap();
    let begun = store.begin(&Step::new(QUEUE, "beside-stuck")).await.unwrap();
    assert!(matches!(begun, Begun::New { .. }), "{begun:?}");
    client.batch_execute("DROP FUNCTION refuse CASCADE").await.unwrap();
}

async fn a_broken_connection_is_made_again(address: &str) {
    let (store, client) = (store(address), client(address).await);
    let step = Step::new(QUEUE, "broken");
    let Begun::New { token } = store.begin(&step).await.unwrap() else { panic!("it is new") };
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
    assert!(count(&client, end).await > 0);
    let give_up = tokio::time::Instant::now() + Duration::from_secs(60);
    while let Err(error) = store.complete(&step, &token, b"1").await {
        assert!(tokio::time::Instant::now() < give_up, "{error}");
    }
    assert_eq!(store.begin(&step).await.unwrap(), Begun::Done { result: "1".into() });
}

async fn effect_and_mark_commit_together(address: &str) {
    let mut client = client(address).await;
    let step = Step::new(QUEUE, "charge");
    for (commits, expected) in [(false, 0), (true, 1), (true, 1)] {
        let transaction = client.transaction().await.unwrap();
        let work = async { transaction.execute("INSERT INTO effects VALUES ('charge')", &[]).await };
        assert_eq!(in_transaction(&transaction, &step, work).await.unwrap(), 1);
        if commits {
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
        assert_eq!(count(&client, "SELECT count(*) FROM effects WHERE key = 'charge'").await, expected);
    }
    // A failure leaves the step free, whether or not the rest is committed.
    let failing = Step::new(QUEUE, "failing");
    for statement in ["SELECT 1", "SELECT 1 / 0"] {
        let transaction = client.transaction().await.unwrap();
        let work = async {
            transaction.batch_execute(statement).await.map_err(|error| error.to_string())?;
            Err::<u8, _>("no paper".to_owned())
        };
        assert!(matches!(in_transaction(&transaction, &failing, work).await, Err(OnceError::Failed(_))));
        let _ = transaction.commit().await;
    }
    let transaction = client.transaction().await.unwrap();
    assert_eq!(in_transaction(&transaction, &failing, async { Ok::<_, String>(3) }).await.unwrap(), 3);
    transaction.commit().await.unwrap();
}

async fn of_many_transactions_one_has_the_effect(address: &str) {
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let address = address.to_owned();
            tokio::spawn(async move {
                let mut client = client(&address).await;
                let transaction = client.transaction().await.unwrap();
                let work = async {
                    let done = transaction.execute("INSERT INTO effects VALUES ('fifty')", &[]).await;
                    done.map(|_| number)
                };
                let result = in_transaction(&transaction, &Step::new(QUEUE, "tx-fifty"), work).await.unwrap();
                transaction.commit().await.unwrap();
                result
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results.dedup();
    assert_eq!(results.len(), 1, "all have the one result");
    assert_eq!(count(&client(address).await, "SELECT count(*) FROM effects WHERE key = 'fifty'").await, 1);
}

async fn a_transaction_meets_other_holders(address: &str) {
    let (mut client, store) = (client(address).await, store(address));
    let step = Step::new(QUEUE, "held");
    let Begun::New { token } = store.begin(&step).await.unwrap() else { panic!("it is new") };
    let transaction = client.transaction().await.unwrap();
    let refused = in_transaction(&transaction, &step, async { Ok::<_, String>(1) }).await;
    assert!(matches!(refused, Err(OnceError::Processing { .. })), "{refused:?}");
    transaction.rollback().await.unwrap();
    store.complete(&step, &token, b"7").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert_eq!(in_transaction(&transaction, &step, async { Ok::<_, String>(1) }).await.unwrap(), 7);
    transaction.commit().await.unwrap();
}
