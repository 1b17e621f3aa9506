//! The contents that a request reads: those of the account, or a copy that the secondary shows.

use std::ops::Deref;
use std::sync::Arc;

use super::Account;

/// The account that serves a request: at the secondary endpoint it may be an old copy.
#[derive(Debug)]
pub(crate) enum Replica<'a> {
    /// The current contents.
    Live(&'a Account),
    /// The contents at the instant when the secondary was held back.
    Behind(Arc<Account>),
}

impl Deref for Replica<'_> {
    type Target = Account;

    fn deref(&self) -> &Account {
        match self {
            Self::Live(account) => account,
            Self::Behind(account) => account,
        }
    }
}
