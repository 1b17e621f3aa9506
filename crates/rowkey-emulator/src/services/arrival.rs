//! A request that arrived, with what all steps of its answer share.

use std::net::IpAddr;

use http::request::Parts;
use rowkey_wire::auth::Resource;

use crate::account::Receipts;
use crate::front::auth::Caller;
use crate::front::respond::ResponseContext;
use crate::front::route::Route;
use crate::state::State;

/// A request that arrived. Its body is read separately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) state: &'a State,
    /// The address of its sender.
    pub(crate) address: IpAddr,
    pub(crate) request: &'a Parts,
    pub(crate) context: &'a ResponseContext,
    /// The changes that its response waits for.
    pub(crate) receipts: &'a Receipts,
}

impl<'a> Arrival<'a> {
    /// The facts for its authentication.
    pub(crate) fn caller(&self, route: &Route<'_>, resource: Option<Resource<'a>>) -> Caller<'a> {
        Caller {
            service: self.context.service,
            resource,
            address: self.address,
            now: self.context.now,
            secondary: route.secondary,
            signing_log: self.state.debug_signing.then_some(&self.context.id),
        }
    }
}
