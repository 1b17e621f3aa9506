//! Decodes the options of a query string, and the path of an address.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

/// The decoded options of a query string.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Options<'a> {
    /// Parses the text after the `?`. `+` is a space. Signatures are left out: the code that
    /// verifies them decodes them differently.
    pub(crate) fn parse(query: &'a str) -> Result<Self, Rejection> {
        if query.is_empty() {
            return Ok(Self::default());
        }
        let count = query.bytes().filter(|byte| *byte == b'&').count().saturating_add(1);
        let mut options = Vec::with_capacity(count);
        for pair in pairs(query).filter(|pair| !pair.is_empty()) {
            let (name, value) = split_once(pair, b'=').unwrap_or((pair, ""));
            if name == "sig" {
                continue;
            }
            options.push((decode_option(name)?, decode_option(value)?));
        }
        Ok(Self(options))
    }

    /// The first option with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// All options in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}

/// The options of a query string as they are written.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(query);
    std::iter::from_fn(move || {
        let text = rest?;
        let (pair, others) = split_once(text, b'&').map_or((text, None), |(a, b)| (a, Some(b)));
        rest = others;
        Some(pair)
    })
}

/// Splits text at the first occurrence of an ASCII byte. `str::split_once` prepares a search that
/// takes several times as long as texts this short.
pub(crate) fn split_once(text: &str, at: u8) -> Option<(&str, &str)> {
    let at = text.bytes().position(|byte| byte == at)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

/// Decodes a name or a value in a query string.
fn decode_option(text: &str) -> Result<Cow<'_, str>, Rejection> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Ok(Cow::Borrowed(text));
    }
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced)
        .decode_utf8()
        .map_err(|_| Rejection::new(ErrorCode::INVALID_QUERY_PARAMETER_VALUE))?;
    Ok(Cow::Owned(decoded.into_owned()))
}

/// Decodes the path of an address, once.
pub(crate) fn decode_path(path: &str) -> Result<Cow<'_, str>, Rejection> {
    if !path.contains('%') {
        return Ok(Cow::Borrowed(path));
    }
    percent_decode_str(path).decode_utf8().map_err(|_| Rejection::new(ErrorCode::INVALID_URI))
}
