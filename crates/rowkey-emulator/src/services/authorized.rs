//! An authenticated request, as far as the services share it.

use http::HeaderMap;

use crate::account::{Account, Receipts};
use crate::front::auth::Access;
use crate::front::respond::ResponseContext;
use crate::front::route::Route;
use crate::state::State;

/// A request that is authenticated. Each service adds what its operations need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Authorized<'a> {
    pub(crate) state: &'a State,
    pub(crate) account: &'a Account,
    /// The changes that its response waits for.
    pub(crate) receipts: &'a Receipts,
    pub(crate) route: &'a Route<'a>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) access: &'a Access,
    pub(crate) context: &'a ResponseContext,
    /// The version used for the response.
    pub(crate) version: &'a str,
}

impl Authorized<'_> {
    /// The number of entries on the next page of a listing, at most `room`. `resumes` is whether the request has a
    /// token.
    pub(crate) fn room(&self, room: u32, resumes: bool) -> usize {
        if self.context.is_owner {
            return room as usize;
        }
        self.state.control.pages.room(room, resumes)
    }
}
