//! The state machine of leases: the result of each operation in each state, and who may read and
//! write.

use rowkey_wire::blob::LeaseAction;
use rowkey_wire::edm::DateTime;
use uuid::Uuid;

use super::lease::{Lease, Leased, State, Subject};

const A: Uuid = Uuid::from_u128(0xA);
const B: Uuid = Uuid::from_u128(0xB);
const FRESH: Uuid = Uuid::from_u128(0xF);

fn at(seconds: i64) -> DateTime {
    let start: DateTime = "2026-01-01T00:00:00Z".parse().unwrap();
    DateTime::from_ticks(start.ticks() + seconds * 10_000_000).unwrap()
}

fn apply(lease: &mut Lease, action: LeaseAction, now: i64) -> Result<Leased, String> {
    let applied = lease.apply(action, FRESH, Subject::Blob, at(now));
    applied.map_err(|rejection| format!("{} {}", rejection.status.as_u16(), rejection.code))
}

fn acquire(proposed: Option<Uuid>) -> LeaseAction {
    LeaseAction::Acquire { seconds: Some(30), proposed }
}

/// A lease acquired by A at 0 for 30 s.
fn leased() -> Lease {
    let mut lease = Lease::None;
    apply(&mut lease, acquire(Some(A)), 0).unwrap();
    lease
}

fn infinite() -> Lease {
    let mut lease = Lease::None;
    apply(&mut lease, LeaseAction::Acquire { seconds: None, proposed: Some(A) }, 0).unwrap();
    lease
}

/// The five states of A's lease at 10. Breaking ends at 20; the others stay.
fn states() -> [(&'static str, Lease); 5] {
    let mut breaking = leased();
    apply(&mut breaking, LeaseAction::Break { period: Some(20) }, 0).unwrap();
    let mut broken = leased();
    apply(&mut broken, LeaseAction::Break { period: Some(0) }, 0).unwrap();
    let mut expired = Lease::None;
    apply(&mut expired, LeaseAction::Acquire { seconds: Some(15), proposed: Some(A) }, -20)
        .unwrap();
    [
        ("available", Lease::None),
        ("leased", leased()),
        ("breaking", breaking),
        ("broken", broken),
        ("expired", expired),
    ]
}

/// Applies an action in each state at 10; returns the result and the new state.
fn row(action: LeaseAction) -> [String; 5] {
    states().map(|(_, mut lease)| match apply(&mut lease, action, 10) {
        Ok(_) => {
            let id = match lease.state(at(10)) {
                State::Available => "",
                State::Leased(id)
                | State::Expired(id)
                | State::Breaking(id)
                | State::Broken(id) => match id {
                    A => " A",
                    B => " B",
                    _ => " fresh",
                },
            };
            format!("{}{id}", lease.view(at(10)).state)
        }
        Err(refused) => refused,
    })
}

const MISMATCH: &str = "409 LeaseIdMismatchWithLeaseOperation";
const NOT_PRESENT: &str = "409 LeaseNotPresentWithLeaseOperation";
const PRESENT: &str = "409 LeaseAlreadyPresent";

#[test]
fn state_names_match_lease_states() {
    for (name, lease) in states() {
        assert_eq!(lease.view(at(10)).state, name);
    }
    let view = leased().view(at(10));
    assert_eq!((view.status, view.duration), ("locked", Some("fixed")));
    assert_eq!(infinite().view(at(1_000_000)).duration, Some("infinite"));
    assert_eq!(states()[4].1.view(at(10)).duration, None);
}

#[test]
fn acquire_matches_the_documented_table() {
    let breaking = "409 LeaseIsBreakingAndCannotBeAcquired";
    assert_eq!(
        row(acquire(None)),
        ["leased fresh", PRESENT, PRESENT, "leased fresh", "leased fresh"]
    );
    assert_eq!(row(acquire(Some(B))), ["leased B", PRESENT, PRESENT, "leased B", "leased B"]);
    assert_eq!(row(acquire(Some(A))), ["leased A", "leased A", breaking, "leased A", "leased A"]);
}

#[test]
fn break_matches_the_documented_table() {
    assert_eq!(
        row(LeaseAction::Break { period: Some(0) }),
        [NOT_PRESENT, "broken A", "broken A", "broken A", "broken A"]
    );
    assert_eq!(
        row(LeaseAction::Break { period: Some(5) }),
        [NOT_PRESENT, "breaking A", "breaking A", "broken A", "broken A"]
    );
    assert_eq!(
        row(LeaseAction::Break { period: None }),
        [NOT_PRESENT, "breaking A", "breaking A", "broken A", "broken A"]
    );
}

#[test]
fn change_matches_the_documented_table() {
    let breaking = "409 LeaseIsBreakingAndCannotBeChanged";
    assert_eq!(
        row(LeaseAction::Change { lease: A, proposed: B }),
        [NOT_PRESENT, "leased B", breaking, NOT_PRESENT, NOT_PRESENT]
    );
    assert_eq!(
        row(LeaseAction::Change { lease: B, proposed: FRESH }),
        [NOT_PRESENT, MISMATCH, MISMATCH, NOT_PRESENT, NOT_PRESENT]
    );
    // A repetition after a lost response: the lease already has the proposed id.
    assert_eq!(row(LeaseAction::Change { lease: B, proposed: A })[1], "leased A");
}

#[test]
fn renew_matches_the_documented_table() {
    let broken = "409 LeaseIsBrokenAndCannotBeRenewed";
    assert_eq!(row(LeaseAction::Renew(A)), [MISMATCH, "leased A", broken, broken, "leased A"]);
    assert_eq!(row(LeaseAction::Renew(B)), [MISMATCH; 5]);
}

#[test]
fn release_matches_the_documented_table() {
    let free = "available";
    assert_eq!(row(LeaseAction::Release(A)), [MISMATCH, free, free, free, free]);
    assert_eq!(row(LeaseAction::Release(B)), [MISMATCH; 5]);
}

#[test]
fn reads_and_writes_match_the_documented_table() {
    let who = |lease: Option<Uuid>, write: bool, subject: Subject| {
        states().map(|(_, state)| {
            let checked = if write {
                state.check_write(lease, subject, at(10))
            } else {
                state.check_read(lease, subject, at(10))
            };
            checked.map_or_else(
                |rejection| format!("{} {}", rejection.status.as_u16(), rejection.code),
                |()| "ok".to_owned(),
            )
        })
    };
    let missing = "412 LeaseIdMissing";
    let lost = "412 LeaseLost";
    let (none, mismatch) =
        ("412 LeaseNotPresentWithBlobOperation", "412 LeaseIdMismatchWithBlobOperation");
    for write in [true, false] {
        assert_eq!(who(Some(A), write, Subject::Blob), [none, "ok", "ok", lost, lost]);
        let other = [none, mismatch, mismatch, mismatch, mismatch];
        assert_eq!(who(Some(B), write, Subject::Blob), other);
    }
    assert_eq!(who(None, true, Subject::Blob), ["ok", missing, missing, "ok", "ok"]);
    assert_eq!(who(None, false, Subject::Blob), ["ok"; 5]);
    let (none, mismatch) =
        ("412 LeaseNotPresentWithContainerOperation", "412 LeaseIdMismatchWithContainerOperation");
    let other = [none, mismatch, mismatch, mismatch, mismatch];
    assert_eq!(who(Some(B), true, Subject::Container), other);
}

#[test]
fn break_returns_the_remaining_seconds() {
    let broken = |mut lease: Lease, period| apply(&mut lease, LeaseAction::Break { period }, 10);
    // 20 s remain of A's lease.
    assert_eq!(broken(leased(), None), Ok(Leased::Broken(20)));
    assert_eq!(broken(leased(), Some(5)), Ok(Leased::Broken(5)));
    assert_eq!(broken(leased(), Some(60)), Ok(Leased::Broken(20)));
    assert_eq!(broken(infinite(), None), Ok(Leased::Broken(0)));
    assert_eq!(broken(infinite(), Some(60)), Ok(Leased::Broken(60)));
    let breaking = states()[2].1;
    assert_eq!(broken(breaking, None), Ok(Leased::Broken(10)));
    assert_eq!(broken(breaking, Some(3)), Ok(Leased::Broken(3)));
    assert_eq!(broken(breaking, Some(60)), Ok(Leased::Broken(10)));
}

#[test]
fn leases_expire_and_renewal_restarts_them() {
    let mut lease = leased();
    assert_eq!(lease.state(at(29)), State::Leased(A));
    assert_eq!(lease.state(at(30)), State::Expired(A));
    apply(&mut lease, LeaseAction::Renew(A), 40).unwrap();
    assert_eq!(lease.state(at(69)), State::Leased(A));
    assert_eq!(lease.state(at(70)), State::Expired(A));
    let breaking = states()[2].1;
    assert_eq!(breaking.state(at(19)), State::Breaking(A));
    assert_eq!(breaking.state(at(20)), State::Broken(A));
    assert_eq!(infinite().state(at(1_000_000_000)), State::Leased(A));
}

#[test]
fn a_write_clears_an_expired_lease_which_then_cannot_be_renewed() {
    for (name, mut lease) in states() {
        lease.after_write(at(10));
        let after = lease.view(at(10)).state;
        let expected = if matches!(name, "broken" | "expired") { "available" } else { name };
        assert_eq!(after, expected);
    }
    let mut expired = states()[4].1;
    expired.after_write(at(10));
    assert_eq!(apply(&mut expired, LeaseAction::Renew(A), 10), Err(MISMATCH.to_owned()));
}

#[test]
fn errors_name_the_leased_resource() {
    let action = LeaseAction::Break { period: None };
    let refused = |subject| {
        Lease::None.apply(action, FRESH, subject, at(0)).unwrap_err().message.into_owned()
    };
    assert_eq!(refused(Subject::Blob), "There is currently no lease on the blob.");
    assert_eq!(refused(Subject::Container), "There is currently no lease on the container.");
}
