//! A part of a blob that is compared with its checksum at its end.

use http::HeaderMap;
use rowkey_wire::blob::checksum::Checksum;

use super::Check;
use crate::blob::wire::decode;
use crate::blob::wire::encode::RangeChecksum;

/// The longest part for which the service computes a checksum.
pub(super) const MAX_PART: u64 = 4 << 20;

/// A part that is being received.
pub(super) struct Part {
    /// The end of the part in the blob.
    pub(super) end: u64,
    came: Checksum,
    /// The checksum from the service.
    expected: ExpectedChecksum,
}

#[derive(PartialEq, Eq)]
enum ExpectedChecksum {
    Crc64([u8; 8]),
    Md5([u8; 16]),
}

impl Part {
    /// The part that begins with this response; `None` if its headers have no such checksum.
    pub(super) fn begin(check: Check, end: u64, headers: &HeaderMap) -> Option<Self> {
        let expected = match check {
            Check::Crc64 => ExpectedChecksum::Crc64(decode::content_crc64(headers)?),
            Check::Md5 => ExpectedChecksum::Md5(decode::content_md5(headers)?),
        };
        let came = Checksum::new(check == Check::Md5, check == Check::Crc64);
        Some(Self { end, came, expected })
    }

    pub(super) fn update(&mut self, piece: &[u8]) {
        self.came.update(piece);
    }

    /// Whether the checksum of the received bytes is the expected one.
    pub(super) fn is_whole(&self) -> bool {
        let (md5, crc64) = self.came.clone().finish();
        Some(&self.expected)
            == md5.map(ExpectedChecksum::Md5).or(crc64.map(ExpectedChecksum::Crc64)).as_ref()
    }
}

/// The checksum to request with a part.
pub(super) fn wanted(check: Check) -> RangeChecksum {
    match check {
        Check::Crc64 => RangeChecksum::Crc64,
        Check::Md5 => RangeChecksum::Md5,
    }
}
