//! Checksums of bodies: MD5 and the storage CRC64, both computed incrementally.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};

use super::crc64::Crc64;

/// An MD5, 16 bytes, as `Content-MD5` carries it in base64.
pub type Md5Sum = [u8; 16];

/// A CRC64 as in `x-ms-content-crc64`, there in base64: 8 bytes, little-endian.
pub type Crc64Sum = [u8; 8];

/// Computes checksums of a body that is received in pieces. The default computes none.
#[derive(Clone, Default)]
pub struct Checksum {
    crc64: Option<Crc64>,
    md5: Option<Md5>,
}

impl Checksum {
    /// Computes the requested checksums.
    pub fn new(md5: bool, crc64: bool) -> Self {
        Self { crc64: crc64.then(Crc64::new), md5: md5.then(Md5::new) }
    }

    /// Adds the next piece.
    pub fn update(&mut self, piece: &[u8]) {
        if let Some(crc64) = &mut self.crc64 {
            crc64.update(piece);
        }
        if let Some(md5) = &mut self.md5 {
            md5.update(piece);
        }
    }

    /// The requested checksums of all pieces.
    pub fn finish(self) -> (Option<Md5Sum>, Option<Crc64Sum>) {
        (self.md5.map(|md5| md5.finalize().into()), self.crc64.map(Crc64::finish))
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checksum")
            .field("md5", &self.md5.is_some())
            .field("crc64", &self.crc64.is_some())
            .finish()
    }
}

/// Encodes a checksum for a header.
pub fn encode(sum: &[u8]) -> String {
    STANDARD.encode(sum)
}

/// Decodes a checksum of `N` bytes from a header.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_that_the_service_answered() {
        // test_blob_access_conditions, Put Blob with the body `hello world`, version 2019-02-02.
        let (body, crc, sum) = (b"hello world", "vo7q9sPVKY0=", "XrY7u+Ae7tCTyyK7j1rNww==");
        let mut whole = Checksum::new(true, true);
        whole.update(body);
        let (md5, crc64) = whole.finish();
        assert_eq!((encode(&md5.unwrap()), encode(&crc64.unwrap())), (sum.into(), crc.into()));
        let mut pieces = Checksum::new(true, true);
        pieces.update(&body[..4]);
        pieces.update(&body[4..]);
        assert_eq!(pieces.finish(), (decode(sum), decode(crc)));
        assert_eq!(Checksum::new(false, false).finish(), (None, None));
    }

    #[test]
    fn sums_of_another_length_are_none() {
        assert_eq!(decode::<16>("vo7q9sPVKY0="), None);
        assert_eq!(decode::<8>("not base64"), None);
    }
}
