//! The route of an operation: which endpoint each of its attempts goes to.

use super::call::{Call, Host, Safety};
use super::hedging::{Raced, Sending};
use crate::endpoint::{Endpoint, ServiceEndpoints};
use crate::error::{Error, Result};
use crate::options::ClientOptions;

/// The endpoint of the next attempt.
pub(super) struct Route<'a> {
    primary: &'a Endpoint,
    /// The endpoint with which attempts may alternate, until it turns out to be behind.
    secondary: Option<&'a Endpoint>,
    at_secondary: bool,
}

impl<'a> Route<'a> {
    pub(super) fn new(
        endpoints: &'a ServiceEndpoints,
        options: &ClientOptions,
        call: &Call<'_>,
    ) -> Result<Self> {
        let secondary = endpoints.secondary.as_ref();
        let primary = &endpoints.primary;
        match call.host {
            Host::Any if options.read_from_secondary && call.safety == Safety::Read => {
                Ok(Self { primary, secondary, at_secondary: false })
            }
            Host::Any | Host::Primary => Ok(Self { primary, secondary: None, at_secondary: false }),
            // Only the secondary is used, so attempts do not alternate.
            Host::Secondary => match secondary {
                Some(primary) => Ok(Self { primary, secondary: None, at_secondary: true }),
                None => Err(Error::invalid("the account has no secondary endpoint")
                    .of(call.operation, call.resource)),
            },
        }
    }

    pub(super) fn endpoint(&self) -> &'a Endpoint {
        match self.secondary {
            Some(secondary) if self.at_secondary => secondary,
            _ => self.primary,
        }
    }

    pub(super) fn at_secondary(&self) -> bool {
        self.at_secondary
    }

    pub(super) fn next(&mut self) {
        if self.secondary.is_some() {
            self.at_secondary = !self.at_secondary;
        }
    }

    /// The endpoint of a second request for the read, if the options want one.
    pub(super) fn second(
        &self,
        options: &ClientOptions,
        sending: &Sending<'_>,
    ) -> Option<&'a Endpoint> {
        let hedge = options.hedge.as_ref()?;
        if !sending.may_be_hedged() {
            return None;
        }
        Some(match self.secondary {
            Some(secondary) if hedge.at_secondary && !self.at_secondary => secondary,
            _ => self.endpoint(),
        })
    }

    /// Records from which endpoint the result of a race came.
    pub(super) fn is_answered_by(&mut self, raced: &Raced) {
        self.at_secondary |= raced.is_other && raced.is_second;
    }

    /// Stops using the secondary for this operation if it reports that something is missing or has
    /// another version: it may only be behind.
    pub(super) fn leave_stale_secondary(&mut self, status: Option<u16>) -> bool {
        let stale =
            self.at_secondary && self.secondary.is_some() && matches!(status, Some(404 | 412));
        if stale {
            self.secondary = None;
            self.at_secondary = false;
        }
        stale
    }
}
