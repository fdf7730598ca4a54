//! Charges an order once, whoever asks and however often: the charge and the mark that it was made are committed by
//! one transaction of PostgreSQL. The receipt goes out by a provider that no transaction reaches: a step of its own,
//! known in the same database.
//!
//! ```sh
//! cargo run -p recado --features postgres --example once_postgres -- "host=/var/run/postgresql user=me dbname=shop"
//! ```

use std::sync::Arc;

use recado::BoxError;
use recado::once::{Once, PostgresStore, Step, Store, in_transaction};
use tokio_postgres::{Client, Config, NoTls};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let database = std::env::args().nth(1).ok_or("say which database, as in \"host=localhost user=me dbname=shop\"")?;
    for _ in 0..2 {
        println!("{}", sell(&database, "order-42").await?);
    }
    Ok(())
}

/// Charges the order and sends its receipt. The second call finds both done.
pub(crate) async fn sell(database: &str, order: &str) -> Result<String, BoxError> {
    let config: Config = database.parse()?;
    let (mut client, connection) = config.connect(NoTls).await?;
    let driver = tokio::spawn(connection);
    let store = Arc::new(PostgresStore::new(config));
    store.create_table().await?;
    client.batch_execute("CREATE TABLE IF NOT EXISTS charges (id bigserial, order_id text)").await?;
    let charge = charge(&mut client, order).await?;
    let receipt = send_receipt(store, order, charge).await?;
    drop(client);
    driver.await??;
    Ok(format!("{order}: charge {charge}, receipt {receipt}"))
}

async fn charge(client: &mut Client, order: &str) -> Result<i64, BoxError> {
    let transaction = client.transaction().await?;
    let step = Step::new("shop", &format!("charge {order}"));
    let insert = async {
        let row = transaction.query_one("INSERT INTO charges (order_id) VALUES ($1) RETURNING id", &[&order]).await?;
        row.try_get::<_, i64>(0)
    };
    let charge = in_transaction(&transaction, &step, insert).await?;
    transaction.commit().await?;
    Ok(charge)
}

async fn send_receipt(store: Arc<dyn Store>, order: &str, charge: i64) -> Result<String, BoxError> {
    let step = Step::new("shop", &format!("receipt {order}"));
    let send = async {
        // Here the provider is called. A crash between its answer and the end of this block sends a second receipt,
        // so hand the provider a key too, if it takes one.
        Ok::<_, BoxError>(format!("for charge {charge}"))
    };
    Ok(Once::in_store(store, step, send).await?)
}
