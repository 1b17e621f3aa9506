//! Metadata as the server reads, stores and writes it: names and values of a queue, a container or a
//! blob, each in a header `x-ms-meta-name`.
//!
//! The services keep the case of these names and compare them without case. The HTTP library
//! converts header names to lower case, so a server that has seen the raw bytes of a request passes
//! on their [`Spelling`].
//!
//! Reference: [Setting and retrieving properties and metadata](https://learn.microsoft.com/rest/api/storageservices/setting-and-retrieving-properties-and-metadata-for-blob-resources).

// Lengths come from requests: arithmetic on them is checked or saturates.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use http::{HeaderMap, HeaderName, HeaderValue, Response};

use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::headers::{METADATA_PREFIX as PREFIX, decode_text};
use rowkey_wire::limits::MAX_METADATA;

/// Metadata as the server stores it: headers, in the order of their names. Two are equal if they
/// differ at most in the case of names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata(Vec<Pair>);

/// Metadata headers as a client spelled them, if not in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling(Vec<Box<str>>);

#[derive(Clone, Debug)]
struct Pair {
    header: HeaderName,
    value: HeaderValue,
    /// The header's name as spelled, if not in lower case.
    written: Option<Box<str>>,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.header == other.header && self.value == other.value
    }
}

impl Eq for Pair {}

impl Metadata {
    /// The metadata that a request sets.
    pub(crate) fn parse(headers: &HeaderMap) -> Result<Self, Rejection> {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut length = 0_usize;
        for header in headers.keys() {
            let Some(name) = header.as_str().strip_prefix(PREFIX) else { continue };
            if name.is_empty() {
                return Err(Rejection::new(ErrorCode::EMPTY_METADATA_KEY));
            }
            if !is_identifier(name) {
                return Err(Rejection::new(ErrorCode::INVALID_METADATA));
            }
            let value = joined(headers, header);
            length = length.saturating_add(name.len()).saturating_add(value.len());
            pairs.push(Pair { header: header.clone(), value, written: None });
        }
        if length > MAX_METADATA {
            return Err(Rejection::new(ErrorCode::METADATA_TOO_LARGE));
        }
        pairs.sort_unstable_by(|one, other| one.header.as_str().cmp(other.header.as_str()));
        Ok(Self(pairs))
    }

    /// Restores the case in which the names were written.
    pub(crate) fn spell(&mut self, spelling: &Spelling) {
        for pair in &mut self.0 {
            let header = pair.header.as_str();
            let written = spelling.0.iter().find(|written| written.eq_ignore_ascii_case(header));
            pair.written = written.cloned();
        }
    }

    /// Adds the headers to a response, and their [`Spelling`] to its extensions.
    pub(crate) fn write<B>(&self, answer: &mut Response<B>) {
        let headers = answer.headers_mut();
        for pair in &self.0 {
            headers.insert(pair.header.clone(), pair.value.clone());
        }
        let written: Vec<_> = self.0.iter().filter_map(|pair| pair.written.clone()).collect();
        if !written.is_empty() {
            answer.extensions_mut().insert(Spelling(written));
        }
    }

    /// The names, without the prefix of their headers, and the values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|pair| {
            let header = pair.written.as_deref().unwrap_or(pair.header.as_str());
            (&header[PREFIX.len()..], decode_text(&pair.value))
        })
    }

    /// Whether there is no metadata.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Spelling {
    /// Finds the spelling of metadata headers in the raw head of a request.
    pub(crate) fn of_head(head: &[u8]) -> Self {
        let written = head.split(|byte| *byte == b'\n').filter_map(|line| {
            let is_metadata = line
                .get(..PREFIX.len())
                .is_some_and(|begin| begin.eq_ignore_ascii_case(PREFIX.as_bytes()));
            let name = line.split(|byte| *byte == b':').next().filter(|_| is_metadata)?;
            let name = std::str::from_utf8(name).ok()?;
            name.bytes().any(|byte| byte.is_ascii_uppercase()).then(|| name.into())
        });
        Self(written.collect())
    }

    /// Whether all names are in lower case.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Restores the spelling of these headers in the head of a response.
    pub(crate) fn restore(&self, head: &mut [u8]) {
        for line in head.split_mut(|byte| *byte == b'\n') {
            let Some(end) = line.iter().position(|byte| *byte == b':') else { continue };
            let name = &mut line[..end];
            let mut spelled = self.0.iter().map(|written| written.as_bytes());
            if let Some(written) = spelled.find(|written| written.eq_ignore_ascii_case(name)) {
                name.copy_from_slice(written);
            }
        }
    }
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Joins repeated headers with commas.
fn joined(headers: &HeaderMap, name: &HeaderName) -> HeaderValue {
    let mut values = headers.get_all(name).iter();
    let (Some(first), Some(second)) = (values.next(), values.next()) else {
        // A copy: a header value shares a buffer with the whole request, and would keep it alive.
        let value =
            headers.get(name).and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok());
        return value.unwrap_or(HeaderValue::from_static(""));
    };
    let mut all = first.as_bytes().to_vec();
    for value in std::iter::once(second).chain(values) {
        all.push(b',');
        all.extend_from_slice(value.as_bytes());
    }
    HeaderValue::from_bytes(&all).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn headers_with_the_prefix_are_metadata_and_others_are_not() {
        let sent = headers(&[
            ("x-ms-meta-hello", "world"),
            ("x-ms-version", "2018-03-28"),
            ("x-ms-meta-a_1", "x"),
            ("x-ms-meta-a_1", "y"),
        ]);
        let metadata = Metadata::parse(&sent).unwrap();
        let pairs: Vec<_> = metadata.iter().collect();
        assert_eq!(pairs, [("a_1", "x,y".to_owned()), ("hello", "world".to_owned())]);
        let mut answer = Response::new(());
        metadata.write(&mut answer);
        assert_eq!(answer.headers()["x-ms-meta-hello"], "world");
        assert_eq!(answer.headers().len(), 2);
        assert_eq!(answer.extensions().get::<Spelling>(), None);
    }

    #[test]
    fn names_keep_the_case_that_they_were_written_in_and_are_compared_without() {
        let head = b"PUT /q HTTP/1.1\r\nX-Ms-Meta-UP: a\r\nx-ms-meta-MixedCase:b\r\n\
            x-ms-meta-low: X-Ms-Meta-C: d\r\nx-ms-Date: e\r\n\r\n";
        let sent = headers(&[
            ("x-ms-meta-up", "a"),
            ("x-ms-meta-mixedcase", "b"),
            ("x-ms-meta-low", "X-Ms-Meta-C: d"),
        ]);
        let plain = Metadata::parse(&sent).unwrap();
        let mut spelled = plain.clone();
        spelled.spell(&Spelling::of_head(head));
        assert_eq!(spelled, plain);
        let names: Vec<_> = spelled.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["low", "MixedCase", "UP"]);

        let mut answer = Response::new(());
        spelled.write(&mut answer);
        let mut sent =
            *b"HTTP/1.1 200 OK\r\nx-ms-meta-low: x-ms-meta-up\r\nx-ms-meta-up: a\r\n\r\n";
        answer.extensions().get::<Spelling>().unwrap().restore(&mut sent);
        let text = str::from_utf8(&sent).unwrap();
        assert!(text.ends_with("x-ms-meta-low: x-ms-meta-up\r\nX-Ms-Meta-UP: a\r\n\r\n"), "{text}");
    }

    #[test]
    fn names_are_identifiers_and_all_fits_into_8_kib() {
        let code = |sent: &HeaderMap| Metadata::parse(sent).unwrap_err().code;
        assert_eq!(code(&headers(&[("x-ms-meta-", "v")])), ErrorCode::EMPTY_METADATA_KEY);
        for name in ["x-ms-meta-1a", "x-ms-meta-a-b", "x-ms-meta-a.b"] {
            assert_eq!(code(&headers(&[(name, "v")])), ErrorCode::INVALID_METADATA, "{name}");
        }
        let mut large = HeaderMap::new();
        let value = HeaderValue::from_str(&"v".repeat(8191)).unwrap();
        large.insert("x-ms-meta-n", value.clone());
        assert!(Metadata::parse(&large).is_ok());
        large.insert("x-ms-meta-m", value);
        assert_eq!(code(&large), ErrorCode::METADATA_TOO_LARGE);
    }
}
