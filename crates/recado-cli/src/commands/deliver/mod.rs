//! `recado deliver -q QUEUE --to URL`: POSTs each job to a web address, signed.

mod post;
mod sign;
mod target;

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use recado_contract::duration;
use reqwest::{Client, Url, redirect};

use self::post::Endpoint;
use self::sign::Secret;
use self::target::{LookUpError, PublicOnly};
use crate::failure::{Exit, Failure, Outcome};
use crate::service::runtime;
use crate::ui::Ui;
use crate::worker::{self, SIGNALS};

/// How long a connection may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// Where to, and how it knows who sent it.
#[derive(clap::Args, Debug)]
#[command(after_help = HELP.to_owned() + SIGNALS)]
pub(crate) struct Args {
    /// Web address to POST to
    #[arg(long, value_name = "URL")]
    to: String,
    /// Secret to sign with (whsec_...), several for a receiver that changes over; everyone on this machine can
    /// see a command line, so prefer the environment (several with blanks between)
    #[arg(
        long = "secret",
        env = "RECADO_WEBHOOK_SECRET",
        hide_env_values = true,
        value_delimiter = ' ',
        value_name = "SECRET"
    )]
    secrets: Vec<String>,
    /// Also deliver to loopback, private and other addresses that are not on the public internet
    #[arg(long)]
    allow_private: bool,
    /// Longest time until the answer; then the attempt has failed
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = duration::read)]
    timeout: Duration,
    // Last, since its headings go on until others come.
    #[command(flatten)]
    worker: worker::Settings,
}

const HELP: &str = "The body is the payload, byte for byte. The headers are those of Standard Webhooks (webhook-id, which is the \
    job's id, webhook-timestamp, webhook-signature), recado-job-type, recado-attempt and, where the job has one, \
    recado-idempotency-key.\n\
    2xx: done; the answer's body, if it is JSON of at most 64 KiB, is the result. 408, 425, 429, 5xx, 3xx (no \
    redirect is followed) and no answer: tried again, not before Retry-After. Other 4xx: dead at once.\n\n\
    Example:\n  RECADO_WEBHOOK_SECRET=whsec_... recado deliver -q webhooks --to https://example.org/hook -c 16\n\n";

/// Works.
pub(crate) fn run(args: &Args, ui: Ui) -> Outcome {
    let endpoint = endpoint(args)?;
    check(&endpoint.url, args.allow_private)?;
    worker::run(&args.worker, ui, None, endpoint)
}

fn endpoint(args: &Args) -> Result<Endpoint, Failure> {
    let wrong = |why: &str| Failure::usage(format!("--to {}: {why}", args.to));
    let url: Url = args.to.parse().map_err(|_| wrong("not an address, it looks like https://example.org/hook"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("only http and https are delivered to"));
    }
    let secret = |(index, text): (usize, &String)| {
        Secret::parse(text).map_err(|why| Failure::usage(format!("secret {}: {why}", index + 1)))
    };
    let secrets: Vec<_> = args.secrets.iter().enumerate().map(secret).collect::<Result<_, _>>()?;
    // A proxy would look names up by itself.
    let mut client = Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .connect_timeout(CONNECT_TIME_MAX)
        .user_agent(concat!("recado/", env!("CARGO_PKG_VERSION")));
    if !args.allow_private {
        client = client.dns_resolver(Arc::new(PublicOnly));
    }
    if url.scheme() == "http" {
        // A machine may have no root certificates, and then needs none.
        client = client.tls_certs_only([]);
    }
    let cannot = |error: reqwest::Error| {
        let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        Failure::new(Exit::Unavailable, format!("no request can be made: {cause}"))
    };
    let client = client.build().map_err(cannot)?;
    Ok(Endpoint { url, client, secrets, timeout: args.timeout })
}

/// An address that leads nowhere, or where it may not, is told before the first job is taken.
fn check(url: &Url, allow_private: bool) -> Result<(), Failure> {
    match runtime()?.block_on(target::check(url)) {
        Err(LookUpError::NotPublic(why)) if !allow_private => {
            Err(Failure::new(Exit::NotAllowed, format!("--to {why}")))
        }
        Err(error @ LookUpError::Io(..)) => Err(Failure::new(Exit::Unavailable, format!("--to {error}"))),
        Ok(()) | Err(LookUpError::NotPublic(_)) => Ok(()),
    }
}
