//! A server in this process, on a port the system picks, with a directory of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use recado_core::QueueOptions;
use recado_log::Durability;
use recado_server::{Config, Running, SqsConfig, StartError};
use recado_shard::FileOptions;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::{Answer, Conn};

const SEGMENT_BYTES: u64 = 4 << 20;

pub(crate) struct Server {
    pub(crate) runtime: Runtime,
    running: Option<Running>,
    pub(crate) dir: TempDir,
    pub(crate) address: SocketAddr,
}

/// The configuration of most tests.
pub(crate) fn config(dir: &Path) -> Config {
    Config {
        data_dir: dir.to_path_buf(),
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        // Tests do not cut the power; what the log promises then is tested there.
        durability: Durability::Os,
        payload_cache_bytes: 1 << 20,
        memory_bytes: 64 << 20,
        public_url: Some("https://queue.example.org".into()),
        insecure_no_auth: false,
        auto_create_queues: true,
        defaults: QueueOptions::default(),
        queues: BTreeMap::new(),
        sqs: SqsConfig::default(),
        limits: BTreeMap::new(),
        types: BTreeMap::new(),
        schedules: BTreeMap::new(),
    }
}

pub(crate) fn start(config: Config) -> Result<(Runtime, Running), StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let running = runtime.block_on(recado_server::start(config))?;
    Ok((runtime, running))
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// A log keeps the size of segment it was made with: made small here, as a server zero-fills several
    /// at its start.
    pub(crate) fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = FileOptions {
            segment_bytes: SEGMENT_BYTES,
            batch_bytes_max: SEGMENT_BYTES as usize / 2,
            ..FileOptions::default()
        };
        let options =
            recado_shard::Options::new(|patch, payload, _| recado_server::merge_patch(patch, payload)).unwrap();
        recado_shard::start_file(dir.path(), &file, options).unwrap().stop().unwrap();
        Self::start_in(dir, change)
    }

    /// With a log as the product makes it, for the largest batches.
    pub(crate) fn start_full_size() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), |_| {})
    }

    pub(crate) fn start_in(dir: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = config(dir.path());
        change(&mut config);
        let (runtime, running) = start(config).unwrap_or_else(|error| panic!("{error}"));
        Self { address: running.local_addr(), runtime, running: Some(running), dir }
    }

    pub(crate) fn connect(&self) -> Conn {
        Conn::open(self.address)
    }

    /// One request on a connection of its own.
    pub(crate) fn json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.connect().json(method, path, body)
    }

    /// Enqueues and answers with the ids.
    pub(crate) fn enqueue(&self, queue: &str, jobs: &str) -> Vec<String> {
        let answer = self.json("POST", &format!("/v1/queues/{queue}/jobs"), jobs).expect(201);
        let jobs = answer["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Receives up to `max` jobs, at once.
    pub(crate) fn receive(&self, queue: &str, max: usize) -> Vec<Value> {
        let answer =
            self.json("POST", &format!("/v1/queues/{queue}/receive"), &format!("{{\"max\":{max}}}")).expect(200);
        answer["jobs"].as_array().unwrap().clone()
    }

    pub(crate) fn settle(&self, job: &Value, outcome: &str) -> Value {
        let body = format!("{{\"id\":{},\"receipt\":{},{outcome}}}", job["id"], job["receipt"]);
        let answer = self.json("POST", "/v1/settle", &body).expect(200);
        answer["settled"][0].clone()
    }

    pub(crate) fn job(&self, id: &str) -> Value {
        self.json("GET", &format!("/v1/jobs/{id}"), "").expect(200)
    }

    pub(crate) fn reload(&self, queues: &BTreeMap<String, QueueOptions>) -> Result<(), StartError> {
        let running = self.running.as_ref().unwrap();
        self.runtime.block_on(running.reload(
            QueueOptions::default(),
            queues,
            &BTreeMap::new(),
            &BTreeMap::new(),
            &BTreeMap::new(),
        ))
    }

    /// Begins the stop, and gives back what waits for its end.
    pub(crate) fn begin_stop(&mut self) -> tokio::task::JoinHandle<Result<(), String>> {
        let running = self.running.take().unwrap();
        self.runtime.spawn(async move { running.stop().await.map_err(|error| error.to_string()) })
    }

    /// Stops, and starts again on the same data.
    pub(crate) fn restart(mut self, change: impl FnOnce(&mut Config)) -> Self {
        let stopped = self.begin_stop();
        self.runtime.block_on(stopped).unwrap().unwrap();
        let Self { dir, runtime, .. } = self;
        drop(runtime);
        Self::start_in(dir, change)
    }
}

/// Asks until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is_so() {
        assert!(std::time::Instant::now() < give_up, "it never came: {what}");
        std::thread::yield_now();
    }
}
