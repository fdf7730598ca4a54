//! Cursors: where the next page of a list begins. Opaque to clients; lower-case hex digits, so that they
//! stand in a URL as they are.

use alloc::string::String;
use alloc::vec::Vec;

use super::Page;
use crate::rejection::Rejection;

/// Entries of a page whose size was left out.
const LIMIT_DEFAULT: usize = 100;

/// Entries of a page at most.
const LIMIT_MAX: usize = 1_000;

/// Entries that a page looks at, whether or not they are meant: longer walks go on with the next page.
pub(super) const LOOKED_AT_MAX: usize = 1_000;

/// Bytes of the longest text that a cursor holds: a name.
const TEXT_BYTES_MAX: usize = 256;

/// The last place that a page has looked at: a part of the list, and a place in that part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) part: u32,
    pub(super) spot: u128,
}

const PART_BYTES: usize = 4;
const MARK_BYTES: usize = PART_BYTES + 16;

impl Mark {
    /// A place in a list of one part.
    pub(super) fn at(spot: u128) -> Self {
        Self { part: 0, spot }
    }

    fn encode(self) -> String {
        let mut bytes = [0; MARK_BYTES];
        bytes[..PART_BYTES].copy_from_slice(&self.part.to_be_bytes());
        bytes[PART_BYTES..].copy_from_slice(&self.spot.to_be_bytes());
        hex(&bytes)
    }
}

impl Page {
    /// Entries that this page takes; 0 stands for the default.
    pub(super) fn size(&self) -> usize {
        if self.limit == 0 { LIMIT_DEFAULT } else { self.limit.min(LIMIT_MAX) }
    }

    /// Where it goes on.
    pub(super) fn mark(&self) -> Result<Option<Mark>, Rejection> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let bytes = unhex(cursor, MARK_BYTES).filter(|bytes| bytes.len() == MARK_BYTES).ok_or_else(unreadable)?;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n: u128, byte| n << 8 | u128::from(*byte));
        Ok(Some(Mark { part: number(&bytes[..PART_BYTES]) as u32, spot: number(&bytes[PART_BYTES..]) }))
    }

    /// The same for a list in the order of names: the last name.
    pub(super) fn name(&self) -> Result<Option<String>, Rejection> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        let bytes = unhex(cursor, TEXT_BYTES_MAX).ok_or_else(unreadable)?;
        String::from_utf8(bytes).map(Some).map_err(|_| unreadable())
    }
}

/// The cursor behind `name`.
pub(super) fn after_name(name: &str) -> String {
    hex(name.as_bytes())
}

/// A page in the making: how much was looked at, and what was taken.
#[derive(Debug)]
pub(super) struct Walk<T> {
    size: usize,
    looked_at: usize,
    last: Mark,
    is_cut: bool,
    taken: Vec<T>,
}

impl<T> Walk<T> {
    pub(super) fn new(page: &Page) -> Self {
        Self { size: page.size(), looked_at: 0, last: Mark::at(0), is_cut: false, taken: Vec::new() }
    }

    /// Looks at the entry at `mark`, taking what `take` makes of it. False when the page is full: the entry
    /// was not looked at, and the walk ends here.
    pub(super) fn look(&mut self, mark: Mark, take: impl FnOnce() -> Option<T>) -> bool {
        if self.taken.len() == self.size || self.looked_at == LOOKED_AT_MAX {
            self.is_cut = true;
            return false;
        }
        self.looked_at += 1;
        self.last = mark;
        self.taken.extend(take());
        true
    }

    /// What was taken, and the cursor of the next page if there may be one.
    pub(super) fn end(self) -> (Vec<T>, Option<String>) {
        (self.taken, self.is_cut.then(|| self.last.encode()))
    }
}

fn unreadable() -> Rejection {
    let message = "the cursor is not one of this list; leave it out to begin at the first page".into();
    Rejection::Invalid { index: 0, pointer: "/cursor".into(), message }
}

fn hex(bytes: &[u8]) -> String {
    let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(|nibble| char::from_digit(u32::from(nibble), 16).unwrap_or('0')).collect()
}

fn unhex(text: &str, bytes_max: usize) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    (digits.len() <= 2 * bytes_max && digits.len().is_multiple_of(2)).then_some(())?;
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    digits.chunks_exact(2).map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(cursor: &str) -> Page {
        Page { cursor: Some(cursor.into()), limit: 10 }
    }

    #[test]
    fn a_mark_comes_back_from_its_cursor() {
        let mark = Mark { part: 257, spot: u128::MAX - 5 };
        assert_eq!(page(&mark.encode()).mark(), Ok(Some(mark)));
        assert!(mark.encode().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
        assert_eq!(page(&after_name("e:mail_1.x-y")).name(), Ok(Some("e:mail_1.x-y".into())));
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let mark = Mark::at(1).encode();
        let long = "61".repeat(TEXT_BYTES_MAX + 1);
        for text in
            ["", "0", "zz", "é", &mark[2..], &mark.replace('1', "g"), &mark.replace('0', "F"), &(mark.clone() + "00")]
        {
            assert!(
                matches!(page(text).mark(), Err(Rejection::Invalid { pointer, .. }) if pointer == "/cursor"),
                "{text}"
            );
        }
        for text in ["a", "ff", "xx", &long] {
            assert!(page(text).name().is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_has_a_size_within_its_limits() {
        let size = |limit| Page { cursor: None, limit }.size();
        assert_eq!([0, 1, 1_000, 1_001].map(size), [100, 1, 1_000, 1_000]);
    }

    #[test]
    fn a_walk_that_was_not_cut_has_no_cursor() {
        let walk = |entries: u128, limit| {
            let mut walk = Walk::new(&Page { cursor: None, limit });
            let _ = (0..entries).all(|n| walk.look(Mark::at(n), || Some(n)));
            let (taken, cursor) = walk.end();
            (taken.len(), cursor.is_some())
        };
        assert_eq!([walk(2, 2), walk(3, 2), walk(0, 2)], [(2, false), (2, true), (0, false)]);
        let mut none_fits = Walk::<u128>::new(&Page::default());
        assert!(!(0..=LOOKED_AT_MAX as u128).all(|n| none_fits.look(Mark::at(n), || None)));
        assert!(none_fits.end().1.is_some());
    }
}
