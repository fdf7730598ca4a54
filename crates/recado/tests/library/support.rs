//! A queue to test with, embedded or on a server, and jobs.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use recado::{Backoff, Job, JobOptions, OpenOptions, Recado};
use recado_core::QueueOptions;
use recado_server::Running;
use recado_shard::FileOptions;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// A test that takes so long hangs.
const HANGS: Duration = Duration::from_secs(300);

/// Runs each test over both.
macro_rules! over_both {
    ($($test:ident)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::support::ends(async {
                    super::$test(crate::support::World::embedded().await).await;
                }).await;
            })*
        }
        mod remote {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                crate::support::ends(async {
                    super::$test(crate::support::World::remote().await).await;
                }).await;
            })*
        }
    };
}

/// Where the queue is.
pub(crate) enum Place {
    Dir(PathBuf),
    Url(String),
}

pub(crate) struct World {
    pub(crate) recado: Recado,
    server: Option<Running>,
    pub(crate) dir: TempDir,
}

const SEGMENT_BYTES: u64 = 4 << 20;

pub(crate) fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    // Tests do not cut the power; what the log promises then is tested there.
    (options.is_power_safe, options.segment_bytes) = (false, SEGMENT_BYTES);
    options
}

/// A server on a port that the system picks.
pub(crate) async fn serve(dir: &Path) -> Running {
    let file = FileOptions {
        segment_bytes: SEGMENT_BYTES,
        batch_bytes_max: SEGMENT_BYTES as usize / 2,
        ..FileOptions::default()
    };
    let made = dir.to_path_buf();
    // A log keeps the size of segment it was made with.
    let make = move || {
        let options =
            recado_shard::Options::new(|patch, payload, _| recado_server::merge_patch(patch, payload)).unwrap();
        recado_shard::start_file(&made, &file, options).unwrap().stop().unwrap();
    };
    tokio::task::spawn_blocking(make).await.unwrap();
    let config = recado_server::Config {
        data_dir: dir.to_path_buf(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        durability: recado_log::Durability::Os,
        payload_cache_bytes: 1 << 20,
        memory_bytes: 64 << 20,
        public_url: None,
        insecure_no_auth: false,
        auto_create_queues: true,
        defaults: QueueOptions::default(),
        queues: BTreeMap::new(),
        sqs: recado_server::SqsConfig::default(),
        limits: BTreeMap::new(),
        types: BTreeMap::new(),
        schedules: BTreeMap::new(),
    };
    recado_server::start(config).await.unwrap()
}

impl World {
    pub(crate) async fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let recado = Recado::open_with(dir.path(), options()).await.unwrap();
        Self { recado, server: None, dir }
    }

    pub(crate) async fn remote() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = serve(dir.path()).await;
        let recado = Recado::connect(&format!("http://{}", server.local_addr())).await.unwrap();
        Self { recado, server: Some(server), dir }
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Running::local_addr)
    }

    /// The same queue over connections of its own: they stand still with the runtime that they live on.
    pub(crate) async fn another(&self) -> Recado {
        match self.address() {
            Some(address) => Recado::connect(&format!("http://{address}")).await.unwrap(),
            None => self.recado.clone(),
        }
    }

    /// Where another process finds the queue; it must not be open in this one.
    pub(crate) async fn place(&self) -> Place {
        match self.address() {
            Some(address) => Place::Url(format!("http://{address}")),
            None => {
                self.recado.close().await.unwrap();
                Place::Dir(self.dir.path().to_path_buf())
            }
        }
    }

    /// The queue again, after another process had it.
    pub(crate) async fn reopen(self) -> Self {
        match self.server {
            Some(_) => self,
            None => Self { recado: Recado::open_with(self.dir.path(), options()).await.unwrap(), ..self },
        }
    }
}

/// A job whose retries are due at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mail {
    pub(crate) to: String,
}

impl Job for Mail {
    const NAME: &'static str = "mail.send";
    const QUEUE: &'static str = "mail";
    type Output = String;

    fn options() -> JobOptions {
        JobOptions::default().max_attempts(3).backoff(Backoff::Fixed(Duration::ZERO))
    }
}

pub(crate) fn mail(to: impl ToString) -> Mail {
    Mail { to: to.to_string() }
}

/// A worker at work, until it is stopped.
pub(crate) struct AtWork {
    stop: oneshot::Sender<()>,
    done: JoinHandle<Result<recado::Summary, recado::Error>>,
}

impl AtWork {
    pub(crate) fn start(worker: recado::WorkerBuilder) -> Self {
        let (stop, stopped) = oneshot::channel();
        let worker = worker.build().unwrap();
        let stopped = async move { drop(stopped.await) };
        Self { stop, done: tokio::spawn(async move { worker.run_until(stopped).await }) }
    }

    pub(crate) async fn stop(self) -> recado::Summary {
        let _ = self.stop.send(());
        self.done.await.unwrap().unwrap()
    }
}

/// A test, which fails when it hangs.
pub(crate) async fn ends(test: impl Future<Output = ()>) {
    assert!(tokio::time::timeout(HANGS, test).await.is_ok(), "it hangs");
}

/// Asks until it is so.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let asking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(LONG, asking).await.is_ok(), "it never came: {what}");
}

/// The state of a job, waited for.
pub(crate) async fn reaches(recado: &Recado, id: recado::JobId, state: &str) -> recado::JobStatus {
    until(&format!("{id} is {state}"), async || recado.job(id).await.unwrap().state() == state).await;
    recado.job(id).await.unwrap()
}
