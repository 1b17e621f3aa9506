//! The place of a request in flight, and those that wait: what is given back when a future is dropped.

use std::sync::Arc;
use std::time::Duration;

use rowkey_wire::auth::Service;
use tokio::sync::Notify;

use super::governor::{Governor, Stage};
use super::lane::Active;
use super::limiter::Failure;
use super::load::{Load, Target};
use super::{Pace, Priority};

/// A request that wants to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asking<'a> {
    pub(crate) load: Load<'a>,
    pub(crate) service: Service,
    /// The table, queue or container.
    pub(crate) resource: &'a str,
}

/// The place of a request in flight, until it is answered, fails or is dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    pub(super) governor: &'a Governor,
    pub(super) asking: Asking<'a>,
    pub(super) pace: Option<Pace>,
    /// Its place in the lanes of the pace.
    pub(super) active: Option<Active<'a>>,
    pub(super) target: Target,
    pub(super) priority: Priority,
    /// The epochs of the limiters, if it has passed their gates.
    pub(super) at_target: Option<u64>,
    pub(super) at_account: Option<u64>,
    /// How long it waited.
    pub(crate) waited: Duration,
}

/// A refusal for being too many, or a lost response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// The wait that the service asked for.
    pub(crate) asked: Option<Duration>,
    /// Whether the service says that the account is over its limit.
    pub(crate) names_account: bool,
    /// Random, from 0 to 1.
    pub(crate) fraction: f64,
}

impl Asking<'_> {
    /// What it counts for at its target: its entities, or 1 if their number is unknown.
    pub(super) fn units(&self) -> u64 {
        self.load.entities().max(1)
    }

    /// What metrics name: never a partition.
    pub(crate) fn label(&self) -> (&'static str, &str) {
        let name = match self.service {
            Service::Blob => "rowkey.container.name",
            Service::Queue => "messaging.destination.name",
            Service::Table => "db.collection.name",
        };
        (name, self.resource)
    }

    pub(super) fn target(&self) -> Target {
        let service = match self.service {
            Service::Blob => 0,
            Service::Queue => 1,
            Service::Table => 2,
        };
        self.load.target(service, self.resource)
    }
}

impl Permit<'_> {
    /// Records a response, even that the request was refused for another reason than being one too many.
    pub(crate) fn answered(mut self) {
        self.governor.answered(&self);
        self.close();
    }

    /// Records a failure that says something about the rate.
    pub(crate) fn failed(mut self, failed: Failed) {
        if let Some(pace) = &self.pace {
            pace.repeats();
        }
        self.governor.failed(&self, failed);
        self.close();
    }

    fn close(&mut self) {
        (self.at_target, self.at_account) = (None, None);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.at_target.is_some() || self.at_account.is_some() {
            self.governor.abandon(self);
        }
    }
}

/// A place in the line of a gate.
pub(super) struct Turn<'a> {
    pub(super) governor: &'a Governor,
    pub(super) stage: Stage,
    pub(super) priority: Priority,
    pub(super) ticket: u64,
    pub(super) wake: Arc<Notify>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.governor.leave(self);
    }
}

/// A request that was counted against the program's own maximum rates and is not sent yet.
pub(super) struct Unsent<'a> {
    pub(super) pace: &'a Pace,
    pub(super) entities: u64,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        self.pace.give_back(self.entities);
    }
}
