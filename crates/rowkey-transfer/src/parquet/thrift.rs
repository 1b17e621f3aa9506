//! The headers of pages and the schema: as much of them as tells how much memory and stack the Parquet reader needs.
//!
//! They are structures of Thrift in its compact protocol, as `parquet.thrift` of the format describes them. The parser of
//! the Parquet reader is private.

use std::io::{self, Read};

/// The header of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    /// The bytes of the header itself.
    pub(super) length: u64,
    pub(super) compressed: u64,
    pub(super) uncompressed: u64,
    /// The values of a dictionary; 0 for other pages.
    pub(super) entries: u64,
    /// Whether the page has no data and is skipped.
    pub(super) is_index: bool,
}

/// The types of fields that are read or nested.
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
/// How deep structures may be nested; those of the format have about ten levels.
const MAX_DEPTH: usize = 64;

impl Header {
    /// Reads a header.
    pub(super) fn read(input: impl Read) -> io::Result<Self> {
        let mut input = Compact { input, length: 0 };
        let (mut header, mut last) = (Self::default(), 0);
        while let Some((field, kind)) = input.field(&mut last)? {
            match (field, kind) {
                (1, 4..=6) => header.is_index = input.number()? == 1,
                (2, 4..=6) => header.uncompressed = input.size()?,
                (3, 4..=6) => header.compressed = input.size()?,
                (7, STRUCT) => {
                    let mut last = 0;
                    while let Some((field, kind)) = input.field(&mut last)? {
                        match (field, kind) {
                            (1, 4..=6) => header.entries = input.size()?,
                            _ => input.skip(kind, MAX_DEPTH)?,
                        }
                    }
                }
                _ => input.skip(kind, MAX_DEPTH)?,
            }
        }
        header.length = input.length;
        Ok(header)
    }
}

/// How deep the groups of columns in a footer are nested, as far as `most` and one more.
///
/// The Parquet reader builds them by recursion, and has no limit.
pub(super) fn nesting(footer: impl Read, most: usize) -> io::Result<usize> {
    let mut input = Compact { input: footer, length: 0 };
    let mut last = 0;
    // How many children the open groups still have.
    let (mut open, mut deepest): (Vec<u64>, _) = (Vec::new(), 0);
    while let Some((field, kind)) = input.field(&mut last)? {
        if (field, kind) != (2, LIST) {
            input.skip(kind, MAX_DEPTH)?;
            continue;
        }
        let (count, STRUCT) = input.list()? else { return Err(io::ErrorKind::InvalidData.into()) };
        for _ in 0..count {
            let (mut last, mut children) = (0, 0);
            while let Some((field, kind)) = input.field(&mut last)? {
                match (field, kind) {
                    (5, 4..=6) => children = input.size()?,
                    _ => input.skip(kind, MAX_DEPTH)?,
                }
            }
            if let Some(left) = open.last_mut() {
                *left = left.saturating_sub(1);
            }
            if children > 0 {
                open.push(children);
                deepest = deepest.max(open.len());
            }
            if deepest > most {
                return Ok(deepest);
            }
            while open.last() == Some(&0) {
                open.pop();
            }
        }
    }
    Ok(deepest)
}

/// Values of the compact protocol.
struct Compact<R> {
    input: R,
    /// How many bytes were read.
    length: u64,
}

impl<R: Read> Compact<R> {
    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        self.length = self.length.saturating_add(1);
        Ok(byte[0])
    }

    /// A number of seven bits a byte, the lowest first.
    fn unsigned(&mut self) -> io::Result<u64> {
        let mut sum = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            sum |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or_default();
            if byte < 0x80 {
                return Ok(sum);
            }
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// A number whose lowest bit is its sign.
    fn number(&mut self) -> io::Result<i64> {
        let number = self.unsigned()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// A number that is not negative.
    fn size(&mut self) -> io::Result<u64> {
        u64::try_from(self.number()?).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// The number and the type of the next field; `None` at the end of the structure.
    fn field(&mut self, last: &mut i64) -> io::Result<Option<(i64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        *last = match byte >> 4 {
            0 => self.number()?,
            step => last.saturating_add(i64::from(step)),
        };
        Ok(Some((*last, byte & 0xF)))
    }

    /// How many elements a list has, and their type.
    fn list(&mut self) -> io::Result<(u64, u8)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.unsigned()?,
            count => u64::from(count),
        };
        Ok((count, byte & 0xF))
    }

    /// Skips the value of a field.
    fn skip(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        match kind {
            // A Boolean is its type.
            1 | 2 => Ok(()),
            3 => self.byte().map(|_| ()),
            4..=6 => self.unsigned().map(|_| ()),
            7 => self.skip_bytes(8),
            BINARY => {
                let length = self.unsigned()?;
                self.skip_bytes(length)
            }
            LIST | SET | MAP | STRUCT if depth == 0 => Err(io::ErrorKind::InvalidData.into()),
            LIST | SET => {
                let (count, kind) = self.list()?;
                for _ in 0..count {
                    self.skip_element(kind, depth - 1)?;
                }
                Ok(())
            }
            MAP => {
                let count = self.unsigned()?;
                let kinds = if count > 0 { self.byte()? } else { 0 };
                for _ in 0..count {
                    self.skip_element(kinds >> 4, depth - 1)?;
                    self.skip_element(kinds & 0xF, depth - 1)?;
                }
                Ok(())
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind, depth - 1)?;
                }
                Ok(())
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Skips an element of a list. A Boolean has a byte there, so each element has one at least.
    fn skip_element(&mut self, kind: u8, depth: usize) -> io::Result<()> {
        match kind {
            1 | 2 => self.byte().map(|_| ()),
            other => self.skip(other, depth),
        }
    }

    fn skip_bytes(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.input.by_ref().take(count), &mut io::sink())?;
        self.length = self.length.saturating_add(skipped);
        if skipped < count { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dictionary page: 7 values in 40 bytes, 30 compressed, and fields that are skipped.
    const DICTIONARY: &[u8] = &[
        0x15, 4, 0x15, 80, 0x15, 60, 0x4C, 0x15, 14, 0x15, 0, 0x11, 0, 0x19, 0x2C, 0x18, 1, b'a',
        0, 0, 0,
    ];

    #[test]
    fn the_sizes_of_a_page_are_read() {
        let expected = Header {
            length: DICTIONARY.len() as u64,
            compressed: 30,
            uncompressed: 40,
            entries: 7,
            is_index: false,
        };
        assert_eq!(Header::read(&[DICTIONARY, b"data"].concat()[..]).unwrap(), expected);
        for length in 0..DICTIONARY.len() {
            let error = Header::read(&DICTIONARY[..length]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn what_is_no_header_ends() {
        let deep = [0x1C].repeat(1_000);
        let negative = [0x15, 4, 0x15, 1, 0];
        let many = [&[0x59, 0xF1][..], &[0xFF; 9], &[1]].concat();
        let number = [&[0x15][..], &[0xFF; 11]].concat();
        for bytes in [&deep[..], &negative, &many, &number, &[0x1F]] {
            assert!(Header::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
