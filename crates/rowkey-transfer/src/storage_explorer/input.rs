//! The bytes of a CSV file on their way to the parser, which accepts more than CSV.
//!
//! The parser takes a quote without an end for one that ends with the file, and `"a"b` for `ab`: a file that lost a quote
//! would be read as other rows. It also has no limit for a record.

use std::io::{self, Read};

use crate::error::MAX_ENTITY;

/// Ends a file whose record is longer than any entity, or whose quotes are damaged.
#[derive(Debug)]
pub(super) struct Input<R> {
    inner: R,
    /// How many bytes the record may still have.
    left: usize,
    quotes: Quotes,
    /// Whether a quote is wrong behind what was passed on.
    is_damaged: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(inner: R, delimiter: u8) -> Self {
        let quotes = Quotes { delimiter, state: State::Outside, last: b'\n', mark: 0 };
        Self { inner, left: MAX_ENTITY, quotes, is_damaged: false }
    }

    /// Begins a record. What is in the parser's buffer was counted before.
    pub(super) const fn begin_record(&mut self) {
        self.left = MAX_ENTITY;
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.is_damaged {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let most = into.len().min(self.left);
        let read = self.inner.read(&mut into[..most])?;
        if read == 0 && most > 0 && self.quotes.state == State::Inside {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        // The parser gets what is before the damage, so that it returns the records before it.
        let Some(good) = self.quotes.pass(&into[..read]) else { return Ok(read) };
        self.is_damaged = true;
        if good == 0 { Err(io::ErrorKind::InvalidData.into()) } else { Ok(good) }
    }
}

/// Where in a cell the bytes are, as far as quotes go.
#[derive(Debug)]
struct Quotes {
    delimiter: u8,
    state: State,
    /// The byte before, or a line feed at the beginning.
    last: u8,
    /// How many bytes of a byte order mark the file begins with; 4 if it does not go on.
    mark: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not in quotes.
    Outside,
    /// In quotes.
    Inside,
    /// Behind a quote that ends the cell or begins a pair of two, which stand for one.
    Behind,
}

impl Quotes {
    /// Follows these bytes; where the first byte is that may not be there.
    fn pass(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = self.skip_mark(bytes);
        while at < bytes.len() {
            match self.state {
                State::Behind => {
                    self.state = match bytes[at] {
                        b'"' => State::Inside,
                        byte if self.ends(byte) => State::Outside,
                        _ => return Some(at),
                    };
                    self.last = bytes[at];
                    at += 1;
                }
                State::Inside => {
                    let length = memchr::memchr(b'"', &bytes[at..])?;
                    self.state = State::Behind;
                    at += length + 1;
                }
                State::Outside => {
                    let quote = memchr::memchr(b'"', &bytes[at..]);
                    let Some(length) = quote else {
                        self.last = bytes[bytes.len() - 1];
                        return None;
                    };
                    if length > 0 {
                        self.last = bytes[at + length - 1];
                    }
                    // A quote inside of a cell without quotes is text.
                    if self.ends(self.last) {
                        self.state = State::Inside;
                    }
                    self.last = b'"';
                    at += length + 1;
                }
            }
        }
        None
    }

    /// Whether a cell ends with this byte.
    const fn ends(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == b'\n' || byte == b'\r'
    }

    /// How many of these bytes belong to a byte order mark, which the parser skips.
    fn skip_mark(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let (Some(expected), Some(byte)) = (b"\xEF\xBB\xBF".get(self.mark), bytes.get(at)) {
            if byte != expected {
                self.mark = 4;
                break;
            }
            self.mark += 1;
            at += 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes are passed on before an error, in pieces of any size; `None` without one.
    fn damaged_at(text: &str) -> Option<usize> {
        let mut found = Vec::new();
        for size in [1, 2, 3, 7, 100] {
            let mut input = Input::new(text.as_bytes(), b',');
            let (mut buffer, mut count) = (vec![0; size], 0);
            found.push(loop {
                match input.read(&mut buffer) {
                    Ok(0) => break None,
                    Ok(read) => count += read,
                    Err(_) => break Some(count),
                }
            });
        }
        assert!(found.iter().all(|each| *each == found[0]), "{text}: {found:?}");
        found[0]
    }

    #[test]
    fn damaged_quotes_are_found_in_pieces_of_any_size() {
        for text in
            ["", "a,b\n", "\"a\",\"\"\n\"\"\"\"", "a\"b,\"c\nd\"\r\n", "\u{feff}\"a,\"\"b\""]
        {
            assert_eq!(damaged_at(text), None, "{text}");
        }
        for (text, at) in
            [("\"a", 2), ("a,\"b\"c", 5), ("\u{feff}\"a\"b", 6), ("\"\"\"", 3), ("a,\"\" ,b", 4)]
        {
            assert_eq!(damaged_at(text), Some(at), "{text}");
        }
    }
}
