//! What the server counts: its journal by billing class, from the operations that it received.

use rowkey::cost::{Class, Usage};
use rowkey_emulator::{Journal, Operation, Server};

/// The class of an operation, from the price lists; `None` if this package does not send it.
fn class(operation: Operation) -> Option<Class> {
    Some(match operation {
        Operation::InsertEntity
        | Operation::UpdateEntity
        | Operation::MergeEntity
        | Operation::InsertOrMergeEntity
        | Operation::InsertOrReplaceEntity
        | Operation::CreateTable => Class::TableWrite,
        Operation::Transaction => Class::TableBatchWrite,
        Operation::GetEntity => Class::TableRead,
        Operation::QueryEntities => Class::TableScan,
        Operation::QueryTables => Class::TableList,
        Operation::DeleteEntity | Operation::DeleteTable => Class::TableDelete,
        Operation::PutMessage
        | Operation::UpdateMessage
        | Operation::DeleteMessage
        | Operation::GetMessages
        | Operation::CreateQueue => Class::QueueClass1,
        Operation::PeekMessages => Class::QueueClass2,
        Operation::PutBlob | Operation::PutBlock | Operation::PutBlockList => Class::BlobWrite,
        Operation::GetBlob => Class::BlobRead,
        Operation::CreateContainer | Operation::ListBlobs => Class::BlobList,
        Operation::DeleteBlob => Class::BlobDelete,
        Operation::BlobBatch => Class::BlobOther,
        _ => return None,
    })
}

/// The billed transactions in a journal, without bytes, which it does not have, and without deletions in batches of blobs.
pub(crate) fn billed(journal: &Journal) -> Usage {
    let billed = journal.iter().filter(|entry| entry.status().is_none_or(|status| status < 500));
    billed
        .map(|entry| {
            let class = class(entry.operation());
            Usage::of(class.unwrap_or_else(|| panic!("{:?}", entry.operation())), 1)
        })
        .sum()
}

/// The transactions since `before`, without bytes.
pub(crate) fn since(server: &Server, before: &Journal) -> Usage {
    billed(&server.journal().since(before))
}

/// A usage without bytes, and without deletions in batches of blobs.
pub(crate) fn transactions(usage: &Usage) -> Usage {
    let batches = usage.transactions(Class::BlobOther) > 0;
    let all = usage.iter().filter(|(class, _)| !batches || *class != Class::BlobDelete);
    all.map(|(class, count)| Usage::of(class, count)).sum()
}
