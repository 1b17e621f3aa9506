//! Encodes numbers, text and documents as bytes. Numbers are little-endian; lengths have a variable
//! size.

use std::io;

use rowkey_wire::edm::DateTime;

/// A buffer for encoding.
#[derive(Debug, Default)]
pub(super) struct Encoder(Vec<u8>);

impl Encoder {
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(super) fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(super) fn fixed<const N: usize>(&mut self, value: [u8; N]) -> &mut Self {
        self.0.extend_from_slice(&value);
        self
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.fixed(value.to_le_bytes())
    }

    pub(super) fn i64(&mut self, value: i64) -> &mut Self {
        self.fixed(value.to_le_bytes())
    }

    pub(super) fn instant(&mut self, value: DateTime) -> &mut Self {
        self.i64(value.ticks())
    }

    /// Writes a number that is usually small.
    pub(super) fn length(&mut self, value: usize) -> &mut Self {
        let mut rest = value as u64;
        while rest >= 0x80 {
            self.0.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.byte(rest.to_le_bytes()[0])
    }

    /// Writes bytes whose number the reader knows.
    pub(super) fn slice(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }

    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.length(value.len()).slice(value)
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Bytes that are being decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decoder<'a>(pub(super) &'a [u8]);

impl<'a> Decoder<'a> {
    pub(super) fn take(&mut self, count: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(too_short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(too_short)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn byte(&mut self) -> io::Result<u8> {
        Ok(self.fixed::<1>()?[0])
    }

    pub(super) fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.fixed()?))
    }

    /// Reads a number from which the server continues to count.
    pub(super) fn count(&mut self) -> io::Result<u64> {
        counted(self.u64()?)
    }

    pub(super) fn i64(&mut self) -> io::Result<i64> {
        Ok(i64::from_le_bytes(self.fixed()?))
    }

    pub(super) fn instant(&mut self) -> io::Result<DateTime> {
        DateTime::from_ticks(self.i64()?).map_err(invalid)
    }

    pub(super) fn length(&mut self) -> io::Result<usize> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return usize::try_from(value).map_err(invalid);
            }
        }
        Err(invalid("a length is too long"))
    }

    pub(super) fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }

    pub(super) fn text(&mut self) -> io::Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(invalid)
    }
}

/// Checks a number from which the server continues to count. A number that was counted, even in the ticks of
/// the latest time, is smaller than the limit, and counting on from the limit never ends.
pub(super) fn counted(number: u64) -> io::Result<u64> {
    const LIMIT: u64 = 1 << 62;
    if number < LIMIT { Ok(number) } else { Err(invalid("a number is too large")) }
}

fn too_short() -> io::Error {
    invalid("it is too short")
}

pub(super) fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_from_which_counting_on_would_overflow_is_damage() {
        let mut out = Encoder::default();
        let bytes = out.u64(DateTime::MAX.ticks().cast_unsigned()).u64(u64::MAX).finish();
        let mut read = Decoder(&bytes);
        assert_eq!(read.count().unwrap(), DateTime::MAX.ticks().cast_unsigned());
        assert_eq!(read.count().unwrap_err().to_string(), "a number is too large");
    }

    #[test]
    fn decoding_returns_the_encoded_values_and_fails_past_the_end() {
        let mut out = Encoder::default();
        for length in [0, 1, 127, 128, 300, usize::MAX] {
            out.length(length);
        }
        out.text("größe").u64(7).i64(-7).instant(DateTime::MAX).byte(9);
        let bytes = out.finish();
        let mut read = Decoder(&bytes);
        for length in [0, 1, 127, 128, 300, usize::MAX] {
            assert_eq!(read.length().unwrap(), length);
        }
        assert_eq!(read.text().unwrap(), "größe");
        assert_eq!((read.u64().unwrap(), read.i64().unwrap()), (7, -7));
        assert_eq!(read.instant().unwrap(), DateTime::MAX);
        assert_eq!(read.byte().unwrap(), 9);
        assert_eq!(read.byte().unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(Decoder(&[5, b'a']).text().is_err());
        assert!(Decoder(&[0xFF; 12]).length().is_err());
    }
}
