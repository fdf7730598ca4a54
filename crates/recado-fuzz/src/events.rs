//! What stands in a batch of the log: it may be of any version, or of nobody.

/// Events are small; a list that claims to be long must not be believed.
const MEMORY_BYTES_MAX: usize = 1 << 20;

/// A batch is read or refused, whatever it says of its lengths.
pub(crate) fn run(input: &[u8]) {
    let bytes_max = MEMORY_BYTES_MAX + 64 * input.len();
    crate::within_memory(
        || bytes_max,
        || {
            let read = recado_core::decode_batch(input, drop);
            // Whether it is refused, and why, depends on nothing else.
            assert_eq!(recado_core::decode_batch(input, drop), read);
        },
    );
}
