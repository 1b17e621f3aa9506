//! The key that wraps, and those that only unwrap.

use std::fmt;
use std::sync::Arc;

use rowkey::{Error, ErrorKind, Result};

use super::wrapper::KeyWrapper;

/// The longest name of a key.
const MAX_KEY_ID: usize = 512;

/// The key-encryption keys that a program has: the current one wraps and unwraps, older ones unwrap.
///
/// To rotate: make a ring of the new key [`with`](Self::with) the old one, give it to all programs,
/// run [`Encrypted::reencryption`](crate::Encrypted::reencryption), then leave the old key out.
/// Programs that write must know a key before another one writes with it: add it as an older one
/// first.
///
/// ```
/// use rowkey_encryption::{AesKeyWrap, KeyRing};
///
/// let ring = KeyRing::new(AesKeyWrap::new("2027", [2; 32])).with(AesKeyWrap::new("2026", [1; 32]));
/// assert_eq!(format!("{ring:?}"), r#"KeyRing { current: "2027", older: ["2026"] }"#);
/// ```
#[derive(Clone)]
pub struct KeyRing {
    current: Arc<dyn KeyWrapper>,
    older: Vec<Arc<dyn KeyWrapper>>,
}

impl KeyRing {
    /// A ring of one key.
    pub fn new(current: impl KeyWrapper + 'static) -> Self {
        Self { current: Arc::new(current), older: Vec::new() }
    }

    /// Adds a key that unwraps what it wrapped, and wraps nothing more.
    #[must_use]
    pub fn with(mut self, older: impl KeyWrapper + 'static) -> Self {
        self.older.push(Arc::new(older));
        self
    }

    /// The key that wraps.
    pub(crate) fn current(&self) -> Result<&dyn KeyWrapper> {
        let key_id = self.current.key_id();
        let length = key_id.chars().count();
        if length == 0 || length > MAX_KEY_ID || !key_id.chars().all(is_plain) {
            let what = format!(
                "the name of a key-encryption key has 1 to {MAX_KEY_ID} characters, none of them \
                 white space or a control character"
            );
            return Err(Error::refused(ErrorKind::Invalid, what));
        }
        self.find(key_id)
    }

    /// The key of this name.
    pub(crate) fn find(&self, key_id: &str) -> Result<&dyn KeyWrapper> {
        let all = std::iter::once(&self.current).chain(&self.older);
        let mut named = all.filter(|key| key.key_id() == key_id);
        match (named.next(), named.next()) {
            (Some(key), None) => Ok(&**key),
            (Some(_), Some(_)) => {
                let what = format!("two keys of the ring have the name `{key_id}`");
                Err(Error::refused(ErrorKind::Invalid, what).advise("a name is one key's for ever"))
            }
            (None, _) => {
                let what = format!("the data key is wrapped by `{key_id}`, which the ring lacks");
                Err(Error::refused(ErrorKind::Decode, what).advise("add it with `KeyRing::with`"))
            }
        }
    }
}

/// Whether it may stand in the name of a key.
pub(crate) fn is_plain(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let older: Vec<_> = self.older.iter().map(KeyWrapper::key_id).collect();
        f.debug_struct("KeyRing")
            .field("current", &self.current.key_id())
            .field("older", &older)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AesKeyWrap;

    fn error(ring: &KeyRing) -> String {
        ring.current().err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_name_is_one_keys() {
        let key = |name: &str| AesKeyWrap::new(name, [1; 32]);
        assert_eq!(error(&KeyRing::new(key("a")).with(key("b"))), "");
        assert!(error(&KeyRing::new(key("a")).with(key("a"))).contains("two keys"));
        for name in ["", "a b", "a\nb", &"x".repeat(513)] {
            assert!(error(&KeyRing::new(key(name))).contains("1 to 512"), "{name}");
        }
        let missing = KeyRing::new(key("a")).find("z").err().map(|error| error.to_string());
        assert!(missing.unwrap_or_default().contains("`z`, which the ring lacks"));
    }
}
