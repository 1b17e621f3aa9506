//! The permissions that each operation requires of a shared access signature or of a token, and the entities that
//! a signature makes accessible.

use rowkey_wire::auth::{Resource, Service};
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use crate::front::auth::{Access, Need, Rights, Scope};
use crate::front::operation::Operation;
use crate::op::table::{Address, ChangeKind, Op, Target};
use crate::store::Key;
use crate::store::query::Window;

/// Rejects an operation for which the request lacks the permissions.
pub(crate) fn check(access: &Access, op: &Op<'_>) -> Result<(), Rejection> {
    let grant = match access {
        Access::Sas(grant) => grant,
        // Recorded: for a request with a token, this resource does not exist.
        Access::Token(_) if matches!(op, Op::GetAcl(_) | Op::SetAcl(_)) => {
            return Err(Rejection::new(ErrorCode::RESOURCE_NOT_FOUND));
        }
        Access::Token(rights) => return allow(rights, op),
        Access::Anonymous | Access::Key => return Ok(()),
    };
    // The parts of a batch are checked one by one.
    if *op == Op::Batch {
        return Ok(());
    }
    if let Scope::Table { name, .. } = &grant.scope
        && !table_of(op).is_some_and(|table| name.eq_ignore_ascii_case(table))
    {
        return Err(other_table());
    }
    access.allow(Service::Table, &need(op))?;
    allow(access.rights(), op)?;
    match &grant.scope {
        Scope::Table { window, .. } => check_window(window, op),
        _ => Ok(()),
    }
}

/// Rejects an operation that no role of a token's identity permits.
fn allow(rights: &Rights, op: &Op<'_>) -> Result<(), Rejection> {
    let (operation, table) = operation(op);
    rights.allow(operation, table.map(Resource::Table))
}

/// The operation as roles name it, and its table.
fn operation<'a>(op: &'a Op<'_>) -> (Operation, Option<&'a str>) {
    let operation = match op {
        Op::Batch => Operation::Transaction,
        Op::Change(change) => match &change.kind {
            ChangeKind::Delete(_) => Operation::DeleteEntity,
            ChangeKind::Insert(..) => Operation::InsertEntity,
            ChangeKind::Merge(_, None) => Operation::InsertOrMergeEntity,
            ChangeKind::Merge(..) => Operation::MergeEntity,
            ChangeKind::Replace(_, None) => Operation::InsertOrReplaceEntity,
            ChangeKind::Replace(..) => Operation::UpdateEntity,
        },
        Op::CreateTable { name, .. } => return (Operation::CreateTable, Some(name)),
        Op::DeleteTable(name) => return (Operation::DeleteTable, Some(name)),
        Op::GetAcl(name) => return (Operation::GetTableAcl, Some(name)),
        Op::GetEntity(..) => Operation::GetEntity,
        Op::GetProperties => Operation::GetTableServiceProperties,
        Op::GetStats => Operation::GetTableServiceStats,
        Op::GetTable(name) => return (Operation::GetTable, Some(name)),
        Op::GetUserDelegationKey => Operation::GetTableUserDelegationKey,
        Op::QueryEntities(..) => Operation::QueryEntities,
        Op::QueryTables(_) => Operation::QueryTables,
        Op::SetAcl(name) => return (Operation::SetTableAcl, Some(name)),
        Op::SetProperties => Operation::SetTableServiceProperties,
    };
    (operation, table_of(op))
}

/// Rejects a request beyond the permissions of the signature by its head, before reading the body.
pub(super) fn check_target(access: &Access, target: &Target<'_>) -> Result<(), Rejection> {
    let Access::Sas(grant) = access else { return Ok(()) };
    match (&grant.scope, target) {
        (Scope::Account { services, .. }, _) if !services.contains('t') => {
            Err(Rejection::new(ErrorCode::AUTHORIZATION_SERVICE_MISMATCH))
        }
        (Scope::Table { name, .. }, target) => match target {
            Target::Batch => Ok(()),
            Target::Entities(table) | Target::Entity(Address { table, .. })
                if name.eq_ignore_ascii_case(table) =>
            {
                Ok(())
            }
            _ => Err(other_table()),
        },
        _ => Ok(()),
    }
}

/// Outside its key range a signature permits no access: writes are rejected, an entity is not
/// found, and a query leaves it out.
fn check_window(window: &Window, op: &Op<'_>) -> Result<(), Rejection> {
    let (address, code) = match op {
        Op::Change(change) => (&change.address, ErrorCode::AUTHORIZATION_FAILURE),
        Op::GetEntity(address, _) => (address, ErrorCode::RESOURCE_NOT_FOUND),
        _ => return Ok(()),
    };
    if window.contains(&Key::from(&*address.partition_key), &Key::from(&*address.row_key)) {
        return Ok(());
    }
    Err(Rejection::new(code).because("the key is outside the signature's range"))
}

fn other_table() -> Rejection {
    Rejection::new(ErrorCode::AUTHORIZATION_FAILURE)
        .because("the shared access signature is for another table")
}

/// The permissions that an operation requires.
fn need(op: &Op<'_>) -> Need {
    let need =
        |resource_type, account, resource| Need { resource_type, account, resource, public: false };
    match op {
        Op::Batch | Op::GetAcl(_) | Op::SetAcl(_) => need('c', &[], &[]),
        Op::Change(change) => match &change.kind {
            ChangeKind::Delete(_) => need('o', &["d"], &["d"]),
            ChangeKind::Insert(..) => need('o', &["a"], &["a"]),
            ChangeKind::Merge(_, None) | ChangeKind::Replace(_, None) => {
                need('o', &["au"], &["au"])
            }
            ChangeKind::Merge(..) | ChangeKind::Replace(..) => need('o', &["u"], &["u"]),
        },
        Op::CreateTable { .. } => need('c', &["c", "w"], &[]),
        Op::DeleteTable(_) => need('c', &["d"], &[]),
        Op::GetEntity(..) | Op::QueryEntities(..) => need('o', &["r"], &["r"]),
        Op::GetTable(_) | Op::QueryTables(_) => need('c', &["l"], &[]),
        Op::GetProperties | Op::GetStats => need('s', &["r"], &[]),
        Op::GetUserDelegationKey => need('s', &[], &[]),
        Op::SetProperties => need('s', &["w"], &[]),
    }
}

fn table_of<'a>(op: &'a Op<'_>) -> Option<&'a str> {
    match op {
        Op::Change(change) => Some(change.address.table),
        Op::GetEntity(address, _) => Some(address.table),
        Op::QueryEntities(table, _) => Some(table),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
