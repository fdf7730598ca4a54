//! Random changes of inputs, for runs without a fuzzer.

/// Random numbers that a seed gives again (SplitMix64).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number from 0 to below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Longest input.
const INPUT_BYTES_MAX: usize = 4096;

/// What parsers stumble over.
const WORDS: &[&[u8]] = &[
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e999",
    b"18446744073709551616",
    b"\"\"",
    b"\"\\ud800\"",
    b"{}",
    b"[]",
    b"[[",
    b"}",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"ms",
    b"d",
    b"1.5s",
    b"=",
    b"[queues.a]",
    b"# ",
    b"job_",
    b"\xff\xff\xff\xff",
];

/// One of the inputs, changed in one to eight ways.
pub fn mutate(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = corpus[random.below(corpus.len())].clone();
    for _ in 0..1 + random.below(8) {
        change(&mut input, corpus, random);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let (from, to) = range(input.len(), random);
    match random.below(8) {
        0 if from < input.len() => input[from] ^= 1 << random.below(8),
        1 if from < input.len() => input[from] = random.below(256) as u8,
        2 => drop(input.drain(from..to)),
        3 => {
            let piece = input[from..to].to_vec();
            let at = random.below(input.len() + 1);
            input.splice(at..at, piece);
        }
        4 => {
            let other = &corpus[random.below(corpus.len())];
            let (begin, end) = range(other.len(), random);
            input.splice(from..to, other[begin..end].iter().copied());
        }
        5 => {
            let bytes = (0..random.below(9)).map(|_| random.below(256) as u8).collect::<Vec<_>>();
            input.splice(from..from, bytes);
        }
        _ => {
            let word = WORDS[random.below(WORDS.len())];
            let end = if random.below(2) == 0 { from } else { to };
            input.splice(from..end, word.iter().copied());
        }
    }
}

/// A part of so many bytes, mostly a short one.
fn range(length: usize, random: &mut Random) -> (usize, usize) {
    let from = random.below(length + 1);
    let longest = if random.below(4) == 0 { length } else { 8 };
    (from, length.min(from + random.below(longest + 1)))
}
