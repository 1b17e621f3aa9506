//! Continuation tokens: opaque to clients, `1!length!base64` inside.
//!
//! Recorded: `1!8!cGtleQ--` is `pkey`. `=` is written as `-`. The service's replacements of `+` and
//! `/` were never recorded; here they are `*` and `_`, which need no encoding in a query string.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Encodes a token with the key `key`.
pub fn encode(key: &str) -> String {
    let text: String = STANDARD
        .encode(key)
        .chars()
        .map(|c| match c {
            '=' => '-',
            '+' => '*',
            '/' => '_',
            other => other,
        })
        .collect();
    format!("1!{}!{text}", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_recordings() {
        assert_eq!(encode("pkey"), "1!8!cGtleQ--");
        assert_eq!(encode(""), "1!0!");
    }
}
