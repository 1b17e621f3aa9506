//! User delegation keys: keys that a token holder signs with instead of the account key.
//!
//! Reference: [Get User Delegation Key](https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key),
//! [user delegation SAS](https://learn.microsoft.com/rest/api/storageservices/create-user-delegation-sas).

use crate::shown;
use zeroize::Zeroizing;

/// A key, with its user and its validity. Signatures made with the key contain all of these fields
/// except the value, exactly as the service returned them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DelegationKey {
    /// The user.
    pub oid: String,
    /// The user's directory.
    pub tid: String,
    /// The start of the validity.
    pub start: String,
    /// The end of the validity.
    pub expiry: String,
    /// The service: `b`, `q` or `t`.
    pub service: String,
    /// The version that issued it.
    pub version: String,
    /// The directory of the user who may use signatures made with it; empty for anyone.
    pub delegated_tid: String,
    /// The key in base64.
    pub value: Zeroizing<String>,
}

/// The requested validity of a key, in the format of the document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyInfo {
    /// The start of the validity.
    pub start: String,
    /// The end of the validity.
    pub expiry: String,
    /// The directory of the user who may use signatures; empty for anyone.
    pub delegated_tid: String,
}

shown! {
    /// Leaves out the value and the user.
    DelegationKey: start, expiry
}
