//! The one place where this crate touches the server library: it translates our settings into its own, and
//! its errors into exit codes. Everything else in the crate speaks HTTP.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;

use recado_server::StartError;
use recado_server::options::FieldError;
use recado_shard::OpenError;
use serde_json::{Value, json};

use crate::config::{Config, Durability, Queues};
use crate::failure::{Exit, Failure};

/// What is wrong with queue options: a JSON pointer, and what to do.
pub(crate) type OptionErrors = Vec<(String, String)>;

/// Checks queue options as `PUT /v1/queues/{q}` does.
pub(crate) fn check_options(options: &Value) -> Result<(), OptionErrors> {
    told(recado_server::options::parse(options))
}

/// Checks a shared limit as `PUT /v1/limits/{limit}` does.
pub(crate) fn check_limit(options: &Value) -> Result<(), OptionErrors> {
    told(recado_server::options::parse_limit(options))
}

/// Checks the definition of a schedule as `PUT /v1/schedules/{schedule}` does.
pub(crate) fn check_schedule(name: &str, definition: &Value) -> Result<(), OptionErrors> {
    told(recado_server::options::parse_schedule(name, definition))
}

fn told<T>(read: Result<T, Vec<FieldError>>) -> Result<(), OptionErrors> {
    let of = |error: FieldError| (error.pointer, error.message);
    read.map(drop).map_err(|errors| errors.into_iter().map(of).collect())
}

/// Judges what a file says of its queues, as `GET /v1/doctor` does.
pub(crate) fn doctor(queues: &Queues) -> Result<Value, Failure> {
    let checks = readable(recado_server::doctor::of_options(&queues.defaults, &queues.named))?;
    Ok(json!({ "checks": checks }))
}

/// Checks a schema as `PUT /v1/types/{type}/versions/{n}` does.
pub(crate) fn check_schema(text: &str) -> Result<(), String> {
    recado_server::check_schema(text).map_err(|error| match error.pointer.as_str() {
        "" => error.message,
        pointer => format!("{pointer}: {}", error.message),
    })
}

/// Checks a queue's or type's name.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    recado_server::check_name(name)
}

/// A running server.
pub(crate) struct Running {
    server: recado_server::Running,
    config: Config,
}

impl Running {
    /// Starts to listen, after recovery.
    pub(crate) async fn start(config: &Config) -> Result<Self, Failure> {
        let server = recado_server::start(translate(config, &config.queues)?).await?;
        Ok(Self { server, config: config.clone() })
    }

    /// Where it listens.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.server.local_addr()
    }

    /// Takes another configuration of the queues; a bad one changes nothing.
    pub(crate) async fn reload(&self, queues: &Queues) -> Result<(), Failure> {
        let config = translate(&self.config, queues)?;
        let recado_server::Config { defaults, queues, limits, types, schedules, .. } = config;
        Ok(self.server.reload(defaults, &queues, &limits, &types, &schedules).await?)
    }

    /// Ends only when the server can no longer serve, with the reason.
    pub(crate) async fn failed(&self) -> String {
        self.server.failed().await.to_string()
    }

    /// Stops accepting, ends long polls, answers what is in flight, syncs.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.server.stop().await.map_err(|error| Failure::new(Exit::Io, error.to_string()))
    }
}

/// What was read, or all that is wrong with it.
fn readable<T>(read: Result<T, Vec<FieldError>>) -> Result<T, Failure> {
    read.map_err(|errors| {
        let messages: Vec<String> = errors.into_iter().map(|error| error.message).collect();
        Failure::bad_data(messages.join("; "))
    })
}

fn translate(config: &Config, queues: &Queues) -> Result<recado_server::Config, Failure> {
    // They were checked with their lines; that they are read once more is cheaper than to keep both.
    let parse = |options: &Value| readable(recado_server::options::parse(options));
    let mut named = BTreeMap::new();
    for (name, options) in &queues.named {
        named.insert(name.clone(), parse(options)?);
    }
    let mut limits = BTreeMap::new();
    for (name, options) in &queues.limits {
        limits.insert(name.clone(), readable(recado_server::options::parse_limit(options))?);
    }
    Ok(recado_server::Config {
        data_dir: config.data.clone(),
        listen: config.listen,
        durability: match config.durability {
            Durability::Sync => recado_log::Durability::Sync,
            Durability::Os => recado_log::Durability::Os,
        },
        payload_cache_bytes: usize::try_from(config.payload_cache_bytes).unwrap_or(usize::MAX),
        memory_bytes: config.memory_bytes,
        public_url: config.public_url.clone(),
        insecure_no_auth: config.insecure_no_auth,
        // Strict: a queue is made on purpose or not at all.
        auto_create_queues: config.auto_create_queues,
        defaults: parse(&queues.defaults)?,
        queues: named,
        sqs: recado_server::SqsConfig {
            isolate: config.sqs.isolate,
            sixty_second_rules: config.sqs.sixty_second_rules,
            keys: config.sqs.keys.clone(),
        },
        limits,
        types: queues.types.clone(),
        schedules: queues.schedules.iter().map(|(name, value)| (name.clone(), value.to_string())).collect(),
    })
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let exit = match &error {
            StartError::Exposed(_) | StartError::PublicUrl(_) => Exit::Usage,
            StartError::Open { source: OpenError::Log(source), .. } => return Self::from(source.clone()),
            StartError::Open { source: OpenError::Decode { .. }, .. }
            | StartError::Queue { .. }
            | StartError::Limit { .. }
            | StartError::Schedule { .. }
            | StartError::Schema { .. } => Exit::BadData,
            StartError::Listen { source, .. } if source.kind() == ErrorKind::PermissionDenied => Exit::NotAllowed,
            StartError::Listen { .. } => Exit::Unavailable,
            StartError::Open { .. } | StartError::Shard(_) => Exit::Io,
        };
        Self::new(exit, error.to_string())
    }
}
