//! Who asks: under which account and region queues are named, under which address they are reached, and whether the
//! caller is who it says.

use axum::http::header::HOST;
use recado_sqs::arn::Arn;
use recado_sqs::signature::Signed;
use recado_sqs::url::{self, Address};
use recado_sqs::{Call, SqsError};

use crate::http::App;
use crate::time;

/// The account of callers whose access key names none.
const DEFAULT_ACCOUNT: &str = "000000000000";
/// The region of callers that do not sign.
const DEFAULT_REGION: &str = "us-east-1";

/// A caller, and how queues are named for it.
pub(super) struct Caller {
    account: String,
    region: String,
    /// Scheme and host of queue URLs.
    base: String,
    isolate: bool,
}

impl Caller {
    /// Whoever sends this call.
    ///
    /// # Errors
    /// With keys configured, what the service says of signatures that are missing or wrong.
    pub(super) fn of(app: &App, call: &Call<'_>) -> Result<Self, SqsError> {
        let keys = &app.sqs.config.keys;
        let signed = if keys.is_empty() {
            // Anything goes, also what is no signature at all.
            Signed::parse(call).ok().flatten()
        } else {
            let signed = Signed::parse(call)?.ok_or_else(SqsError::missing_authentication_token)?;
            // A key of the configuration is no temporary one, which a session token would belong to.
            let known = keys.get(signed.access_key()).filter(|_| signed.session_token().is_none());
            let secret = known.ok_or_else(SqsError::invalid_client_token_id)?;
            signed.verify(call, secret, time::now() / 1_000)?;
            Some(signed)
        };
        // As other servers of this protocol have it: 12 digits for an access key name the account.
        let account = signed.as_ref().map(Signed::access_key).filter(|key| url::is_account(key));
        Ok(Self {
            account: account.unwrap_or(DEFAULT_ACCOUNT).to_owned(),
            region: signed.as_ref().map_or(DEFAULT_REGION, Signed::region).to_owned(),
            base: base(app, call),
            isolate: app.sqs.config.isolate,
        })
    }

    /// The engine's name of a queue.
    pub(super) fn native(&self, queue: &Address) -> Box<str> {
        self.native_of(&queue.name, &self.region, queue.account.as_deref().unwrap_or(&self.account))
    }

    /// The engine's name of the queue of an ARN.
    pub(super) fn native_of_arn(&self, arn: &Arn) -> Box<str> {
        self.native_of(&arn.name, &arn.region, &arn.account)
    }

    fn native_of(&self, name: &str, region: &str, account: &str) -> Box<str> {
        if self.isolate { format!("{name}:{region}:{account}").into() } else { name.into() }
    }

    /// The SQS name of one of the engine's queues; `None` when it is another account's or region's.
    pub(super) fn name<'n>(&self, native: &'n str) -> Option<&'n str> {
        if !self.isolate {
            return Some(native);
        }
        native.strip_suffix(&self.account)?.strip_suffix(':')?.strip_suffix(&self.region)?.strip_suffix(':')
    }

    /// The URL of a queue, under the address that the caller used.
    pub(super) fn url(&self, queue: &Address) -> String {
        url::queue_url(&self.base, queue.account.as_deref().unwrap_or(&self.account), &queue.name)
    }

    /// A queue of the caller's own.
    pub(super) fn address(&self, name: &str) -> Address {
        Address { account: Some(self.account.clone()), name: name.to_owned() }
    }

    /// The ARN of one of the engine's queues.
    pub(super) fn arn(&self, native: &str) -> Arn {
        let parts = || {
            let (rest, account) = native.rsplit_once(':')?;
            let (name, region) = rest.rsplit_once(':')?;
            Some(Arn::new(region, account, name))
        };
        let own = || Arn::new(&self.region, &self.account, native);
        if self.isolate { parts().unwrap_or_else(own) } else { own() }
    }

    /// Who sends.
    pub(super) fn account(&self) -> &str {
        &self.account
    }
}

fn base(app: &App, call: &Call<'_>) -> String {
    if let Some(public) = &app.public {
        return public.origin().to_owned();
    }
    let host = call.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    format!("http://{host}")
}
