//! A server from its start to its end.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use recado_contract::gate::Gate;
use recado_contract::schema::Schemas;
use recado_core::{
    Actor, Answer, Command, Configure, LimitOptions, Page, PutLimit, PutSchema, Query, QueueOptions, Rejection,
    SchemaView, Source,
};
use recado_log::Durability;
use recado_shard::{FileOptions, Handle, OpenError, Service};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

use crate::doctor::Place;
use crate::hooks::{self, Hooks};
use crate::http::{self, App, Shared};
use crate::limits::{BATCH_BYTES_MAX, CONNECTIONS_MAX, HOOKS_AT_ONCE_MAX, PAGE_MAX};
use crate::origin::PublicUrl;
use crate::problem::Problem;
use crate::reasons::Reasons;
use crate::schedules::{self, Definition};
use crate::{serve, sqs, time};

/// How a server is run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the log is; made if it is not there.
    pub data_dir: PathBuf,
    /// Port 0 picks one.
    pub listen: SocketAddr,
    /// What an answer promises.
    pub durability: Durability,
    /// Payloads kept in memory, in bytes.
    pub payload_cache_bytes: usize,
    /// Memory of the state at which producers are refused, in bytes.
    pub memory_bytes: u64,
    /// The name under which others reach this server.
    pub public_url: Option<String>,
    /// Listen beyond loopback although anyone who reaches the port may do anything.
    pub insecure_no_auth: bool,
    /// The first enqueue or receive creates its queue.
    pub auto_create_queues: bool,
    /// Options that hold where a queue sets none.
    pub defaults: QueueOptions,
    /// Queues that the configuration file names.
    pub queues: BTreeMap<String, QueueOptions>,
    /// Amazon SQS.
    pub sqs: sqs::Config,
    /// Shared limits that the configuration file names.
    pub limits: BTreeMap<String, LimitOptions>,
    /// Schemas that the configuration file names, by type and version.
    pub types: BTreeMap<String, BTreeMap<u32, String>>,
    /// Schedules that the configuration file names, as JSON.
    pub schedules: BTreeMap<String, String>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Beyond loopback without keys.
    #[error(
        "{0} can be reached by others, and there are no keys: listen on 127.0.0.1, or say --insecure-no-auth if the network is yours"
    )]
    Exposed(SocketAddr),
    /// The public URL is none.
    #[error("--public-url: {0}")]
    PublicUrl(String),
    /// The data cannot be opened.
    #[error("{}: {source}", data_dir.display())]
    Open {
        /// Where it is.
        data_dir: PathBuf,
        /// Why.
        source: OpenError,
    },
    /// The address is not to be had.
    #[error("cannot listen on {listen}: {source}; choose another --listen address")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The file's queues were refused.
    #[error("queue `{queue}` of the configuration file: {source}")]
    Queue {
        /// Its name.
        queue: String,
        /// Why.
        source: recado_shard::Error,
    },
    /// A shared limit of the file was refused.
    #[error("limit `{limit}` of the configuration file: {source}")]
    Limit {
        /// Its name.
        limit: String,
        /// Why.
        source: recado_shard::Error,
    },
    /// A schedule of the file was refused.
    #[error("schedule `{schedule}` of the configuration file: {reason}")]
    Schedule {
        /// Its name.
        schedule: String,
        /// Why.
        reason: String,
    },
    /// A schema of the file was refused.
    #[error("type `{kind}` version {version} of the configuration file: {source}")]
    Schema {
        /// The type.
        kind: String,
        /// The version.
        version: u32,
        /// Why.
        source: recado_shard::Error,
    },
    /// The shard refused its first commands.
    #[error("the shard does not answer: {0}")]
    Shard(#[from] recado_shard::Error),
}

/// A server at work.
pub struct Running {
    address: SocketAddr,
    app: App,
    service: Service,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    firing: JoinHandle<()>,
}

/// Opens the data, applies the configuration and listens.
///
/// # Errors
/// [`StartError`].
pub async fn start(config: Config) -> Result<Running, StartError> {
    allow_open_files();
    start_for(config, CONNECTIONS_MAX).await
}

/// Files a server needs beside its connections: the log, readers, a backup.
const OTHER_FILES: u64 = 512;

/// Raises the soft limit of open files, which is 1024 on many systems, as far as the system lets us.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let needed = CONNECTIONS_MAX as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return;
    }
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    let outcome = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum });
    if outcome.is_err() || raised < needed {
        tracing::warn!(
            needed,
            allowed = raised,
            "few open files are allowed: fewer connections can be taken (ulimit -n)"
        );
    }
}

async fn start_for(config: Config, connections_max: usize) -> Result<Running, StartError> {
    if !config.listen.ip().to_canonical().is_loopback() && !config.insecure_no_auth {
        return Err(StartError::Exposed(config.listen));
    }
    let public = config.public_url.as_deref().map(PublicUrl::parse).transpose().map_err(StartError::PublicUrl)?;
    let listening = |source| StartError::Listen { listen: config.listen, source };
    // Bound before the data is opened, served after: a busy port is found before a long recovery, and
    // early clients wait in the backlog.
    let listener = TcpListener::bind(config.listen).await.map_err(listening)?;
    let address = listener.local_addr().map_err(listening)?;
    let schemas = Arc::new(Schemas::default());
    let service = open(&config, Arc::clone(&schemas)).await?;
    let shard = service.handle();
    let (stop, stopping) = watch::channel(false);
    let app = shared(&config, shard.clone(), schemas, public, stopping.clone());
    let configured = match configure(&shard, config.defaults, &config.queues, &config.limits, &config.types).await {
        Ok(()) => put_schedules(&app, &config.schedules).await,
        Err(error) => Err(error),
    };
    if let Err(error) = configured {
        end(service).await?;
        return Err(error);
    }
    let firing = tokio::spawn(schedules::run(app.clone()));
    if let Err(problem) = hooks::tell_missing(&app.hooks, &shard).await {
        tracing::warn!(why = problem.detail(), "the hooks cannot be looked at");
    }
    let serving =
        tokio::spawn(serve::serve(listener, http::router(app.clone()), app.clone(), stopping, connections_max));
    Ok(Running { address, app, service, stop, serving, firing })
}

/// What all requests share.
fn shared(
    config: &Config,
    shard: Handle,
    schemas: Arc<Schemas>,
    public: Option<PublicUrl>,
    stopping: watch::Receiver<bool>,
) -> App {
    App::new(Shared {
        shard: shard.clone(),
        create_queues: config.auto_create_queues,
        public,
        durability: match config.durability {
            Durability::Sync => "sync",
            Durability::Os => "os",
        },
        place: Place { data: config.data_dir.clone(), is_synced: config.durability == Durability::Sync },
        gate: Gate::new(shard, schemas),
        rejected: Reasons::default(),
        warned: Reasons::default(),
        started: Instant::now(),
        started_at: time::now(),
        stopping,
        sqs: sqs::Shared::new(config.sqs.clone()),
        schedules: schedules::Changed::default(),
        events: http::events::Shared::new(RandomState::new().build_hasher().finish()),
        hooks: Hooks::default(),
        hook_places: Arc::new(Semaphore::new(HOOKS_AT_ONCE_MAX)),
    })
}

/// Bytes of one batch of the log: the largest enqueue with what is stored beside its payloads.
const LOG_BATCH_BYTES: usize = 2 * BATCH_BYTES_MAX;

async fn open(config: &Config, schemas: Arc<Schemas>) -> Result<Service, StartError> {
    let data_dir = config.data_dir.clone();
    let file =
        FileOptions { durability: config.durability, batch_bytes_max: LOG_BATCH_BYTES, ..FileOptions::default() };
    let (cache, memory) = (config.payload_cache_bytes, config.memory_bytes);
    let opened = blocking(move || {
        let merge =
            move |patch: &[u8], payload: &[u8], schema: Option<&Arc<str>>| schemas.merge_patch(patch, payload, schema);
        let mut options = recado_shard::Options::new(merge)?;
        options.payload_cache_bytes = cache;
        options.memory_bytes = memory;
        recado_shard::start_file(&data_dir, &file, options)
    })
    .await;
    opened.map_err(|source| StartError::Open { data_dir: config.data_dir.clone(), source })
}

/// Runs what blocks beside the runtime; a panic in it goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

async fn end(service: Service) -> Result<(), recado_shard::Error> {
    blocking(move || service.stop()).await
}

/// Applies the defaults and the file's schemas, shared limits and queues where they changed.
async fn configure(
    shard: &Handle,
    defaults: QueueOptions,
    queues: &BTreeMap<String, QueueOptions>,
    limits: &BTreeMap<String, LimitOptions>,
    types: &BTreeMap<String, BTreeMap<u32, String>>,
) -> Result<(), StartError> {
    put_schemas(shard, types).await?;
    put_limits(shard, limits).await?;
    shard.call(Command::SetDefaults(defaults)).await?;
    for (name, options) in queues {
        let refused = |source| StartError::Queue { queue: name.clone(), source };
        match shard.query(Query::Queue(name.as_str().into())).await {
            Ok(Answer::Queue(view)) if view.source == Source::File && view.options == *options => continue,
            Ok(_) | Err(recado_shard::Error::Rejected(Rejection::QueueNotFound { .. })) => {}
            Err(error) => return Err(refused(error)),
        }
        put(shard, name, options.clone(), Source::File).await.map_err(refused)?;
    }
    release(shard, queues).await
}

/// Puts the file's schemas; those that it no longer names stay and can be changed by the API again.
async fn put_schemas(shard: &Handle, types: &BTreeMap<String, BTreeMap<u32, String>>) -> Result<(), StartError> {
    let put = async |kind: &str, version: u32, text: Box<str>, source: Source| {
        let actor = Actor(Some("configuration file".into()));
        let refused = |source| StartError::Schema { kind: kind.to_owned(), version, source };
        let put = PutSchema { kind: kind.into(), version, text, source, actor };
        shard.call(Command::PutSchema(put)).await.map(drop).map_err(refused)
    };
    for (kind, versions) in types {
        for (version, text) in versions {
            put(kind, *version, text.as_str().into(), Source::File).await?;
        }
    }
    let Answer::Schemas(schemas) = shard.query(Query::Schemas).await? else { return Ok(()) };
    let is_named = |kind: &str, version: u32| types.get(kind).is_some_and(|versions| versions.contains_key(&version));
    let left = |schema: &&SchemaView| schema.source == Source::File && !is_named(&schema.kind, schema.version);
    for schema in schemas.iter().filter(left) {
        put(&schema.kind, schema.version, (&*schema.text).into(), Source::Auto).await?;
    }
    Ok(())
}

/// Puts the file's shared limits; those that it no longer names stay and can be changed by the API again.
async fn put_limits(shard: &Handle, limits: &BTreeMap<String, LimitOptions>) -> Result<(), StartError> {
    let put = async |name: &str, options: &LimitOptions, source: Source| {
        let actor = Actor(Some("configuration file".into()));
        let refused = |source| StartError::Limit { limit: name.to_owned(), source };
        let put = PutLimit { limit: name.into(), options: options.clone(), source, actor };
        shard.call(Command::PutLimit(put)).await.map(drop).map_err(refused)
    };
    for (name, options) in limits {
        put(name, options, Source::File).await?;
    }
    let Answer::Limits(there) = shard.query(Query::Limits).await? else { return Ok(()) };
    let left = there.iter().filter(|it| it.source == Source::File && !limits.contains_key(&*it.figures.name));
    for limit in left {
        put(&limit.figures.name, &limit.options, Source::Auto).await?;
    }
    Ok(())
}

/// Puts the file's schedules; those that it no longer names go on, and can be changed by the API again. As where one is
/// put by the API, its queue has to take its job.
async fn put_schedules(app: &App, named: &BTreeMap<String, String>) -> Result<(), StartError> {
    let actor = || Actor(Some("configuration file".into()));
    let refused = |name: &str, reason: &str| StartError::Schedule { schedule: name.to_owned(), reason: reason.into() };
    let mut definitions = Vec::with_capacity(named.len());
    for (name, text) in named {
        let unfit = |problem: Problem| refused(name, problem.detail());
        let definition = Definition::read(name, text.as_bytes(), time::now()).map_err(unfit)?;
        schedules::check(app, name, &definition).await.map_err(unfit)?;
        definitions.push((name, definition));
    }
    for (name, definition) in definitions {
        let put = schedules::put(app, name, &definition, app.create_queues, Source::File, actor()).await;
        put.map_err(|error| refused(name, &error.to_string()))?;
    }
    let left = schedules::all(&app.shard).await?.into_iter();
    for view in left.filter(|view| view.source == Source::File && !named.contains_key(&*view.name)) {
        match Definition::kept(&view.text, time::now()) {
            Ok(definition) => {
                let put = schedules::put(app, &view.name, &definition, true, Source::Auto, actor()).await;
                put.map(drop).map_err(|error| refused(&view.name, &error.to_string()))?;
            }
            Err(problem) => {
                let reason = problem.detail();
                tracing::error!(schedule = &*view.name, reason, "left the file and is not understood: it is removed");
                let (schedule, source) = (view.name, Source::File);
                app.shard.call(Command::RemoveSchedule { schedule, source, actor: actor() }).await?;
            }
        }
    }
    Ok(())
}

/// Queues that the file no longer names keep their options and can be changed by the API again.
async fn release(shard: &Handle, queues: &BTreeMap<String, QueueOptions>) -> Result<(), StartError> {
    let mut cursor = None;
    loop {
        let page = Page { cursor, limit: PAGE_MAX as usize };
        let Answer::Queues { queues: entries, cursor: next } = shard.query(Query::Queues(page)).await? else {
            return Ok(());
        };
        let left = entries.iter().filter(|entry| entry.source == Source::File && !queues.contains_key(&*entry.name));
        for entry in left {
            let Answer::Queue(view) = shard.query(Query::Queue(entry.name.as_ref().into())).await? else { continue };
            let refused = |source| StartError::Queue { queue: entry.name.to_string(), source };
            put(shard, &entry.name, view.options, Source::Auto).await.map_err(refused)?;
        }
        if next.is_none() {
            return Ok(());
        }
        cursor = next;
    }
}

async fn put(shard: &Handle, name: &str, options: QueueOptions, source: Source) -> Result<(), recado_shard::Error> {
    let actor = Actor(Some("configuration file".into()));
    let configure = Configure { queue: name.into(), options, source, condition: Default::default(), actor };
    shard.call(Command::Configure(configure)).await.map(drop)
}

impl Running {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Resolves with the reason when the log has failed: the process should end then.
    pub async fn failed(&self) -> Arc<str> {
        self.app.shard.failed().await
    }

    /// Applies another configuration of the queues, shared limits, schemas and schedules.
    ///
    /// # Errors
    /// [`StartError::Schema`], [`StartError::Limit`], [`StartError::Queue`] or [`StartError::Schedule`] names the first
    /// that was refused.
    pub async fn reload(
        &self,
        defaults: QueueOptions,
        queues: &BTreeMap<String, QueueOptions>,
        limits: &BTreeMap<String, LimitOptions>,
        types: &BTreeMap<String, BTreeMap<u32, String>>,
        schedules: &BTreeMap<String, String>,
    ) -> Result<(), StartError> {
        configure(&self.app.shard, defaults, queues, limits, types).await?;
        put_schedules(&self.app, schedules).await
    }

    /// Stops accepting, ends long polls, answers what is in flight, syncs.
    ///
    /// # Errors
    /// When the log failed.
    pub async fn stop(self) -> Result<(), recado_shard::Error> {
        self.stop.send_replace(true);
        self.service.begin_stop();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the server broke off");
        }
        if let Err(error) = self.firing.await {
            tracing::error!(%error, "the firing of schedules broke off");
        }
        end(self.service).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recado_core::{PutSchedule, ScheduleOptions};
    use std::io::{Read, Write};
    use std::net::TcpStream;

    fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = [0; 1_024];
        let read = stream.read(&mut answer).unwrap();
        String::from_utf8(answer[..read].to_vec()).unwrap()
    }

    fn config(dir: &tempfile::TempDir) -> Config {
        Config {
            data_dir: dir.path().to_path_buf(),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            durability: Durability::Os,
            payload_cache_bytes: 1 << 20,
            memory_bytes: 64 << 20,
            public_url: None,
            insecure_no_auth: false,
            auto_create_queues: true,
            defaults: QueueOptions::default(),
            queues: BTreeMap::new(),
            sqs: sqs::Config::default(),
            limits: BTreeMap::new(),
            types: BTreeMap::new(),
            schedules: BTreeMap::new(),
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
    }

    #[test]
    fn a_schedule_that_is_not_understood_stops_no_start() {
        let (dir, runtime) = (tempfile::tempdir().unwrap(), runtime());
        let text = r#"{"queue":"q","job":{"type":"t"},"cron":"* * * * *","timeZone":"Etc/Unknown"}"#;
        runtime.block_on(async {
            let running = start_for(config(&dir), 3).await.unwrap();
            for (name, source) in [("left", Source::File), ("kept", Source::Api)] {
                let options = ScheduleOptions { text: text.into(), queue: "q".into(), ..ScheduleOptions::default() };
                let (since, next, actor) = (1, Some(2), Actor::default());
                let put = PutSchedule { schedule: name.into(), options, since, next, create: true, source, actor };
                running.app.shard.call(Command::PutSchedule(put)).await.unwrap();
            }
            running.stop().await.unwrap();
            let running = start_for(config(&dir), 3).await.unwrap();
            let names: Vec<_> =
                schedules::all(&running.app.shard).await.unwrap().into_iter().map(|it| it.name).collect();
            assert_eq!(names, ["kept".into()], "what left the file and means nothing is gone");
            // It can be put again; what was due of it is an entry.
            let definition = br#"{"queue":"q","job":{"type":"t"},"every":"1h"}"#;
            let definition = Definition::read("kept", definition, time::now()).unwrap();
            let put = schedules::put(&running.app, "kept", &definition, true, Source::Api, Actor::default()).await;
            assert!(!put.unwrap());
            let view = schedules::look(&running.app.shard, "kept").await.unwrap();
            assert_eq!((view.skipped, view.last.map(|last| last.at)), (1, Some(2)));
            assert!(view.next.is_some_and(|next| next > time::now()));
            running.stop().await.unwrap();
        });
    }

    #[test]
    fn a_connection_too_many_is_told_so_and_the_others_go_on() {
        let (dir, runtime) = (tempfile::tempdir().unwrap(), runtime());
        let running = runtime.block_on(start_for(config(&dir), 3)).unwrap();
        let connect = || TcpStream::connect(running.local_addr()).unwrap();
        let mut open: Vec<_> = (0..3).map(|_| connect()).collect();
        open.iter_mut()
            .for_each(|stream| assert!(ask(stream).starts_with("HTTP/1.1 200"), "the first three are served"));
        let mut surplus = connect();
        let mut told = String::new();
        surplus.read_to_string(&mut told).unwrap();
        assert!(told.starts_with("HTTP/1.1 503") && told.contains("retry-after: 1"), "{told}");
        assert!(told.contains("\"code\":\"overloaded\""), "{told}");
        for (headers, expected) in [
            ("", "\"code\":\"overloaded\""),
            ("x-amz-target: AmazonSQS.ListQueues\r\n", "x-amzn-query-error: ServiceUnavailable;Receiver"),
            ("content-type: application/x-www-form-urlencoded\r\n", "<Code>ServiceUnavailable</Code>"),
        ] {
            let mut surplus = connect();
            write!(surplus, "POST / HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: 0\r\n\r\n").unwrap();
            let mut told = String::new();
            surplus.read_to_string(&mut told).unwrap();
            assert!(told.starts_with("HTTP/1.1 503") && told.contains(expected), "{headers}: {told}");
        }
        open.iter_mut().for_each(|stream| assert!(ask(stream).starts_with("HTTP/1.1 200"), "the others go on"));
        drop(open.pop());
        let give_up = Instant::now() + std::time::Duration::from_secs(20);
        while !ask(&mut connect()).starts_with("HTTP/1.1 200") {
            assert!(Instant::now() < give_up, "a place that became free is not given");
        }
        drop(open);
        runtime.block_on(running.stop()).unwrap();
    }
}
