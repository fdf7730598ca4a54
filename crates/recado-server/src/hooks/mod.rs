//! Inbound webhooks: what other services send becomes jobs.
//!
//! A sender has no key of this server; it signs what it sends with a secret of the hook. A secret is named by the
//! variable of the server's environment that holds it, and is nowhere else: not in the log, not in an answer.

mod definition;
mod event;
mod secret;
mod signature;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use recado_core::{Answer, HookView, Query, Rejection, Source};
use recado_shard::Handle;
use serde_json::Value;

use crate::http::unexpected;
use crate::problem::{Code, Problem};

pub(crate) use definition::{Definition, HookBody};
pub(crate) use event::{Event, Made};
pub(crate) use secret::Secret;
pub(crate) use signature::Refused;

/// One inbound webhook, ready to take what is sent to it.
pub(crate) struct Hook {
    pub(crate) name: Box<str>,
    pub(crate) source: Source,
    /// As it was put.
    pub(crate) config: HookBody,
    pub(crate) definition: Definition,
    pub(crate) secrets: Vec<Secret>,
}

impl Hook {
    fn read(view: &HookView) -> Result<Self, String> {
        let value: Value = serde_json::from_str(&view.text).map_err(|error| error.to_string())?;
        let read = HookBody::read(&value).map_err(|errors| {
            errors
                .into_iter()
                .map(|error| format!("{}: {}", error.pointer, error.message))
                .collect::<Vec<_>>()
                .join("; ")
        });
        let (config, definition) = read?;
        let secrets = definition.secrets();
        Ok(Self { name: view.name.clone(), source: view.source, config, definition, secrets })
    }
}

/// The hooks of a server as they were last read.
#[derive(Default)]
pub(crate) struct Hooks(Mutex<Option<Known>>);

/// None: this version cannot read it.
type ByName = BTreeMap<Box<str>, Option<Arc<Hook>>>;

struct Known {
    /// As of when; see [`Handle::config_version`].
    at: u64,
    hooks: Arc<ByName>,
}

impl Hooks {
    /// All of them, by name.
    pub(crate) async fn all(&self, shard: &Handle) -> Result<Arc<ByName>, Problem> {
        let at = shard.config_version();
        if let Some(known) = self.known(at) {
            return Ok(known);
        }
        let views = match shard.query(Query::Hooks).await? {
            Answer::Hooks(views) => views,
            other => return Err(unexpected(&other)),
        };
        let hooks: Arc<ByName> = Arc::new(views.iter().map(|view| (view.name.clone(), readable(view))).collect());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Known { at, hooks: Arc::clone(&hooks) });
        Ok(hooks)
    }

    fn known(&self, at: u64) -> Option<Arc<ByName>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|known| known.at == at).map(|known| Arc::clone(&known.hooks))
    }

    /// One of them.
    pub(crate) async fn get(&self, shard: &Handle, name: &str) -> Result<Arc<Hook>, Problem> {
        let all = self.all(shard).await?;
        match all.get(name) {
            Some(Some(hook)) => Ok(Arc::clone(hook)),
            Some(None) => Err(Problem::new(Code::Internal, "this version cannot read the hook: put it again")),
            None => {
                let names = all.keys().map(|name| &**name);
                let nearest = crate::nearest::nearest(name, names).map(Box::from);
                Err(Rejection::HookNotFound { name: name.into(), nearest }.into())
            }
        }
    }
}

fn readable(view: &HookView) -> Option<Arc<Hook>> {
    match Hook::read(view) {
        Ok(hook) => Some(Arc::new(hook)),
        Err(why) => {
            tracing::error!(hook = %view.name, why, "a hook cannot be read, and takes nothing: put it again");
            None
        }
    }
}

/// Says at the start which hooks lack a secret: what is sent to them would be refused, and nobody else would notice.
pub(crate) async fn tell_missing(hooks: &Hooks, shard: &Handle) -> Result<(), Problem> {
    for hook in hooks.all(shard).await?.values().flatten() {
        for (variable, why) in hook.secrets.iter().filter_map(Secret::fault) {
            tracing::warn!(hook = %hook.name, variable, why, "a hook lacks a secret: set the variable and start again");
        }
    }
    Ok(())
}
