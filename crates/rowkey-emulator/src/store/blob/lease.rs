//! Leases on blobs and containers: their states, and which operations each state permits.
//!
//! The effect of time is computed when a lease is read. An ended lease is kept with its id, because
//! its last holder may renew it.
//!
//! Reference: [Lease Blob](https://learn.microsoft.com/rest/api/storageservices/lease-blob).

use rowkey_wire::blob::LeaseAction;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::edm::DateTime;
use rowkey_wire::error::Rejection;
use uuid::Uuid;

use crate::op::views::LeaseView;

/// Ticks in a second.
const SECOND: i64 = 10_000_000;

/// The lease on a blob or a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lease {
    /// There is no lease.
    #[default]
    None,
    /// It is held, or was held until it expired.
    Held { id: Uuid, seconds: Option<u32>, until: DateTime },
    /// It was broken, and ends or ended at `until`.
    Breaking { id: Uuid, until: DateTime },
}

/// The state of a lease at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Available,
    Leased(Uuid),
    Expired(Uuid),
    Breaking(Uuid),
    Broken(Uuid),
}

/// The type of the leased resource, on which some errors depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Blob,
    Container,
}

/// The result of a lease operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leased {
    Acquired(Uuid),
    /// The lease was broken. The seconds until it ends.
    Broken(u32),
    Changed(Uuid),
    Released,
    Renewed(Uuid),
}

impl Lease {
    /// Its state now.
    pub(crate) fn state(&self, now: DateTime) -> State {
        match *self {
            Self::None => State::Available,
            Self::Held { id, until, .. } if now < until => State::Leased(id),
            Self::Held { id, .. } => State::Expired(id),
            Self::Breaking { id, until } if now < until => State::Breaking(id),
            Self::Breaking { id, .. } => State::Broken(id),
        }
    }

    /// The lease as headers and listings show it.
    pub(crate) fn view(&self, now: DateTime) -> LeaseView {
        let (status, state) = match self.state(now) {
            State::Available => ("unlocked", "available"),
            State::Leased(_) => ("locked", "leased"),
            State::Expired(_) => ("unlocked", "expired"),
            State::Breaking(_) => ("locked", "breaking"),
            State::Broken(_) => ("unlocked", "broken"),
        };
        let duration = match self {
            Self::Held { seconds: Some(_), .. } if status == "locked" => Some("fixed"),
            Self::Held { seconds: None, .. } => Some("infinite"),
            _ => None,
        };
        LeaseView { status, state, duration }
    }

    /// Performs a lease operation. `fresh` is a unique id.
    pub(crate) fn apply(
        &mut self,
        action: LeaseAction,
        fresh: Uuid,
        subject: Subject,
        now: DateTime,
    ) -> Result<Leased, Rejection> {
        match action {
            LeaseAction::Acquire { seconds, proposed } => {
                self.may_acquire(proposed, now).map_err(|code| subject.refuse(code))?;
                let id = proposed.unwrap_or(fresh);
                *self = Self::held(id, seconds, now);
                Ok(Leased::Acquired(id))
            }
            LeaseAction::Break { period } => {
                let remaining = self.break_after(period, now).ok_or_else(|| {
                    subject.refuse(ErrorCode::LEASE_NOT_PRESENT_WITH_LEASE_OPERATION)
                })?;
                Ok(Leased::Broken(remaining))
            }
            LeaseAction::Change { lease, proposed } => {
                let code = match self.state(now) {
                    State::Leased(id) if id == lease || id == proposed => {
                        if let Self::Held { id, .. } = self {
                            *id = proposed;
                        }
                        return Ok(Leased::Changed(proposed));
                    }
                    State::Breaking(id) if id == lease => {
                        ErrorCode::LEASE_IS_BREAKING_AND_CANNOT_BE_CHANGED
                    }
                    State::Leased(_) | State::Breaking(_) => {
                        ErrorCode::LEASE_ID_MISMATCH_WITH_LEASE_OPERATION
                    }
                    State::Available | State::Broken(_) | State::Expired(_) => {
                        ErrorCode::LEASE_NOT_PRESENT_WITH_LEASE_OPERATION
                    }
                };
                Err(subject.refuse(code))
            }
            LeaseAction::Release(lease) => match self.state(now).id() {
                Some(id) if id == lease => {
                    *self = Self::None;
                    Ok(Leased::Released)
                }
                _ => Err(subject.refuse(ErrorCode::LEASE_ID_MISMATCH_WITH_LEASE_OPERATION)),
            },
            LeaseAction::Renew(lease) => {
                let code = match (self.state(now), *self) {
                    (State::Leased(id) | State::Expired(id), Self::Held { seconds, .. })
                        if id == lease =>
                    {
                        *self = Self::held(id, seconds, now);
                        return Ok(Leased::Renewed(id));
                    }
                    (State::Breaking(id) | State::Broken(id), _) if id == lease => {
                        ErrorCode::LEASE_IS_BROKEN_AND_CANNOT_BE_RENEWED
                    }
                    _ => ErrorCode::LEASE_ID_MISMATCH_WITH_LEASE_OPERATION,
                };
                Err(subject.refuse(code))
            }
        }
    }

    /// Rejects a change or deletion of a resource that another client has leased.
    pub(crate) fn check_write(
        &self,
        lease: Option<Uuid>,
        subject: Subject,
        now: DateTime,
    ) -> Result<(), Rejection> {
        match (self.state(now), lease) {
            (State::Leased(_) | State::Breaking(_), None) => {
                Err(subject.refuse(ErrorCode::LEASE_ID_MISSING))
            }
            _ => self.check_read(lease, subject, now),
        }
    }

    /// Rejects a read that names a lease which is not the current one.
    pub(crate) fn check_read(
        &self,
        lease: Option<Uuid>,
        subject: Subject,
        now: DateTime,
    ) -> Result<(), Rejection> {
        let Some(lease) = lease else { return Ok(()) };
        let code = match (self.state(now), subject) {
            (State::Leased(id) | State::Breaking(id), _) if id == lease => return Ok(()),
            (State::Broken(id) | State::Expired(id), _) if id == lease => ErrorCode::LEASE_LOST,
            (State::Available, Subject::Blob) => ErrorCode::LEASE_NOT_PRESENT_WITH_BLOB_OPERATION,
            (State::Available, Subject::Container) => {
                ErrorCode::LEASE_NOT_PRESENT_WITH_CONTAINER_OPERATION
            }
            (_, Subject::Blob) => ErrorCode::LEASE_ID_MISMATCH_WITH_BLOB_OPERATION,
            (_, Subject::Container) => ErrorCode::LEASE_ID_MISMATCH_WITH_CONTAINER_OPERATION,
        };
        Err(subject.refuse(code))
    }

    /// Updates the lease when its resource is written: an expired lease is removed, and can no
    /// longer be renewed.
    pub(crate) fn after_write(&mut self, now: DateTime) {
        if matches!(self.state(now), State::Broken(_) | State::Expired(_)) {
            *self = Self::None;
        }
    }

    fn held(id: Uuid, seconds: Option<u32>, now: DateTime) -> Self {
        let until = seconds.map_or(DateTime::MAX, |seconds| later(now, seconds));
        Self::Held { id, seconds, until }
    }

    fn may_acquire(&self, proposed: Option<Uuid>, now: DateTime) -> Result<(), ErrorCode> {
        match self.state(now) {
            State::Leased(id) if proposed != Some(id) => Err(ErrorCode::LEASE_ALREADY_PRESENT),
            State::Breaking(id) if proposed == Some(id) => {
                Err(ErrorCode::LEASE_IS_BREAKING_AND_CANNOT_BE_ACQUIRED)
            }
            // Recorded, for a request without a lease id.
            State::Breaking(_) => Err(ErrorCode::LEASE_ALREADY_PRESENT),
            _ => Ok(()),
        }
    }

    /// Breaks the lease; returns the seconds until it ends. `None` if there is no lease.
    fn break_after(&mut self, period: Option<u32>, now: DateTime) -> Option<u32> {
        let (id, until) = match *self {
            Self::Held { id, seconds: None, .. } => {
                (id, period.map_or(now, |seconds| later(now, seconds)))
            }
            Self::Held { id, until, .. } | Self::Breaking { id, until } => {
                let asked = period.map_or(until, |seconds| later(now, seconds));
                (id, asked.min(until))
            }
            Self::None => return None,
        };
        *self = Self::Breaking { id, until };
        let remaining = (until.ticks() - now.ticks()).max(0);
        Some(u32::try_from((remaining + SECOND - 1) / SECOND).unwrap_or(u32::MAX))
    }
}

impl State {
    fn id(self) -> Option<Uuid> {
        match self {
            Self::Available => None,
            Self::Leased(id) | Self::Expired(id) | Self::Breaking(id) | Self::Broken(id) => {
                Some(id)
            }
        }
    }
}

impl Subject {
    /// The error, which depends on the type of the leased resource.
    fn refuse(self, code: ErrorCode) -> Rejection {
        let mut rejection = Rejection::new(code);
        if self == Self::Container {
            rejection.message = rejection.message.replace("blob", "container").into();
        }
        rejection
    }
}

fn later(now: DateTime, seconds: u32) -> DateTime {
    DateTime::from_ticks(now.ticks().saturating_add(i64::from(seconds) * SECOND))
        .unwrap_or(DateTime::MAX)
}
