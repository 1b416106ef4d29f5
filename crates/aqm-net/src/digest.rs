//! Digests that identify results: SHA-256 hashes of texts and numbers, written in hexadecimal.

use sha2::{Digest as _, Sha256};

/// A digest that is being computed.
#[derive(Clone, Debug, Default)]
pub struct Digest(Sha256);

impl Digest {
    /// Adds a text.
    pub fn text(&mut self, text: &str) {
        self.0.update(text);
    }

    /// Adds the content of a file, or a part of it.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds a 64-bit number.
    pub fn word(&mut self, word: u64) {
        self.0.update(word.to_le_bytes());
    }

    /// Adds a 32-bit number.
    pub fn short(&mut self, short: u32) {
        self.0.update(short.to_le_bytes());
    }

    /// Returns the digest of everything that was added.
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
