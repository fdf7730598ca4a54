//! The server's configuration from its four layers: flags, then `RECADO_*`, then `recado.toml`, then the
//! defaults. Every error names the layer its value came from.

pub(crate) mod file;
mod runbook;
mod types;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use recado_contract::nearest::hint;
use recado_contract::size;
use serde_json::{Map, Value};

use self::file::{File, Line};
use crate::failure::Failure;
use crate::server;

/// Where the configuration file is looked for.
const DEFAULT_FILE: &str = "recado.toml";
/// Where the server listens.
const DEFAULT_LISTEN: &str = "127.0.0.1:7070";
/// Where the data is.
const DEFAULT_DATA: &str = "./recado-data";
/// Memory for payloads.
const DEFAULT_PAYLOAD_CACHE_BYTES: u64 = 256 << 20;
/// Memory for jobs and keys: five million plain jobs.
const DEFAULT_MEMORY_BYTES: u64 = 1 << 30;

/// The settings a flag can give, as text: they are judged once, whatever layer they come from.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Flags {
    /// Data directory, made if it does not exist [default: ./recado-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// Address and port; port 0 picks a free one [default: 127.0.0.1:7070]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Configuration file [default: ./recado.toml if present]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// sync survives power loss, os survives kill -9 only [default: sync]
    #[arg(long, value_name = "sync|os")]
    pub(crate) durability: Option<String>,
    /// Memory for payloads, the others are read from disk [default: 256MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) payload_cache: Option<String>,
    /// Memory for jobs and keys, at it producers are refused [default: 1GiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// Whether the first enqueue or receive creates an unknown queue [default: true]
    #[arg(long, value_name = "true|false")]
    pub(crate) auto_create_queues: Option<String>,
    /// Address under which browsers reach the server, like https://jobs.example.org
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Whether SQS queues are purged only once in 60 s, and names of deleted ones rest so long [default: on]
    #[arg(long = "sqs-60s-rules", value_name = "on|off")]
    pub(crate) sqs_60s_rules: Option<String>,
    /// Format of the log on standard error [default: text]
    #[arg(long, value_name = "text|json")]
    pub(crate) log_format: Option<String>,
    /// Listen beyond this machine although no key protects the server
    #[arg(long)]
    pub(crate) insecure_no_auth: bool,
}

/// How soon what is acknowledged survives what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Power loss.
    Sync,
    /// The death of the process.
    Os,
}

/// How the log on standard error looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// All that `serve` needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Data directory.
    pub(crate) data: PathBuf,
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// What acknowledged means.
    pub(crate) durability: Durability,
    /// Memory for payloads.
    pub(crate) payload_cache_bytes: u64,
    /// Memory for jobs and keys, at which producers are refused.
    pub(crate) memory_bytes: u64,
    /// The server's origin for browsers.
    pub(crate) public_url: Option<String>,
    /// The first enqueue or receive creates an unknown queue.
    pub(crate) auto_create_queues: bool,
    /// Listening beyond loopback without keys was accepted.
    pub(crate) insecure_no_auth: bool,
    /// Format of the log.
    pub(crate) log_format: LogFormat,
    /// Amazon SQS.
    pub(crate) sqs: Sqs,
    /// What the file says of queues.
    pub(crate) queues: Queues,
}

/// `[sqs]`.
#[derive(Clone, Debug)]
pub(crate) struct Sqs {
    /// Accounts and regions have queues of their own.
    pub(crate) isolate: bool,
    /// As the service has them.
    pub(crate) sixty_second_rules: bool,
    /// Secrets by access key.
    pub(crate) keys: BTreeMap<String, String>,
}

/// `[defaults]`, `[queues.NAME]`, `[limits.NAME]`, `[types."NAME"]` and `[schedules.NAME]`, checked.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    /// The file they come from.
    pub(crate) file: Option<PathBuf>,
    /// Options of every queue.
    pub(crate) defaults: Value,
    /// Options by queue.
    pub(crate) named: BTreeMap<String, Value>,
    /// Shared limits by name.
    pub(crate) limits: BTreeMap<String, Value>,
    /// Schemas by type and version.
    pub(crate) types: types::Schemas,
    /// Schedules by name.
    pub(crate) schedules: BTreeMap<String, Value>,
}

/// Where a value came from.
#[derive(Clone, Debug)]
enum Layer {
    Flag(&'static str),
    Env(&'static str),
    File(Line),
    Default,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Env(name) => f.write_str(name),
            Self::File(line) => line.fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value and its layer.
#[derive(Clone, Debug)]
struct Setting {
    value: Value,
    layer: Layer,
}

impl Setting {
    fn wrong(&self, why: impl fmt::Display) -> Failure {
        let message = format!("{}: {why}", self.layer);
        match self.layer {
            Layer::File(_) => Failure::bad_data(message),
            _ => Failure::usage(message),
        }
    }

    fn text(&self) -> Result<&str, Failure> {
        self.value.as_str().ok_or_else(|| self.wrong(format!("{} is not a text: write it in quotes", self.value)))
    }

    fn yes(&self) -> Result<bool, Failure> {
        let word = match &self.value {
            Value::Bool(yes) => return Ok(*yes),
            Value::String(word) if !matches!(self.layer, Layer::File(_)) => word.to_ascii_lowercase(),
            other => return Err(self.wrong(format!("{other} is not true or false"))),
        };
        match word.as_str() {
            "1" | "true" | "on" | "yes" => Ok(true),
            "0" | "false" | "off" | "no" => Ok(false),
            other => Err(self.wrong(format!("`{other}` is not true or false"))),
        }
    }

    fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Failure> {
        let word = self.text()?;
        let found = choices.iter().find(|(name, _)| *name == word);
        found.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.wrong(format!("`{word}` is not one of {}", names.join(", ")))
        })
    }

    fn size(&self) -> Result<u64, Failure> {
        size::parse(self.text()?).map_err(|why| self.wrong(why))
    }
}

/// The environment, or a stand-in for it.
type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

struct Layers<'a> {
    env: Env<'a>,
    file: Option<&'a File>,
}

impl Layers<'_> {
    /// The first layer that has a value.
    fn pick(&self, flag: (&'static str, Option<&str>), env: &'static str, key: &str) -> Option<Setting> {
        self.flag_or_env(flag, env).or_else(|| self.of_file("server", key))
    }

    fn flag_or_env(&self, flag: (&'static str, Option<&str>), env: &'static str) -> Option<Setting> {
        if let Some(value) = flag.1 {
            return Some(Setting { value: Value::from(value), layer: Layer::Flag(flag.0) });
        }
        let value = (self.env)(env).filter(|value| !value.is_empty())?;
        Some(Setting { value: Value::from(value), layer: Layer::Env(env) })
    }

    fn of_file(&self, section: &str, key: &str) -> Option<Setting> {
        let file = self.file?;
        let members = if section == "sqs" { &file.sqs } else { &file.server };
        let value = members.get(key)?.clone();
        Some(Setting { value, layer: Layer::File(file.line(&format!("/{section}/{key}"))) })
    }
}

/// Reads all layers of this process.
pub(crate) fn load(flags: &Flags) -> Result<Config, Failure> {
    build(flags, &|name| {
        // What is not text cannot be a valid setting: it is refused with the name of its layer.
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    })
}

/// What a file says of queues.
pub(crate) fn read_queues(file: &Path) -> Result<Queues, Failure> {
    queues(Some(&File::read(file)?))
}

/// Checks the text of a `recado.toml` without looking at anything else.
///
/// # Errors
/// What is wrong with it, and in which line.
pub fn check(text: &str) -> Result<(), String> {
    let checked = File::parse(Path::new(DEFAULT_FILE), text).and_then(|file| {
        // Where it listens may be a name that only the machine it runs on can resolve.
        let flags = Flags { listen: Some(DEFAULT_LISTEN.to_owned()), ..Flags::default() };
        settle(&flags, &|_| None, Some(&file))
    });
    checked.map(drop).map_err(|failure| failure.message)
}

fn build(flags: &Flags, env: Env<'_>) -> Result<Config, Failure> {
    settle(flags, env, find_file(flags, env)?.as_ref())
}

fn settle(flags: &Flags, env: Env<'_>, file: Option<&File>) -> Result<Config, Failure> {
    let layers = Layers { env, file };
    let flag = |yes: bool| yes.then_some("true");
    let data = layers.pick(("--data", flags.data.as_deref()), "RECADO_DATA", "data");
    let listen = layers.pick(("--listen", flags.listen.as_deref()), "RECADO_LISTEN", "listen");
    let durability = layers.pick(("--durability", flags.durability.as_deref()), "RECADO_DURABILITY", "durability");
    let cache =
        layers.pick(("--payload-cache", flags.payload_cache.as_deref()), "RECADO_PAYLOAD_CACHE", "payloadCache");
    let memory = layers.pick(("--memory", flags.memory.as_deref()), "RECADO_MEMORY", "memory");
    let auto_create = layers.pick(
        ("--auto-create-queues", flags.auto_create_queues.as_deref()),
        "RECADO_AUTO_CREATE_QUEUES",
        "autoCreateQueues",
    );
    let url = layers.pick(("--public-url", flags.public_url.as_deref()), "RECADO_PUBLIC_URL", "publicUrl");
    let format = layers.pick(("--log-format", flags.log_format.as_deref()), "RECADO_LOG_FORMAT", "logFormat");
    let insecure =
        layers.pick(("--insecure-no-auth", flag(flags.insecure_no_auth)), "RECADO_INSECURE_NO_AUTH", "insecureNoAuth");
    let yes = |setting: &Option<Setting>| setting.as_ref().map_or(Ok(false), Setting::yes);
    let insecure_no_auth = yes(&insecure)?;
    Ok(Config {
        data: PathBuf::from(data.as_ref().map_or(Ok(DEFAULT_DATA), Setting::text)?),
        listen: address(listen, insecure_no_auth)?,
        durability: durability.as_ref().map_or(Ok(Durability::Sync), |setting| {
            setting.choice(&[("sync", Durability::Sync), ("os", Durability::Os)])
        })?,
        payload_cache_bytes: cache.as_ref().map_or(Ok(DEFAULT_PAYLOAD_CACHE_BYTES), Setting::size)?,
        memory_bytes: memory.as_ref().map_or(Ok(DEFAULT_MEMORY_BYTES), Setting::size)?,
        public_url: url.as_ref().map(public_url).transpose()?,
        auto_create_queues: auto_create.as_ref().map_or(Ok(true), Setting::yes)?,
        insecure_no_auth,
        log_format: format.as_ref().map_or(Ok(LogFormat::Text), |setting| {
            setting.choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)])
        })?,
        sqs: sqs(flags, &layers)?,
        queues: queues(file)?,
    })
}

fn sqs(flags: &Flags, layers: &Layers<'_>) -> Result<Sqs, Failure> {
    let rules = layers.flag_or_env(("--sqs-60s-rules", flags.sqs_60s_rules.as_deref()), "RECADO_SQS_60S_RULES");
    let rules = rules.or_else(|| layers.of_file("sqs", "sixtySecondRules"));
    Ok(Sqs {
        isolate: layers.of_file("sqs", "isolate").as_ref().map_or(Ok(false), Setting::yes)?,
        sixty_second_rules: rules.as_ref().map_or(Ok(true), Setting::yes)?,
        keys: match layers.of_file("sqs", "keys") {
            Some(keys) => sqs_keys(layers, &keys)?,
            None => BTreeMap::new(),
        },
    })
}

/// Secrets by access key: the name of the variable that holds one, as in `AKIA... = "env:SQS_SECRET"`.
fn sqs_keys(layers: &Layers<'_>, setting: &Setting) -> Result<BTreeMap<String, String>, Failure> {
    let form = "write each key as ACCESSKEY = \"env:NAME\", with its secret in the environment variable NAME";
    let Value::Object(keys) = &setting.value else { return Err(setting.wrong(form)) };
    let secret = |(key, value): (&String, &Value)| {
        let name = value.as_str().and_then(|text| text.strip_prefix("env:")).ok_or_else(|| setting.wrong(form))?;
        let secret = (layers.env)(name).filter(|secret| !secret.is_empty());
        let missing = || setting.wrong(format!("the environment variable {name} of key {key} is not set"));
        secret.map(|secret| (key.clone(), secret)).ok_or_else(missing)
    };
    keys.iter().map(secret).collect()
}

/// A file that was named must be there; the default one may be absent.
fn find_file(flags: &Flags, env: Env<'_>) -> Result<Option<File>, Failure> {
    let named = flags.config.clone().map(|path| ("--config", path));
    let named = named.or_else(|| {
        let path = env("RECADO_CONFIG").filter(|path| !path.is_empty())?;
        Some(("RECADO_CONFIG", path))
    });
    match named {
        Some((layer, path)) => {
            let path = PathBuf::from(path);
            let cannot = |error| Failure::io(format!("{layer}: cannot look at {}", path.display()), &error);
            if !path.try_exists().map_err(cannot)? {
                return Err(Failure::usage(format!("{layer}: there is no file {}", path.display())));
            }
            File::read(&path).map(Some)
        }
        None if Path::new(DEFAULT_FILE).exists() => File::read(Path::new(DEFAULT_FILE)).map(Some),
        None => Ok(None),
    }
}

fn address(setting: Option<Setting>, insecure_no_auth: bool) -> Result<SocketAddr, Failure> {
    let setting = setting.unwrap_or(Setting { value: Value::from(DEFAULT_LISTEN), layer: Layer::Default });
    let text = setting.text()?;
    let wrong = || setting.wrong(format!("`{text}` is not an address and a port, like {DEFAULT_LISTEN}"));
    let address = text.to_socket_addrs().ok().and_then(|mut found| found.next()).ok_or_else(wrong)?;
    if address.ip().to_canonical().is_loopback() || insecure_no_auth {
        return Ok(address);
    }
    Err(setting.wrong(format!(
        "{address} is reachable from other machines and no key is configured, so that anyone could read and \
         change every job; listen on 127.0.0.1 and let a proxy that authenticates stand before it, or accept \
         this with --insecure-no-auth"
    )))
}

fn public_url(setting: &Setting) -> Result<String, Failure> {
    let text = setting.text()?.trim_end_matches('/');
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']) => Ok(text.to_owned()),
        _ => Err(setting.wrong(format!("`{text}` is not an origin, like https://jobs.example.org"))),
    }
}

/// Checks the options with the same code that checks `PUT /v1/queues/{q}`; its complaints get their line.
fn queues(file: Option<&File>) -> Result<Queues, Failure> {
    let Some(file) = file else {
        return Ok(Queues {
            file: None,
            defaults: Value::Object(Map::new()),
            named: BTreeMap::new(),
            limits: BTreeMap::new(),
            types: BTreeMap::new(),
            schedules: BTreeMap::new(),
        });
    };
    let told = |section: &str, pointer: &str, checked: Result<(), server::OptionErrors>| {
        checked.map_err(|errors| {
            let told = |(inner, why): (String, String)| {
                // Without one it is about the section.
                let option = inner.replace('/', ".").replacen('.', " ", 1);
                format!("{}: [{section}]{option}: {why}", file.line(&format!("{pointer}{inner}")))
            };
            Failure::bad_data(errors.into_iter().map(told).collect::<Vec<_>>().join("\n"))
        })
    };
    let check = |section: &str, pointer: &str, options: &Value| {
        told(section, pointer, server::check_options(options))?;
        known_limits(file, pointer, options)
    };
    let defaults = runbook::read(file, "/defaults", &file.defaults)?;
    check("defaults", "/defaults", &defaults)?;
    let mut named = BTreeMap::new();
    let sections = [
        ("queue", "queues", &file.queues),
        ("limit", "limits", &file.limits),
        ("schedule", "schedules", &file.schedules),
    ];
    for (what, section, members) in sections {
        for (name, options) in members {
            let pointer = format!("/{section}/{}", file::escape(name));
            if let Err(why) = server::check_name(name) {
                return Err(file.wrong(&pointer, format!("{what} `{name}`: {why}")));
            }
            let section = format!("{section}.{name}");
            match what {
                "queue" => {
                    let options = runbook::read(file, &pointer, options)?;
                    check(&section, &pointer, &options)?;
                    named.insert(name.clone(), options);
                }
                "limit" => told(&section, &pointer, server::check_limit(options))?,
                _ => told(&section, &pointer, server::check_schedule(name, options))?,
            }
        }
    }
    Ok(Queues {
        file: Some(file.path.clone()),
        defaults,
        named,
        limits: file.limits.clone(),
        schedules: file.schedules.clone(),
        types: types::read(file)?,
    })
}

/// A file that names a shared limit says what it is.
fn known_limits(file: &File, pointer: &str, options: &Value) -> Result<(), Failure> {
    let known: Vec<&str> = file.limits.keys().map(String::as_str).collect();
    let named = options.get("limits").and_then(Value::as_array).into_iter().flatten().enumerate();
    for (index, name) in named.filter_map(|(index, name)| Some((index, name.as_str()?))) {
        if !known.contains(&name) {
            let hint = if known.is_empty() { format!("write [limits.{name}]") } else { hint(name, &known) };
            let pointer = format!("{pointer}/limits/{index}");
            return Err(file.wrong(&pointer, format!("the file has no limit `{name}`; {hint}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
