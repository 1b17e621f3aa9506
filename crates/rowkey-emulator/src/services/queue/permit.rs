//! The permissions that each operation requires of a shared access signature, and of a token.

use rowkey_wire::auth::{Resource, Service};
use rowkey_wire::error::Rejection;

use crate::front::auth::{Access, Need};
use crate::front::operation::Operation;
use crate::op::queue::Op;

/// Rejects an operation for which the request lacks the permissions.
pub(super) fn check(access: &Access, op: &Op<'_>) -> Result<(), Rejection> {
    access.allow(Service::Queue, &need(op))?;
    let (operation, queue) = operation(op);
    access.rights().allow(operation, queue.map(Resource::Queue))
}

/// The operation as roles name it, and its queue.
fn operation<'a>(op: &Op<'a>) -> (Operation, Option<&'a str>) {
    match op {
        Op::Clear(queue) => (Operation::ClearMessages, Some(queue)),
        Op::Create(queue, _) => (Operation::CreateQueue, Some(queue)),
        Op::Delete(queue) => (Operation::DeleteQueue, Some(queue)),
        Op::DeleteMessage(handle) => (Operation::DeleteMessage, Some(handle.queue)),
        Op::Get { queue, .. } => (Operation::GetMessages, Some(queue)),
        Op::GetAcl(queue) => (Operation::GetQueueAcl, Some(queue)),
        Op::GetMetadata(queue) => (Operation::GetQueueMetadata, Some(queue)),
        Op::GetProperties => (Operation::GetQueueServiceProperties, None),
        Op::GetStats => (Operation::GetQueueServiceStats, None),
        Op::GetUserDelegationKey => (Operation::GetQueueUserDelegationKey, None),
        Op::List(_) => (Operation::ListQueues, None),
        Op::Peek { queue, .. } => (Operation::PeekMessages, Some(queue)),
        Op::Put { queue, .. } => (Operation::PutMessage, Some(queue)),
        Op::SetAcl(queue) => (Operation::SetQueueAcl, Some(queue)),
        Op::SetMetadata(queue, _) => (Operation::SetQueueMetadata, Some(queue)),
        Op::SetProperties => (Operation::SetQueueServiceProperties, None),
        Op::Update { handle, .. } => (Operation::UpdateMessage, Some(handle.queue)),
    }
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
