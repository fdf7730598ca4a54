//! The batch being built: facts, and the bytes they point to.

use alloc::vec::Vec;

use minicbor::Encode;

use crate::codec::{encode, encode_batch};
use crate::event::{Event, Span};

/// Memory that an empty draft keeps for each part of the next batch, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What the commands of one batch have decided so far. It is used again for the next batch, so that its memory is.
#[derive(Debug, Default)]
pub struct Draft {
    /// Position the batch will have.
    pub position: u64,
    /// A tick ends before it would make the batch longer than this, in bytes.
    pub bytes_max: usize,
    /// Facts of the command at hand, not applied yet.
    pub(crate) events: Vec<Event>,
    /// Applied facts, encoded.
    pub(crate) head: Vec<u8>,
    /// Payload bytes.
    pub(crate) tail: Vec<u8>,
    /// Whether any fact is more than a receive.
    pub(crate) only_receives: bool,
}

impl Draft {
    /// An empty batch at `position`.
    #[must_use]
    pub fn new(position: u64) -> Self {
        Self { position, bytes_max: usize::MAX, only_receives: true, ..Self::default() }
    }

    /// Nothing was decided.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    /// Bytes of facts and payloads so far.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The batch holds only receives, whose loss in a power failure is harmless.
    #[must_use]
    pub fn only_receives(&self) -> bool {
        self.only_receives
    }

    /// Takes the batch out, decided at `at`: head and tail for the log, neither with memory to spare. Nothing is
    /// decided then.
    #[must_use]
    pub fn take(&mut self, at: u64) -> (Vec<u8>, Vec<u8>) {
        self.only_receives = true;
        let head = encode_batch(at, &self.head);
        self.head.clear();
        self.head.shrink_to(KEPT_BYTES_MAX);
        if self.tail.capacity() > KEPT_BYTES_MAX {
            let mut tail = core::mem::take(&mut self.tail);
            tail.shrink_to_fit();
            return (head, tail);
        }
        let tail = self.tail.as_slice().to_vec();
        self.tail.clear();
        (head, tail)
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Span {
        let offset = self.tail.len();
        self.tail.extend_from_slice(bytes);
        self.span_from(offset)
    }

    pub(crate) fn put_encoded(&mut self, value: &impl Encode<()>) -> Span {
        let offset = self.tail.len();
        encode(value, &mut self.tail);
        self.span_from(offset)
    }

    fn span_from(&self, offset: usize) -> Span {
        let number = |bytes: usize| u32::try_from(bytes).unwrap_or_else(|_| panic!("a batch stays below 4 GiB"));
        Span { offset: number(offset), length: number(self.tail.len() - offset) }
    }

    /// What the command at hand has decided so far: see [`Draft::back_to`].
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.events.len(), self.tail.len())
    }

    /// Drops what was decided since the mark.
    pub(crate) fn back_to(&mut self, (events, tail): (usize, usize)) {
        self.events.truncate(events);
        self.tail.truncate(tail);
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
    }
}
