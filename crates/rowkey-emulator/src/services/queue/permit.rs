//! The permissions that each operation requires of a shared access signature.

use rowkey_wire::auth::Service;
use rowkey_wire::error::Rejection;

use crate::front::auth::{Access, Need};
use crate::op::queue::Op;

/// Rejects an operation for which the request lacks the permissions.
pub(super) fn check(access: &Access, op: &Op<'_>) -> Result<(), Rejection> {
    access.allow(Service::Queue, &need(op))
}

/// The permissions that an operation requires.
fn need(op: &Op<'_>) -> Need {
    let need =
        |resource_type, account, resource| Need { resource_type, account, resource, public: false };
    match op {
        Op::Clear(_) => need('o', &["d"], &["p"]),
        Op::Create(..) => need('c', &["c", "w"], &[]),
        Op::Delete(_) => need('c', &["d"], &[]),
        Op::DeleteMessage(_) | Op::Get { .. } => need('o', &["p"], &["p"]),
        Op::GetAcl(_) | Op::SetAcl(_) => need('c', &[], &[]),
        Op::GetMetadata(_) => need('c', &["r"], &["r"]),
        Op::GetProperties | Op::GetStats => need('s', &["r"], &[]),
        Op::GetUserDelegationKey => need('s', &[], &[]),
        Op::List(_) => need('s', &["l"], &[]),
        Op::Peek { .. } => need('o', &["r"], &["r"]),
        Op::Put { .. } => need('o', &["a"], &["a"]),
        Op::SetMetadata(..) => need('c', &["w"], &[]),
        Op::SetProperties => need('s', &["w"], &[]),
        Op::Update { .. } => need('o', &["u"], &["u"]),
    }
}
