//! Mutated messages for tests of what decodes: the same ones at each run.

use std::ops::Range;

/// Numbers that look random (SplitMix64).
pub(crate) struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// What is put into a message.
const PUT: [&[u8]; 7] = [&[0xff], &[0], &[0xff; 9], b"\"", b"{", b"[", b"999999999999999999999999"];

/// Copies of a message with a few bits flipped, bytes cut, doubled, or put in.
pub(crate) fn mutants(golden: &[u8], rounds: u64) -> impl Iterator<Item = Vec<u8>> {
    (0..rounds).map(move |seed| {
        let mut numbers = Numbers(seed);
        let mut bytes = golden.to_vec();
        for _ in 0..=numbers.below(3) {
            mutate(&mut bytes, &mut numbers);
        }
        bytes
    })
}

fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.below(bytes.len() + 1);
    let some: Range<usize> = at..(at + 1 + numbers.below(8)).min(bytes.len());
    match numbers.below(4) {
        0 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
        1 => drop(bytes.drain(some)),
        2 => {
            let twice = bytes[some].to_vec();
            bytes.splice(at..at, twice);
        }
        _ => {
            let put = PUT[numbers.below(PUT.len())];
            bytes.splice(at..at, put.iter().copied());
        }
    }
}
