//! Messages that stand beside each other, each with a number in the head of its part, as in blob batches.

use std::ops::Range;

use super::{BatchError, BatchFault, Content, Reader, boundary, decimal, head};

/// A message, and the number in its part's `Content-ID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The number; `None` if the part has none, or one that is no number.
    pub number: Option<usize>,
    /// The range of the message.
    pub message: Range<usize>,
}

/// The messages of a body without changesets. There is at least one. A body that is cut off is an error, never a
/// shorter list.
pub fn numbered(content_type: &str, body: &[u8]) -> Result<Vec<Numbered>, BatchError> {
    let boundary = boundary(content_type).ok_or(BatchError::new(0, BatchFault::NoBoundary))?;
    let mut reader = Reader::new(body, 0);
    let mut messages = Vec::new();
    let mut delimiter = reader.skip_to_delimiter(boundary)?;
    while !delimiter.closes {
        let at = reader.at;
        let mut number = None;
        head(body, at..body.len(), |header| {
            if header.name.eq_ignore_ascii_case(b"Content-ID") {
                number = decimal(header.value);
            }
            Ok(())
        })?;
        let Content::Http = reader.content_type()? else {
            return Err(BatchError::new(at, BatchFault::ContentType));
        };
        let (message, next) = reader.message(boundary, None)?;
        messages.push(Numbered { number, message });
        delimiter = next;
    }
    if messages.is_empty() {
        return Err(BatchError::new(reader.at, BatchFault::NoPart));
    }
    Ok(messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/mixed; boundary=b";

    fn part(head: &str, message: &str) -> String {
        format!("--b\r\nContent-Type: application/http\r\n{head}\r\n{message}\r\n")
    }

    #[test]
    fn messages_have_the_numbers_of_their_parts() {
        let ok = "HTTP/1.1 202 Accepted\r\nx: 1\r\n";
        // The second head is not that of the first, and the third has no number.
        let parts = [
            part("Content-ID: 1\r\n", ok),
            part("content-id:  0\r\n", ok),
            part("", "HTTP/1.1 400 No\r\n\r\n<Error/>"),
            part("Content-ID: x\r\n", ok),
        ];
        let body = format!("{}--b--", parts.concat());
        for body in [body.clone(), body.replace("\r\n", "\n")] {
            let found = numbered(TYPE, body.as_bytes()).unwrap();
            let numbers: Vec<_> = found.iter().map(|found| found.number).collect();
            assert_eq!(numbers, [Some(1), Some(0), None, None]);
            assert!(body[found[2].message.clone()].ends_with("<Error/>"));
        }
    }

    #[test]
    fn a_body_that_is_cut_off_is_an_error() {
        let whole = format!("{}--b--", part("Content-ID: 0\r\n", "HTTP/1.1 202 Accepted\r\n"));
        assert!(numbered(TYPE, whole.as_bytes()).is_ok());
        for end in 0..whole.len() - 2 {
            assert!(numbered(TYPE, &whole.as_bytes()[..end]).is_err(), "{end}");
        }
        let fault = |body: &str| numbered(TYPE, body.as_bytes()).unwrap_err().fault;
        assert_eq!(fault("--b--"), BatchFault::NoPart);
        let nested = "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c--\r\n--b--";
        assert_eq!(fault(nested), BatchFault::ContentType);
        assert_eq!(numbered("text/plain", b"").unwrap_err().fault, BatchFault::NoBoundary);
    }
}
