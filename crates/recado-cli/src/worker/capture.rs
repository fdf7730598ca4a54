//! What a run said, as far as it can be a result.

use recado_contract::json::check_free;
use recado_contract::limits::RESULT_BYTES_MAX;
use serde_json::value::RawValue;

use super::Verdict;

/// The beginning of an output, as much as a result may have.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    kept: Vec<u8>,
    is_cut: bool,
}

impl Capture {
    /// Takes more, as far as there is room; false when there was not.
    pub(crate) fn push(&mut self, piece: &[u8]) -> bool {
        // Whitespace around a value is no part of it.
        let piece = if self.kept.is_empty() { piece.trim_ascii_start() } else { piece };
        let room = RESULT_BYTES_MAX - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        self.is_cut |= piece.len() > room && !piece[room..].trim_ascii().is_empty();
        !self.is_cut
    }

    /// Success. The output is the result if it is JSON; if not, it is none, and the job is done all the same.
    pub(crate) fn done(self) -> Verdict {
        if self.is_cut {
            return Verdict::Done { result: None, note: Some("its output has more than 64 KiB: no result is kept") };
        }
        let text = String::from_utf8(self.kept).unwrap_or_default();
        match RawValue::from_string(text.trim().to_owned()) {
            Ok(json) if check_free(&json, "").is_err() => {
                let note = "its output is JSON with a key twice, a number out of range or too deep: no result is kept";
                Verdict::Done { result: None, note: Some(note) }
            }
            json => Verdict::Done { result: json.ok(), note: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(output: &[&[u8]]) -> (Option<String>, bool) {
        let mut capture = Capture::default();
        for piece in output {
            capture.push(piece);
        }
        let Verdict::Done { result, note } = capture.done() else { panic!("not done") };
        (result.map(|result| result.get().to_owned()), note.is_some())
    }

    #[test]
    fn a_result_is_one_json_value() {
        let json = |text: &str| (Some(text.to_owned()), false);
        assert_eq!(result(&[b" {\"a\": ", b"1}\n"]), json("{\"a\": 1}"));
        assert_eq!(result(&[b"12"]), json("12"));
        for none in [&b"sent 12 mails\n"[..], b"", b"{\"a\":1}{\"a\":2}", b"\"\xff\""] {
            assert_eq!(result(&[none]), (None, false), "{none:?}");
        }
        let deep = "[".repeat(130) + &"]".repeat(130);
        for odd in [r#"{"a":1,"a":2}"#, "1e400", &deep] {
            assert_eq!(result(&[odd.as_bytes()]), (None, true), "{odd}");
        }
    }

    #[test]
    fn a_result_has_a_limit() {
        let long = format!("\"{}\"", "x".repeat(RESULT_BYTES_MAX - 2));
        assert_eq!(result(&[long.as_bytes()]), (Some(long.clone()), false));
        // What is around it does not count.
        assert_eq!(result(&[b"\n", b" \n", long.as_bytes(), b"\n", b" "]), (Some(long.clone()), false));
        for more in [&[long.as_bytes(), b"x"][..], &[long.as_bytes(), b"\n", b"x"], &[long.as_bytes(), b"\nx"]] {
            assert_eq!(result(more), (None, true));
        }
    }
}
