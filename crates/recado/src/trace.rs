//! Which trace work belongs to: W3C Trace Context, from the producer through the job to what the job enqueues.

use std::fmt;

/// The header that carries it.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// A place in a trace, as `traceparent` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

tokio::task_local! {
    /// Of the run that this task is.
    static CURRENT: TraceContext;
}

impl TraceContext {
    /// Reads a `traceparent`; `None` when it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut hex = |digits: usize| {
            let part = parts.next()?;
            let is_hex = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            (part.len() == digits && is_hex).then(|| u128::from_str_radix(part, 16).ok()).flatten()
        };
        let (version, trace, span, flags) = (hex(2)?, hex(32)?, hex(16)? as u64, hex(2)? as u8);
        // Later versions may say more; this one says no more.
        let is_whole = version != 0xff && (version != 0 || parts.next().is_none());
        (is_whole && trace != 0 && span != 0).then_some(Self { trace, span, flags })
    }

    /// A trace of its own.
    #[must_use]
    pub fn new_root() -> Self {
        Self { trace: rand::random::<u128>().max(1), span: rand::random::<u64>().max(1), flags: 0 }
    }

    /// A new span of the same trace.
    #[must_use]
    pub fn child(self) -> Self {
        Self { span: rand::random::<u64>().max(1), ..self }
    }

    /// Of the run in which this is called; `None` outside of handlers.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(|current| *current).ok()
    }

    /// Makes it the current one of a future.
    pub(crate) fn scope<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, future)
    }

    /// The trace, 32 hex digits.
    #[must_use]
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The span, 16 hex digits.
    #[must_use]
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(TraceContext::parse(text).unwrap().to_string(), text);
        assert!(TraceContext::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
        for wrong in [
            "",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(wrong), None, "{wrong}");
        }
    }
}
