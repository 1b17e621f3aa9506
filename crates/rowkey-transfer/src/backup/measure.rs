//! Counts and hashes the bytes that are written or read.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

/// A writer or a reader whose bytes are counted and hashed.
#[derive(Debug)]
pub(super) struct Measured<T> {
    inner: T,
    bytes: u64,
    hash: Sha256,
}

impl<T> Measured<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, bytes: 0, hash: Sha256::new() }
    }

    /// How many bytes passed, and their SHA-256 in hexadecimal.
    pub(super) fn measure(&self) -> (u64, String) {
        let mut text = String::with_capacity(64);
        for byte in self.hash.clone().finalize() {
            let _ = write!(text, "{byte:02x}");
        }
        (self.bytes, text)
    }

    pub(super) fn into_inner(self) -> T {
        self.inner
    }

    fn pass(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<W: Write> Write for Measured<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.pass(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.pass(&into[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_counted_and_hashed() {
        let mut out = Measured::new(Vec::new());
        out.write_all(b"a").unwrap();
        out.write_all(b"bc").unwrap();
        // NIST, SHA-256 of "abc".
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(out.measure(), (3, hash.to_owned()));
        let bytes = out.into_inner();
        let mut read = Measured::new(&bytes[..]);
        io::copy(&mut read, &mut io::sink()).unwrap();
        assert_eq!(read.measure(), (3, hash.to_owned()));
    }
}
