//! How patient a runner is with a queue that does not answer.

use std::time::Duration;

use tokio::time::Instant;

use crate::backend::ANSWER_TIME_MAX;
use crate::error::Error;
use crate::pause::Pauses;

/// After a call that failed: the first wait, and the longest.
pub(super) const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Shortest time for an answer. It doubles with each answer that does not come in time: a server that is only slow is
/// understood in the end.
const ANSWER_TIME_MIN: Duration = Duration::from_secs(1);
/// While it goes on failing, people are told so often.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Of one kind of call, since one last succeeded.
pub(super) struct Pause {
    pauses: Pauses,
    /// When a call that failed may be made again.
    pub(super) until: Option<Instant>,
    answer_time_min: Duration,
    told_at: Option<Instant>,
}

impl Default for Pause {
    fn default() -> Self {
        Self { pauses: Pauses::new(PAUSE.0, PAUSE.1), until: None, answer_time_min: ANSWER_TIME_MIN, told_at: None }
    }
}

impl Pause {
    pub(super) fn after_failure(&mut self) {
        self.until = Some(Instant::now() + self.pauses.next());
    }

    /// After a call without an answer. True when people should hear of it.
    pub(super) fn after(&mut self, error: &Error) -> bool {
        self.after_failure();
        if error.is_timeout() {
            self.answer_time_min = (self.answer_time_min * 2).min(ANSWER_TIME_MAX);
        }
        let now = Instant::now();
        let is_to_tell = self.told_at.is_none_or(|at| at + TELL_EVERY <= now);
        if is_to_tell {
            self.told_at = Some(now);
        }
        is_to_tell
    }

    /// A call was answered, whatever the answer says.
    pub(super) fn answered(&mut self) {
        self.answer_time_min = ANSWER_TIME_MIN;
    }

    /// A call succeeded. True when people heard that none were.
    pub(super) fn end(&mut self) -> bool {
        std::mem::take(self).told_at.is_some()
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// How long to wait for an answer on which leases depend, the first of which ends in `left`: when it does not
    /// come there is as much time again for another connection.
    pub(super) fn answer_time(&self, left: Duration) -> Duration {
        (left / 2).clamp(self.answer_time_min, ANSWER_TIME_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// An answer that does not come in time.
    async fn timeout() -> Error {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = reqwest::Client::new().get(&url).timeout(Duration::from_millis(1)).send().await;
        Error::AnswerLost { url: url.into(), source: Arc::new(asked.unwrap_err()) }
    }

    #[tokio::test]
    async fn answers_are_waited_for_half_of_what_is_left_and_longer_when_none_come() {
        let (second, mut pause) = (Duration::from_secs(1), Pause::default());
        assert_eq!(pause.answer_time(20 * second), 10 * second);
        assert_eq!(pause.answer_time(Duration::ZERO), second);
        assert_eq!(pause.answer_time(Duration::MAX), ANSWER_TIME_MAX);
        let error = timeout().await;
        assert!(error.is_timeout());
        for expected in [2, 4, 8, 16, 30, 30] {
            pause.after(&error);
            assert_eq!(pause.answer_time(Duration::ZERO), expected * second);
        }
        pause.answered();
        assert_eq!(pause.answer_time(Duration::ZERO), second);
    }

    #[tokio::test]
    async fn people_hear_of_it_once() {
        let (mut pause, error) = (Pause::default(), timeout().await);
        assert!(pause.after(&error));
        assert!(!pause.after(&error));
        assert!(pause.end(), "and of the end");
        assert!(!pause.end());
        assert!(pause.after(&error));
    }
}
