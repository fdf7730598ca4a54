//! Redis.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionManager;
use recado::once::{Once, RedisStore, Step, Store};

use super::service::Redis;
use super::suite::QUEUE;

/// Connects as soon as the service is there.
async fn manager(url: &str) -> ConnectionManager {
    let client = ::redis::Client::open(url).unwrap();
    let give_up = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match client.get_connection_manager().await {
            Ok(manager) => return manager,
            Err(error) => assert!(tokio::time::Instant::now() < give_up, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Store> {
    Arc::new(RedisStore::new(manager(url).await))
}

#[tokio::test(flavor = "multi_thread")]
async fn in_redis() {
    let service = Redis::start();
    let url = service.url();
    let mut stores = Vec::new();
    for _ in 0..10 {
        stores.push(connect(&url).await);
    }
    super::suite::all(&stores).await;
    super::child::is_killed("redis", &url, &stores[0]).await;
    a_key_that_redis_loses_is_a_step_never_done(&url).await;
}

/// What the documentation says Redis does not promise.
async fn a_key_that_redis_loses_is_a_step_never_done(url: &str) {
    let mut connection = manager(url).await;
    let store: Arc<dyn Store> = Arc::new(RedisStore::new(connection.clone()).prefix("mine:"));
    let once = |value: u8| {
        let work = async move { Ok::<_, String>(value) };
        Once::in_store(Arc::clone(&store), Step::new(QUEUE, "lost"), work).into_future()
    };
    assert_eq!(once(1).await.unwrap(), 1);
    let deleted: u64 =
        ::redis::cmd("DEL").arg(format!("mine:{QUEUE}/lost")).query_async(&mut connection).await.unwrap();
    assert_eq!(deleted, 1);
    assert_eq!(once(2).await.unwrap(), 2);
}
