//! The actions of Azure roles that each operation requires.
//!
//! They are those of <https://learn.microsoft.com/rest/api/storageservices/authorize-with-azure-active-directory#permissions-for-calling-data-operations>,
//! without the beginning `Microsoft.Storage/storageAccounts/` of each action.

use crate::front::operation::Operation;

/// Alternatives: all actions of one entry are required. If there is no entry, nothing is.
pub(super) type Required = &'static [&'static [&'static str]];

const NOTHING: Required = &[];

const BLOB_ADD: &str = "blobServices/containers/blobs/add/action";
const BLOB_DELETE: Required = &[&["blobServices/containers/blobs/delete"]];
const BLOB_FILTER: Required = &[&["blobServices/containers/blobs/filter/action"]];
const BLOB_READ: Required = &[&["blobServices/containers/blobs/read"]];
const BLOB_WRITE: Required = &[&["blobServices/containers/blobs/write"]];
const BLOB_WRITE_OR_ADD: Required = &[&["blobServices/containers/blobs/write"], &[BLOB_ADD]];
const CONTAINER_READ: Required = &[&["blobServices/containers/read"]];
const CONTAINER_WRITE: Required = &[&["blobServices/containers/write"]];

const MESSAGE_DELETE: &str = "queueServices/queues/messages/delete";
const MESSAGE_PROCESS: &str = "queueServices/queues/messages/process/action";
const MESSAGE_READ: &str = "queueServices/queues/messages/read";
const MESSAGE_WRITE: &str = "queueServices/queues/messages/write";
const QUEUE_READ: Required = &[&["queueServices/queues/read"]];
const QUEUE_WRITE: Required = &[&["queueServices/queues/write"]];

const ENTITY_ADD: &str = "tableServices/tables/entities/add/action";
const ENTITY_READ: Required = &[&["tableServices/tables/entities/read"]];
const ENTITY_UPDATE: &str = "tableServices/tables/entities/update/action";
const ENTITY_WRITE: &str = "tableServices/tables/entities/write";
const TABLE_READ: Required = &[&["tableServices/tables/read"]];

/// The actions that an operation requires.
pub(super) const fn required(operation: Operation) -> Required {
    use Operation as Op;
    match operation {
        // Parts of a batch require their own actions. What is unknown or anonymous requires none.
        Op::Transaction
        | Op::PreflightBlobRequest
        | Op::PreflightQueueRequest
        | Op::PreflightTableRequest
        | Op::UnknownBlob
        | Op::UnknownQueue
        | Op::UnknownTable => NOTHING,

        Op::GetBlobServiceProperties | Op::GetBlobServiceStats => &[&["blobServices/read"]],
        Op::SetBlobServiceProperties => &[&["blobServices/write"]],
        Op::GetAccountInformation => &[&["blobServices/getInfo/action"]],
        Op::GetUserDelegationKey => &[&["blobServices/generateUserDelegationKey/action"]],
        Op::ListContainers | Op::GetContainerMetadata | Op::GetContainerProperties => {
            CONTAINER_READ
        }
        Op::BlobBatch
        | Op::CreateContainer
        | Op::LeaseContainer
        | Op::RestoreContainer
        | Op::SetContainerMetadata
        | Op::UndeleteBlob => CONTAINER_WRITE,
        Op::DeleteContainer => &[&["blobServices/containers/delete"]],
        Op::GetContainerAcl => &[&["blobServices/containers/getAcl/action"]],
        Op::SetContainerAcl => &[&["blobServices/containers/setAcl/action"]],
        Op::FindBlobsByTags => BLOB_FILTER,
        Op::GetBlob
        | Op::GetBlobMetadata
        | Op::GetBlobProperties
        | Op::GetBlockList
        | Op::GetPageRanges
        | Op::ListBlobs
        | Op::QueryBlobContents => BLOB_READ,
        Op::AppendBlock
        | Op::AppendBlockFromUrl
        | Op::CopyBlob
        | Op::CopyBlobFromUrl
        | Op::PutBlob
        | Op::PutBlobFromUrl
        | Op::SnapshotBlob => BLOB_WRITE_OR_ADD,
        Op::AbortCopyBlob
        | Op::LeaseBlob
        | Op::PutBlock
        | Op::PutBlockFromUrl
        | Op::PutBlockList
        | Op::PutPage
        | Op::SealAppendBlob
        | Op::SetBlobExpiry
        | Op::SetBlobMetadata
        | Op::SetBlobProperties
        | Op::SetBlobTier => BLOB_WRITE,
        Op::DeleteBlob => BLOB_DELETE,
        Op::GetBlobTags => &[&["blobServices/containers/blobs/tags/read"]],
        Op::SetBlobTags => &[&["blobServices/containers/blobs/tags/write"]],
        Op::SetImmutability => {
            &[&["blobServices/containers/blobs/immutableStorage/runAsSuperUser/action"]]
        }

        Op::GetQueueServiceProperties | Op::GetQueueServiceStats => &[&["queueServices/read"]],
        Op::SetQueueServiceProperties => &[&["queueServices/write"]],
        Op::GetQueueUserDelegationKey => &[&["queueServices/generateUserDelegationKey/action"]],
        Op::ListQueues | Op::GetQueueMetadata => QUEUE_READ,
        Op::CreateQueue | Op::SetQueueMetadata => QUEUE_WRITE,
        Op::DeleteQueue => &[&["queueServices/queues/delete"]],
        Op::GetQueueAcl => &[&["queueServices/queues/getAcl/action"]],
        Op::SetQueueAcl => &[&["queueServices/queues/setAcl/action"]],
        Op::PutMessage => &[&["queueServices/queues/messages/add/action"], &[MESSAGE_WRITE]],
        Op::GetMessages => &[&[MESSAGE_PROCESS], &[MESSAGE_DELETE, MESSAGE_READ]],
        Op::PeekMessages => &[&[MESSAGE_READ]],
        Op::DeleteMessage => &[&[MESSAGE_PROCESS], &[MESSAGE_DELETE]],
        Op::ClearMessages => &[&[MESSAGE_DELETE]],
        Op::UpdateMessage => &[&[MESSAGE_WRITE]],

        Op::GetTableServiceProperties | Op::GetTableServiceStats => &[&["tableServices/read"]],
        Op::SetTableServiceProperties => &[&["tableServices/write"]],
        Op::GetTableUserDelegationKey => &[&["tableServices/generateUserDelegationKey/action"]],
        Op::GetTable | Op::QueryTables => TABLE_READ,
        Op::CreateTable => &[&["tableServices/tables/write"]],
        Op::DeleteTable => &[&["tableServices/tables/delete"]],
        // The services do not offer these two with tokens; their action is documented all the same.
        Op::GetTableAcl => &[&["tableServices/tables/getAcl/action"]],
        Op::SetTableAcl => &[&["tableServices/tables/setAcl/action"]],
        Op::GetEntity | Op::QueryEntities => ENTITY_READ,
        Op::InsertEntity => &[&[ENTITY_WRITE], &[ENTITY_ADD]],
        Op::InsertOrMergeEntity | Op::InsertOrReplaceEntity => {
            &[&[ENTITY_WRITE], &[ENTITY_ADD, ENTITY_UPDATE]]
        }
        Op::MergeEntity | Op::UpdateEntity => &[&[ENTITY_WRITE], &[ENTITY_UPDATE]],
        Op::DeleteEntity => &[&["tableServices/tables/entities/delete"]],
    }
}

#[cfg(test)]
mod tests {
    use rowkey_wire::auth::Service;

    use super::*;
    use crate::identity::Role;

    fn may(role: Role, operation: Operation) -> bool {
        let all = |actions: &&[&str]| actions.iter().all(|action| role.allows(action));
        required(operation).iter().any(all)
    }

    /// The operations that require an action and that the role permits.
    fn permitted(role: Role) -> Vec<Operation> {
        Operation::ALL.iter().copied().filter(|operation| may(role, *operation)).collect()
    }

    #[test]
    fn every_operation_that_requires_an_action_is_permitted_by_a_role() {
        use Operation as Op;
        for operation in Operation::ALL.iter().copied() {
            let is_free = matches!(
                operation,
                Op::Transaction
                    | Op::PreflightBlobRequest
                    | Op::PreflightQueueRequest
                    | Op::PreflightTableRequest
                    | Op::UnknownBlob
                    | Op::UnknownQueue
                    | Op::UnknownTable
            );
            let roles = Role::ALL.iter().filter(|role| may(**role, operation)).count();
            assert_eq!(required(operation).is_empty(), is_free, "{operation:?}");
            assert_eq!(roles == 0, is_free, "{operation:?}");
            // An action of another service would be a mistake in the table.
            let start = match operation.service() {
                Service::Blob => "blobServices/",
                Service::Queue => "queueServices/",
                Service::Table => "tableServices/",
            };
            let mut actions = required(operation).iter().copied().flatten();
            assert!(actions.all(|action| action.starts_with(start)), "{operation:?}");
        }
    }

    #[test]
    fn small_roles_permit_exactly_these_operations() {
        use Operation as Op;
        for (role, operations) in [
            (
                Role::StorageTableDataReader,
                &[Op::GetEntity, Op::GetTable, Op::QueryEntities, Op::QueryTables][..],
            ),
            (
                Role::StorageQueueDataReader,
                &[Op::GetQueueMetadata, Op::ListQueues, Op::PeekMessages],
            ),
            (
                Role::StorageQueueDataMessageProcessor,
                &[Op::DeleteMessage, Op::GetMessages, Op::PeekMessages],
            ),
            (Role::StorageQueueDataMessageSender, &[Op::PutMessage]),
            (Role::StorageBlobDelegator, &[Op::GetUserDelegationKey]),
            (Role::StorageQueueDelegator, &[Op::GetQueueUserDelegationKey]),
            (Role::StorageTableDelegator, &[Op::GetTableUserDelegationKey]),
            (
                Role::StorageBlobDataReader,
                &[
                    Op::GetBlob,
                    Op::GetBlobMetadata,
                    Op::GetBlobProperties,
                    Op::GetBlockList,
                    Op::GetContainerMetadata,
                    Op::GetContainerProperties,
                    Op::GetPageRanges,
                    Op::GetUserDelegationKey,
                    Op::ListBlobs,
                    Op::ListContainers,
                    Op::QueryBlobContents,
                ],
            ),
        ] {
            assert_eq!(permitted(role), operations, "{role}");
        }
    }

    #[test]
    fn only_owners_permit_tags_and_access_policies_of_containers() {
        use Operation as Op;
        for operation in [
            Op::FindBlobsByTags,
            Op::GetBlobTags,
            Op::SetBlobTags,
            Op::GetContainerAcl,
            Op::SetContainerAcl,
        ] {
            assert!(may(Role::StorageBlobDataOwner, operation), "{operation:?}");
            assert!(!may(Role::StorageBlobDataContributor, operation), "{operation:?}");
        }
    }
}
