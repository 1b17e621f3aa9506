//! A part of a blob that is compared with its checksum when all of it has come.

use http::HeaderMap;
use rowkey_wire::blob::checksum::Checksum;

use super::Check;
use crate::blob::wire::decode;
use crate::blob::wire::encode::RangeSum;

/// The longest part that the service sums up.
pub(super) const MAX_PART: u64 = 4 << 20;

/// A part on its way.
pub(super) struct Part {
    /// Where in the blob it ends.
    pub(super) end: u64,
    came: Checksum,
    /// What the sum must be.
    expected: Sum,
}

#[derive(PartialEq, Eq)]
enum Sum {
    Crc64([u8; 8]),
    Md5([u8; 16]),
}

impl Part {
    /// The part that an answer with these headers begins; `None` if they have no such sum of it.
    pub(super) fn begin(check: Check, end: u64, headers: &HeaderMap) -> Option<Self> {
        let expected = match check {
            Check::Crc64 => Sum::Crc64(decode::content_crc64(headers)?),
            Check::Md5 => Sum::Md5(decode::content_md5(headers)?),
        };
        let came = Checksum::new(check == Check::Md5, check == Check::Crc64);
        Some(Self { end, came, expected })
    }

    pub(super) fn update(&mut self, piece: &[u8]) {
        self.came.update(piece);
    }

    /// Whether what came so far is what was sent.
    pub(super) fn is_whole(&self) -> bool {
        let (md5, crc64) = self.came.clone().finish();
        Some(&self.expected) == md5.map(Sum::Md5).or(crc64.map(Sum::Crc64)).as_ref()
    }
}

/// The sum that is asked for with a part.
pub(super) fn wanted(check: Check) -> RangeSum {
    match check {
        Check::Crc64 => RangeSum::Crc64,
        Check::Md5 => RangeSum::Md5,
    }
}
