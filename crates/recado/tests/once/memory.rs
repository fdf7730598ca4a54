//! In memory.

use std::sync::Arc;

use recado::once::{MemoryStore, Store};

#[tokio::test(flavor = "multi_thread")]
async fn in_memory() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    super::suite::all(&[store]).await;
}
