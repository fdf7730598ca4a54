//! What goes to a command and comes from it, in bounded memory.

use recado_contract::limits::ERROR_MESSAGE_BYTES_MAX;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::worker::Capture;

/// How much is read at a time, in bytes; also the longest line that is passed on whole.
const PIECE_BYTES: usize = 8 << 10;
/// As much of a line is kept, in bytes.
const LINE_BYTES_MAX: usize = ERROR_MESSAGE_BYTES_MAX;

/// Writes all of the input, then closes it.
pub(super) async fn feed(to: Option<impl AsyncWrite + Unpin>, input: &[u8]) {
    if let Some(mut to) = to {
        // A command that does not read its input does not need it.
        let _ = to.write_all(input).await;
    }
}

/// Reads to the end, keeps the beginning.
pub(super) async fn read(from: Option<impl AsyncRead + Unpin>, into: &mut Capture) {
    let Some(mut from) = from else { return };
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        into.push(&piece[..length]);
    }
}

/// Reads to the end, keeps the last line, and passes all on, whole lines at a time: others write there too.
pub(super) async fn pass_on(
    from: Option<impl AsyncRead + Unpin>,
    last: &mut LastLine,
    mut to: impl AsyncWrite + Unpin,
) {
    let Some(mut from) = from else { return };
    let (mut piece, mut line) = (vec![0; PIECE_BYTES], Vec::new());
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        last.push(&piece[..length]);
        line.extend_from_slice(&piece[..length]);
        let end = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if end == 0 && line.len() >= PIECE_BYTES { line.len() } else { end };
        // The command must not wait for a reader that has gone.
        let _ = to.write_all(&line[..end]).await;
        line.drain(..end);
    }
    let _ = to.write_all(&line).await;
}

/// The last line that is not blank, as much of it as a message has.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    last: Vec<u8>,
    /// What has no end yet.
    open: Vec<u8>,
}

impl LastLine {
    fn push(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES_MAX - self.open.len();
            self.open.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        if !self.open.trim_ascii().is_empty() {
            std::mem::swap(&mut self.last, &mut self.open);
        }
        self.open.clear();
    }

    pub(super) fn text(mut self) -> Option<String> {
        self.close();
        let text = String::from_utf8_lossy(self.last.trim_ascii());
        (!text.is_empty()).then(|| text.into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_line_that_says_something() {
        let long = "x".repeat(3 * PIECE_BYTES);
        for (said, expected) in [
            ("", None),
            ("\n \n", None),
            ("first\nlast\n\n", Some("last")),
            ("first\nno end", Some("no end")),
            (&*format!("first\n{long}\n"), Some(&long[..LINE_BYTES_MAX])),
            (&*format!("{long}\nlast\n"), Some("last")),
        ] {
            let (mut last, mut passed) = (LastLine::default(), Vec::new());
            pass_on(Some(said.as_bytes()), &mut last, &mut passed).await;
            assert_eq!(passed, said.as_bytes());
            assert_eq!(last.text().as_deref(), expected);
        }
    }
}
