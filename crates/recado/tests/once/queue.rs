//! The queue itself, in this process and on a server.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use recado::once::{OnceError, Store};
use recado::{Error, Job, Recado};
use serde::{Deserialize, Serialize};

use super::suite::QUEUE;
use crate::support::{options, serve};

#[derive(Serialize, Deserialize)]
struct Anything;

impl Job for Anything {
    const NAME: &'static str = "anything";
    const QUEUE: &'static str = QUEUE;
    type Output = ();
}

pub(crate) async fn embedded(dir: &Path) -> Recado {
    Recado::open_with(dir, options()).await.unwrap()
}

/// A directory with a queue in it.
async fn with_queue(dir: &Path) -> Recado {
    let queue = embedded(dir).await;
    queue.enqueue(Anything).await.unwrap();
    queue
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Store> {
    Recado::connect(url).await.unwrap().once_store()
}

#[tokio::test(flavor = "multi_thread")]
async fn in_an_embedded_queue() {
    let dir = tempfile::tempdir().unwrap();
    let queue = with_queue(dir.path()).await;
    super::suite::all(&[queue.once_store()]).await;
    queue.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_server() {
    let dir = tempfile::tempdir().unwrap();
    with_queue(dir.path()).await.close().await.unwrap();
    let running = serve(dir.path()).await;
    let url = format!("http://{}", running.local_addr());
    let mut stores = Vec::new();
    for _ in 0..5 {
        stores.push(connect(&url).await);
    }
    super::suite::all(&stores).await;
    super::child::is_killed("queue", &url, &stores[0]).await;
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_outlives_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let done = AtomicUsize::new(0);
    for _ in 0..3 {
        let queue = with_queue(dir.path()).await;
        let work = async {
            done.fetch_add(1, Ordering::SeqCst);
            Ok::<_, String>(vec![1, 2])
        };
        assert_eq!(queue.once(QUEUE, "k", Duration::from_secs(3_600), work).await.unwrap(), [1, 2]);
        queue.close().await.unwrap();
    }
    assert_eq!(done.into_inner(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_not_there_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let queue = with_queue(dir.path()).await;
    let refused = queue.once("step", "k", Duration::from_secs(1), async { Ok::<_, String>(1) }).await;
    let Err(OnceError::NotBegun(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.downcast_ref::<Error>().and_then(Error::code), Some("not-found"), "{error}");
    queue.close().await.unwrap();
}
