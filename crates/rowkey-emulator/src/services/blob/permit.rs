//! The permissions that each operation requires of a shared access signature or of a token, and public access.

use rowkey_wire::auth::{Resource, Service};
use rowkey_wire::blob::PublicAccess;
use rowkey_wire::error::Rejection;

use crate::account::Account;
use crate::front::auth::{Access, Need};
use crate::front::operation::Operation;
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
    access.allow(Service::Blob, &need(op, public))?;
    let resource = match target {
        Target::Account => None,
        Target::Container(container) => Some(Resource::Container(container)),
        Target::Blob { container, blob: name } => Some(Resource::Blob { container, name }),
    };
    let (operation, tags) = operations(op);
    access.rights().allow(operation, resource)?;
    tags.map_or(Ok(()), |operation| access.rights().allow(operation, resource))
}

/// The operation as roles name it, and what it does with tags besides.
fn operations(op: &Op<'_>) -> (Operation, Option<Operation>) {
    let sets_tags = |has_tags: bool| has_tags.then_some(Operation::SetBlobTags);
    let operation = match op {
        Op::Account(op) => match op {
            AccountOp::Batch => Operation::BlobBatch,
            AccountOp::FindByTags(_) => Operation::FindBlobsByTags,
            AccountOp::GetInformation => Operation::GetAccountInformation,
            AccountOp::GetProperties => Operation::GetBlobServiceProperties,
            AccountOp::GetStats => Operation::GetBlobServiceStats,
            AccountOp::GetUserDelegationKey => Operation::GetUserDelegationKey,
            AccountOp::ListContainers(_) => Operation::ListContainers,
            AccountOp::SetProperties => Operation::SetBlobServiceProperties,
        },
        Op::Container(op) => match op {
            ContainerOp::Batch => Operation::BlobBatch,
            ContainerOp::Create(..) => Operation::CreateContainer,
            ContainerOp::Delete(_) => Operation::DeleteContainer,
            ContainerOp::FindByTags(_) => Operation::FindBlobsByTags,
            ContainerOp::GetAcl(_) => Operation::GetContainerAcl,
            ContainerOp::GetMetadata(_) => Operation::GetContainerMetadata,
            ContainerOp::GetProperties(_) => Operation::GetContainerProperties,
            ContainerOp::Lease(..) => Operation::LeaseContainer,
            ContainerOp::ListBlobs(options) => {
                return (Operation::ListBlobs, options.tags.then_some(Operation::GetBlobTags));
            }
            ContainerOp::SetAcl(..) => Operation::SetContainerAcl,
            ContainerOp::SetMetadata(..) => Operation::SetContainerMetadata,
        },
        Op::Blob(op) => match op {
            BlobOp::AbortCopy(_) => Operation::AbortCopyBlob,
            BlobOp::AppendBlock(..) => Operation::AppendBlock,
            BlobOp::Copy(copy, _) => {
                // None are those of the source.
                let has_tags = copy.tags.as_ref().is_none_or(|tags| !tags.is_empty());
                return (Operation::CopyBlob, sets_tags(has_tags));
            }
            BlobOp::Delete(..) => Operation::DeleteBlob,
            BlobOp::GetAccountInformation => Operation::GetAccountInformation,
            BlobOp::GetBlockList(..) => Operation::GetBlockList,
            BlobOp::GetMetadata(..) => Operation::GetBlobMetadata,
            BlobOp::GetTags(..) => Operation::GetBlobTags,
            BlobOp::Lease(..) => Operation::LeaseBlob,
            BlobOp::Put(put, _) => {
                return (Operation::PutBlob, sets_tags(!put.description.tags.is_empty()));
            }
            BlobOp::PutBlock(..) => Operation::PutBlock,
            BlobOp::PutBlockList(description, ..) => {
                return (Operation::PutBlockList, sets_tags(!description.tags.is_empty()));
            }
            BlobOp::Read(read, _) if read.content => Operation::GetBlob,
            BlobOp::Read(..) => Operation::GetBlobProperties,
            BlobOp::Seal(..) => Operation::SealAppendBlob,
            BlobOp::SetMetadata(..) => Operation::SetBlobMetadata,
            BlobOp::SetProperties(..) => Operation::SetBlobProperties,
            BlobOp::SetTags(..) => Operation::SetBlobTags,
            BlobOp::SetTier(..) => Operation::SetBlobTier,
            BlobOp::Snapshot(..) => Operation::SnapshotBlob,
        },
    };
    (operation, None)
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
