//! The bytes of a value on their way to a blob and back: counted, hashed, and compressed if that is
//! asked for and pays.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder as Whole;
use flate2::write::{GzDecoder, GzEncoder};
use rowkey::{Error, ErrorKind, Result};
use sha2::{Digest as _, Sha256};

use super::pointer::{Encoding, hash};
use crate::name::hexadecimal;

/// What is decoded at a time: gzip makes at most a thousand times as much of it.
const SLICE: usize = 4 * 1024;

/// The value in gzip, if that is shorter.
pub(super) fn compressed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::default());
    // Memory takes whatever is written.
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish()).ok()?;
    (written.len() < bytes.len()).then_some(written)
}

/// The value that a blob holds, if it is the one that the row says: so long, with this hash.
pub(super) fn value(
    stored: Vec<u8>,
    encoding: Option<Encoding>,
    length: u64,
    sha256: &str,
) -> Result<Vec<u8>> {
    let bytes = match encoding {
        None => stored,
        Some(Encoding::Gzip) => {
            let mut bytes = Vec::new();
            // One byte more than there may be tells that there are more.
            let mut decoder = Whole::new(&*stored).take(length.saturating_add(1));
            decoder.read_to_end(&mut bytes).map_err(|_| damaged())?;
            bytes
        }
    };
    if bytes.len() as u64 != length || hash(&bytes) != sha256 {
        return Err(damaged());
    }
    Ok(bytes)
}

#[cold]
pub(super) fn damaged() -> Error {
    let what = "the blob of a property is not what was written: its length or its SHA-256 is \
                not that which the row says";
    Error::refused(ErrorKind::Damaged, what)
        .advise("read it again; if that does not help, something else wrote to the blob")
}

/// Counts and hashes what passes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    length: u64,
    sha256: Sha256,
}

impl Tally {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.sha256.update(bytes);
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// How long it was, and its hash.
    pub(super) fn finish(&self) -> (u64, String) {
        (self.length, hexadecimal(&self.sha256.clone().finalize()))
    }
}

/// Compresses a value piece by piece.
pub(super) struct Encoder(Option<GzEncoder<Vec<u8>>>);

impl Encoder {
    pub(super) fn new(encoding: Option<Encoding>) -> Self {
        Self(encoding.map(|Encoding::Gzip| GzEncoder::new(Vec::new(), Compression::default())))
    }

    /// What the blob gets of a piece; the encoder may keep some of it.
    pub(super) fn push(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        let Some(encoder) = &mut self.0 else { return Ok(piece.to_vec()) };
        encoder.write_all(piece)?;
        Ok(std::mem::take(encoder.get_mut()))
    }

    /// What it has kept.
    pub(super) fn finish(&mut self) -> io::Result<Vec<u8>> {
        self.0.take().map_or_else(|| Ok(Vec::new()), GzEncoder::finish)
    }
}

/// Makes a value of a blob piece by piece.
pub(super) struct Decoder(Option<GzDecoder<Vec<u8>>>);

impl Decoder {
    pub(super) fn new(encoding: Option<Encoding>) -> Self {
        Self(encoding.map(|Encoding::Gzip| GzDecoder::new(Vec::new())))
    }

    /// What is decoded of the beginning of `piece`, which is taken off it. May be nothing.
    pub(super) fn pull(&mut self, piece: &mut bytes::Bytes) -> Result<bytes::Bytes> {
        let Some(decoder) = &mut self.0 else { return Ok(std::mem::take(piece)) };
        let slice = piece.split_to(SLICE.min(piece.len()));
        decoder.write_all(&slice).map_err(|_| damaged())?;
        Ok(std::mem::take(decoder.get_mut()).into())
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> Result<bytes::Bytes> {
        match self.0.take() {
            None => Ok(bytes::Bytes::new()),
            Some(decoder) => decoder.finish().map(Into::into).map_err(|_| damaged()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_become_shorter_is_not_compressed() {
        assert!(compressed(b"abc").is_none());
        assert!(compressed(&[7; 4096]).unwrap().len() < 100);
    }

    #[test]
    fn a_value_that_is_not_the_one_of_the_row_is_damaged() {
        let (bytes, sha256) = (b"a photo".to_vec(), hash(b"a photo"));
        assert_eq!(value(bytes.clone(), None, 7, &sha256).unwrap(), bytes);
        for (stored, length) in [(b"a phoro".to_vec(), 7), (bytes.clone(), 6), (Vec::new(), 7)] {
            let error = value(stored, None, length, &sha256).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
        }
        let zipped = compressed(&[7; 4096]).unwrap();
        let sha256 = hash(&[7; 4096]);
        assert_eq!(value(zipped.clone(), Some(Encoding::Gzip), 4096, &sha256).unwrap(), [7; 4096]);
        let cut = zipped[..zipped.len() - 9].to_vec();
        assert!(value(cut, Some(Encoding::Gzip), 4096, &sha256).is_err());
    }

    #[test]
    fn a_blob_that_unpacks_to_more_than_the_row_says_is_not_unpacked_to_its_end() {
        let bomb = compressed(&vec![0; 8 << 20]).unwrap();
        assert!(value(bomb, Some(Encoding::Gzip), 10, "").is_err());
    }

    #[test]
    fn pieces_of_any_length_decode_to_what_was_encoded() {
        let text: Vec<u8> =
            (0..100_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        for encoding in [None, Some(Encoding::Gzip)] {
            let mut encoder = Encoder::new(encoding);
            let mut stored = Vec::new();
            for piece in text.chunks(7_777) {
                stored.extend(encoder.push(piece).unwrap());
            }
            stored.extend(encoder.finish().unwrap());
            let mut decoder = Decoder::new(encoding);
            let mut read = Vec::new();
            for piece in stored.chunks(10_001) {
                let mut piece = bytes::Bytes::copy_from_slice(piece);
                while !piece.is_empty() {
                    read.extend(decoder.pull(&mut piece).unwrap());
                }
            }
            read.extend(decoder.finish().unwrap());
            assert!(read == text);
        }
    }
}
