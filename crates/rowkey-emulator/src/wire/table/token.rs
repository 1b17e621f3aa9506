//! Continuation tokens as the server writes and reads them. See [`rowkey_wire::token`].

// Decoders read untrusted input: see the wire crate.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use rowkey_wire::token::encode;

/// Ticks from 0001-01-01 to 1601-01-01, where FILETIME begins.
const FILETIME: i64 = DateTime::MIN.ticks();

/// Encodes a token for a table, with its name and creation time.
pub(crate) fn encode_table(name: &str, created: DateTime) -> String {
    encode(&format!(
        "{}\u{1}{:016x}",
        name.to_ascii_lowercase(),
        created.ticks().saturating_sub(FILETIME)
    ))
}

/// Decodes the key in a token.
pub(crate) fn decode(token: &str) -> Result<String, Rejection> {
    let mut parts = token.splitn(3, '!');
    let (Some("1"), Some(length), Some(text)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(invalid());
    };
    if length.parse() != Ok(text.len()) {
        return Err(invalid());
    }
    let text: String = text
        .chars()
        .map(|c| match c {
            '-' => '=',
            '*' | ' ' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    let bytes = STANDARD.decode(text).map_err(|_| invalid())?;
    String::from_utf8(bytes).map_err(|_| invalid())
}

/// Decodes the name of the table in a token.
pub(crate) fn decode_table(token: &str) -> Result<String, Rejection> {
    let mut name = decode(token)?;
    name.truncate(name.find('\u{1}').unwrap_or(name.len()));
    Ok(name)
}

fn invalid() -> Rejection {
    Rejection::with_message(
        ErrorCode::INVALID_INPUT,
        "One of the request inputs is not valid: the continuation token is not one of this service.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_recordings() {
        assert_eq!(decode("1!8!cGtleQ--").unwrap(), "pkey");
        assert_eq!(decode("1!0!").unwrap(), "");
        let created = DateTime::from_ticks(0x01d3_59cd_ab1b_7985 + FILETIME).unwrap();
        let token = encode_table("tablE358619d2", created);
        assert_eq!(decode(&token).unwrap(), "table358619d2\u{1}01d359cdab1b7985");
        assert_eq!(decode_table(&token).unwrap(), "table358619d2");
    }

    #[test]
    fn anything_else_is_refused() {
        for token in ["", "pkey", "1!7!cGtleQ--", "2!8!cGtleQ--", "1!8!cGtl!Q--", "1!4!/w=="] {
            assert_eq!(decode(token).unwrap_err().code, ErrorCode::INVALID_INPUT, "{token}");
        }
    }

    #[test]
    fn every_key_survives() {
        for key in ["~~~???>>>", "日本", "😀", " "] {
            let token = encode(key);
            assert!(!token.contains(['+', '/', '=']), "{token}");
            assert_eq!(decode(&token).unwrap(), key);
        }
    }
}
