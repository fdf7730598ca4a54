//! What a worker prints: a line when it starts, one for each run that ended, one when it stops.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use recado::{Ctx, Summary};
use recado_contract::duration;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, Stdout};
use tokio::sync::Mutex;

use super::verdict::{Retry, Verdict};
use crate::ui::{Paint, Ui, printable};

/// Standard output, a line at a time. Whoever does not read it holds up the runs that ended, not their leases.
#[derive(Clone)]
pub(super) struct Lines {
    ui: Ui,
    out: Arc<Mutex<Stdout>>,
    is_broken: Arc<AtomicBool>,
}

impl Lines {
    pub(super) fn new(ui: Ui) -> Self {
        Self { ui, out: Arc::new(Mutex::new(tokio::io::stdout())), is_broken: Arc::default() }
    }

    pub(super) async fn started(&self, queues: &[String], concurrency: usize) {
        let text = format!("working on {}, {concurrency} at a time", queues.join(", "));
        self.print(&text, &json!({ "event": "started", "queues": queues, "concurrency": concurrency })).await;
    }

    pub(super) async fn stopped(&self, summary: &Summary) {
        let Summary { completed, failed, released, overtaken, refused, .. } = summary;
        let text = format!(
            "stopped: {completed} done, {failed} failed, {released} given back, {overtaken} overtaken, {refused} refused"
        );
        let json = json!({
            "event": "stopped", "completed": completed, "failed": failed, "released": released, "overtaken": overtaken,
            "refused": refused,
        });
        self.print(&text, &json).await;
    }

    /// A run has ended. That it is settled too comes after this.
    pub(super) async fn ended(&self, ctx: &Ctx, verdict: &Verdict, took: Duration) {
        let took = duration::text(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let mut json = json!({
            "event": "ended", "id": ctx.id().to_string(), "queue": ctx.queue(), "type": ctx.kind(),
            "attempt": ctx.attempt(), "took": took,
        });
        let said = match verdict {
            Verdict::Done { note, .. } => {
                json["outcome"] = json!("ack");
                let note = note.map(|note| format!(" ({note})")).unwrap_or_default();
                self.ui.paint(Paint::Green, "done") + &note
            }
            Verdict::Failed { kind, message, retry } => {
                json["outcome"] = json!("fail");
                json["error"] = json!({ "kind": kind, "message": message, "retryable": *retry != Retry::Never });
                let word = if *retry == Retry::Never { "failed for good" } else { "failed" };
                format!("{}: {kind}: {}", self.ui.paint(Paint::Red, word), printable(message))
            }
            Verdict::GivenBack { reason, .. } => {
                json["outcome"] = json!("release");
                json["reason"] = json!(reason);
                format!("{}: {}", self.ui.paint(Paint::Yellow, "gives it back"), printable(reason))
            }
        };
        let attempt = match ctx.max_attempts() {
            u32::MAX => format!("attempt {}", ctx.attempt()),
            max => format!("attempt {} of {max}", ctx.attempt()),
        };
        self.print(&format!("{} {} {attempt}, {took}: {said}", ctx.id(), ctx.kind()), &json).await;
    }

    async fn print(&self, text: &str, json: &Value) {
        let line = if self.ui.json { format!("{json}\n") } else { format!("{text}\n") };
        let mut out = self.out.lock().await;
        let written = async {
            out.write_all(line.as_bytes()).await?;
            out.flush().await
        };
        if let Err(error) = written.await
            && !self.is_broken.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "standard output is gone: the work goes on without it");
        }
    }
}
