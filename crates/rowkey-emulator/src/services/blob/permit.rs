//! The permissions that each operation requires of a shared access signature, and public access.

use rowkey_wire::auth::Service;
use rowkey_wire::blob::PublicAccess;
use rowkey_wire::error::Rejection;

use crate::account::Account;
use crate::front::auth::{Access, Need};
use crate::op::blob::{AccountOp, BlobOp, ContainerOp, Op, Put, Target};

/// Any permission is sufficient.
const ANY: &[&str] = &[""];
/// The permissions to put a blob with tags.
const TAGGED: &[&str] = &["wt", "ct"];

/// Rejects an operation for which the request lacks the permissions.
pub(super) fn check(
    access: &Access,
    account: &Account,
    target: Target<'_>,
    op: &Op<'_>,
) -> Result<(), Rejection> {
    let public = matches!(access, Access::Anonymous) && is_public(account, target, op);
    access.allow(Service::Blob, &need(op, public))
}

/// The permissions that an operation requires.
fn need(op: &Op<'_>, public: bool) -> Need {
    let need = |resource_type, account, resource| Need { resource_type, account, resource, public };
    match op {
        Op::Account(op) => match op {
            // The batch itself requires only a genuine signature; each request in it requires its
            // permissions.
            AccountOp::Batch => need('s', ANY, ANY),
            AccountOp::FindByTags(_) => need('o', &["f"], &[]),
            AccountOp::GetInformation => {
                need('s', &["r", "w", "d", "l", "c", "a"], &["r", "l", "w"])
            }
            // Available only with a token.
            AccountOp::GetUserDelegationKey => need('s', &[], &[]),
            AccountOp::GetProperties | AccountOp::GetStats => need('s', &["r"], &[]),
            AccountOp::ListContainers(_) => need('s', &["l"], &[]),
            AccountOp::SetProperties => need('s', &["w"], &[]),
        },
        Op::Container(op) => match op {
            ContainerOp::Batch => need('c', ANY, ANY),
            ContainerOp::FindByTags(_) => need('o', &["f"], &["f"]),
            ContainerOp::Create(..) => need('c', &["c", "w"], &[]),
            ContainerOp::Delete(_) => need('c', &["d"], &[]),
            ContainerOp::GetAcl(_) | ContainerOp::SetAcl(..) => need('c', &[], &[]),
            ContainerOp::GetMetadata(_) | ContainerOp::GetProperties(_) => need('c', &["r"], &[]),
            ContainerOp::Lease(..) | ContainerOp::SetMetadata(..) => need('c', &["w"], &[]),
            ContainerOp::ListBlobs(options) if options.tags => need('c', &["lt"], &["lt"]),
            ContainerOp::ListBlobs(_) => need('c', &["l"], &["l"]),
        },
        Op::Blob(op) => match op {
            BlobOp::AppendBlock(..) | BlobOp::Seal(..) => need('o', &["a", "w"], &["a", "w"]),
            BlobOp::Delete(..) => need('o', &["d"], &["d"]),
            BlobOp::GetAccountInformation => need('o', &["r", "w"], &["r", "w"]),
            BlobOp::GetBlockList(..) | BlobOp::GetMetadata(..) | BlobOp::Read(..) => {
                need('o', &["r"], &["r"])
            }
            BlobOp::GetTags(..) | BlobOp::SetTags(..) => need('o', &["t"], &["t"]),
            BlobOp::Put(Put { description, .. }, _) | BlobOp::PutBlockList(description, ..)
                if !description.tags.is_empty() =>
            {
                need('o', TAGGED, TAGGED)
            }
            BlobOp::Copy(copy, _) if copy.tags.as_ref().is_none_or(|tags| !tags.is_empty()) => {
                need('o', TAGGED, TAGGED)
            }
            // Whether a blob would be overwritten, for which `c` is not sufficient, is checked when
            // the operation is executed.
            BlobOp::Copy(..)
            | BlobOp::Put(..)
            | BlobOp::PutBlock(..)
            | BlobOp::PutBlockList(..)
            | BlobOp::Snapshot(..) => need('o', &["w", "c"], &["w", "c"]),
            BlobOp::AbortCopy(_)
            | BlobOp::Lease(..)
            | BlobOp::SetMetadata(..)
            | BlobOp::SetProperties(..)
            | BlobOp::SetTier(..) => need('o', &["w"], &["w"]),
        },
    }
}

/// Whether the container permits this anonymously.
fn is_public(account: &Account, target: Target<'_>, op: &Op<'_>) -> bool {
    let (Target::Container(name) | Target::Blob { container: name, .. }) = target else {
        return false;
    };
    let access = account.blobs().container(name).ok().and_then(|container| container.access);
    match op {
        Op::Blob(BlobOp::Read(..) | BlobOp::GetMetadata(..) | BlobOp::GetBlockList(..)) => {
            access.is_some()
        }
        Op::Container(
            ContainerOp::ListBlobs(_) | ContainerOp::GetProperties(_) | ContainerOp::GetMetadata(_),
        ) => access == Some(PublicAccess::Container),
        _ => false,
    }
}
