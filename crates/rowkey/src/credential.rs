//! What authorizes requests.

use std::fmt;

use rowkey_wire::auth::{Scheme, SigningKey};

use crate::error::{Error, Result};

/// What authorizes requests. `Debug` never shows the secret.
#[derive(Clone)]
pub struct Credential(Repr);

#[derive(Clone)]
enum Repr {
    Anonymous,
    Sas(String),
    SharedKey { scheme: Scheme, account: String, key: SigningKey },
}

/// What has to be done to a request to authorize it.
pub(crate) enum Authorize<'a> {
    Nothing,
    /// Append this to the query.
    Sas(&'a str),
    SharedKey {
        scheme: Scheme,
        account: &'a str,
        key: &'a SigningKey,
    },
}

impl Credential {
    /// The account's name and one of its two keys, in base64 as the portal shows it.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the key is not base64.
    /// See [Authorize with Shared Key](https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).
    pub fn shared_key(account: impl Into<String>, key: &str) -> Result<Self> {
        Self::with_scheme(Scheme::SharedKey, account.into(), key)
    }

    /// Like [`shared_key`](Self::shared_key), but signing only the date and the address, for
    /// proxies that change headers.
    pub fn shared_key_lite(account: impl Into<String>, key: &str) -> Result<Self> {
        Self::with_scheme(Scheme::SharedKeyLite, account.into(), key)
    }

    /// A shared access signature: `sv=..&sig=..`, with or without a leading `?`.
    ///
    /// Fails with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when it is not the query of an
    /// address or has no signature.
    pub fn sas(signature: &str) -> Result<Self> {
        let sas = signature.trim();
        let sas = sas.strip_prefix('?').unwrap_or(sas).trim_matches('&');
        let is_query = sas.bytes().all(|b| b.is_ascii_graphic() && !b"#?\"<>\\^`{|}".contains(&b));
        if !is_query {
            return Err(Error::invalid(
                "the shared access signature is not the query of an address",
            )
            .advise("give what follows the `?`, percent-encoded as it was issued"));
        }
        let signed = sas.split('&').any(|p| p.strip_prefix("sig=").is_some_and(|s| !s.is_empty()));
        if !signed {
            return Err(Error::invalid("the shared access signature has no `sig`")
                .advise("give all of it, from `sv=` to the end"));
        }
        Ok(Self(Repr::Sas(sas.to_owned())))
    }

    /// No authorization, for servers that ask for none.
    pub fn anonymous() -> Self {
        Self(Repr::Anonymous)
    }

    pub(crate) fn authorize(&self) -> Authorize<'_> {
        match &self.0 {
            Repr::Anonymous => Authorize::Nothing,
            Repr::Sas(sas) => Authorize::Sas(sas),
            Repr::SharedKey { scheme, account, key } => {
                Authorize::SharedKey { scheme: *scheme, account, key }
            }
        }
    }

    /// The account's name, when the credential has one.
    pub(crate) fn account(&self) -> Option<&str> {
        match &self.0 {
            Repr::SharedKey { account, .. } => Some(account),
            Repr::Anonymous | Repr::Sas(_) => None,
        }
    }

    fn with_scheme(scheme: Scheme, account: String, key: &str) -> Result<Self> {
        if account.is_empty() {
            return Err(Error::invalid("the account's name is empty"));
        }
        let key = SigningKey::from_base64(key).map_err(|error| {
            Error::invalid("the account key is not base64")
                .advise("copy it again from the account's access keys")
                .with_source(error)
        })?;
        Ok(Self(Repr::SharedKey { scheme, account, key }))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Anonymous => f.write_str("Anonymous"),
            Repr::Sas(_) => f.write_str("Sas(..)"),
            Repr::SharedKey { scheme, account, .. } => {
                f.debug_struct(scheme.name()).field("account", account).finish_non_exhaustive()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_signature_is_taken_with_or_without_its_question_mark() {
        for text in
            ["?sv=2019-02-02&sig=a%2Bb", "sv=2019-02-02&sig=a%2Bb", " sv=2019-02-02&sig=a%2Bb&\n"]
        {
            let credential = Credential::sas(text).unwrap();
            let Authorize::Sas(sas) = credential.authorize() else { panic!("not a signature") };
            assert_eq!(sas, "sv=2019-02-02&sig=a%2Bb");
        }
    }

    #[test]
    fn what_is_no_signature_is_refused_without_being_quoted() {
        for text in [
            "",
            "sv=2019-02-02",
            "sv=2019-02-02&sig=",
            "https://a.table.core.windows.net/?sig=secret",
            "sv=1&sig=secret#x",
            "sv=1&sig=se cret",
            "sv=1&sig=sécret",
        ] {
            let error = Credential::sas(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            assert!(!format!("{error} {error:?}").contains("cret"), "{text}");
        }
    }

    #[test]
    fn a_key_that_is_not_base64_is_refused_without_being_quoted() {
        let error = Credential::shared_key("a", "secret!").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert!(Credential::shared_key("", "YmFy").is_err());
    }

    #[test]
    fn debug_shows_what_it_is_and_not_the_secret() {
        for (credential, shown) in [
            (Credential::anonymous(), "Anonymous"),
            (Credential::sas("sv=1&sig=secret").unwrap(), "Sas(..)"),
            (Credential::shared_key("a", "YmFy").unwrap(), "SharedKey { account: \"a\", .. }"),
            (
                Credential::shared_key_lite("a", "YmFy").unwrap(),
                "SharedKeyLite { account: \"a\", .. }",
            ),
        ] {
            assert_eq!(format!("{credential:?}"), shown);
        }
    }
}
