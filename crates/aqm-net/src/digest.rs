//! The name of what was computed: SHA-256 over texts and numbers, in hexadecimal digits.

use sha2::{Digest as _, Sha256};

/// A digest that is being made.
#[derive(Clone, Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Takes in a text.
    pub fn text(&mut self, text: &str) {
        self.0.update(text);
    }

    /// Takes in what a file holds, or a part of it.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Takes in a number.
    pub fn word(&mut self, word: u64) {
        self.0.update(word.to_le_bytes());
    }

    /// Takes in a short number.
    pub fn short(&mut self, short: u32) {
        self.0.update(short.to_le_bytes());
    }

    /// The digest of all that was taken in.
    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_fips_180() {
        let mut digest = Digest::default();
        digest.text("a");
        digest.bytes(b"bc");
        assert_eq!(digest.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
