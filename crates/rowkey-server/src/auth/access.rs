//! What a request is allowed, by whom it comes from.

use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;
use rowkey_wire::table::op::{ChangeKind, Op};

use crate::store::Key;
use crate::store::query::Window;

/// What the maker of a request may do.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Everything: it was signed with an account key.
    Key,
    /// What a shared access signature opens.
    Sas(Box<Grant>),
}

/// What a shared access signature opens.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(super) scope: Scope,
    /// The letters of `sp`, or those of the stored policy.
    pub(super) permissions: String,
}

#[derive(Clone, Debug)]
pub(super) enum Scope {
    Account { services: String, resource_types: String },
    Table { name: String, window: Window },
}

/// The letters that an operation needs: the resource type for an account signature, permissions
/// for that, and permissions for a table's signature. `None`: it is never allowed by one.
struct Need {
    resource_type: char,
    account: &'static [&'static str],
    table: Option<&'static str>,
}

impl Access {
    /// Refuses an operation that the maker of the request may not do.
    pub(crate) fn check(&self, op: &Op<'_>) -> Result<(), Rejection> {
        let Self::Sas(grant) = self else { return Ok(()) };
        let Some(need) = need(op) else {
            return match op {
                // Its parts are checked one by one.
                Op::Batch => Ok(()),
                _ => Err(Rejection::new(ErrorCode::AUTHORIZATION_FAILURE)),
            };
        };
        let has = |letters: &str| letters.chars().all(|c| grant.permissions.contains(c));
        match &grant.scope {
            Scope::Account { services, resource_types } => {
                if !services.contains('t') {
                    Err(Rejection::new(ErrorCode::AUTHORIZATION_SERVICE_MISMATCH))
                } else if !resource_types.contains(need.resource_type) {
                    Err(Rejection::new(ErrorCode::AUTHORIZATION_RESOURCE_TYPE_MISMATCH))
                } else if !need.account.iter().any(|letters| has(letters)) {
                    Err(Rejection::new(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH))
                } else {
                    Ok(())
                }
            }
            Scope::Table { name, window } => {
                let (Some(letters), Some(table)) = (need.table, table_of(op)) else {
                    return Err(Rejection::new(ErrorCode::AUTHORIZATION_FAILURE));
                };
                if !name.eq_ignore_ascii_case(table) {
                    return Err(Rejection::new(ErrorCode::AUTHORIZATION_FAILURE));
                }
                if !has(letters) {
                    return Err(Rejection::new(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH));
                }
                check_window(window, op)
            }
        }
    }

    /// The part of the table that may be seen.
    pub(crate) fn window(&self) -> Window {
        match self {
            Self::Sas(grant) => match &grant.scope {
                Scope::Table { window, .. } => window.clone(),
                Scope::Account { .. } => Window::default(),
            },
            Self::Key => Window::default(),
        }
    }
}

/// Outside its range a signature writes nothing, and sees nothing: an entity there is not found,
/// and a query leaves it out.
fn check_window(window: &Window, op: &Op<'_>) -> Result<(), Rejection> {
    let (address, code) = match op {
        Op::Change(change) => (&change.address, ErrorCode::AUTHORIZATION_FAILURE),
        Op::GetEntity(address, _) => (address, ErrorCode::RESOURCE_NOT_FOUND),
        _ => return Ok(()),
    };
    if window.contains(&Key::from(&address.partition_key), &Key::from(&address.row_key)) {
        return Ok(());
    }
    Err(Rejection::new(code))
}

fn need(op: &Op<'_>) -> Option<Need> {
    let need = |resource_type, account, table| Some(Need { resource_type, account, table });
    match op {
        Op::Batch | Op::GetAcl(_) | Op::SetAcl(_) => None,
        Op::Change(change) => match &change.kind {
            ChangeKind::Delete(_) => need('o', &["d"], Some("d")),
            ChangeKind::Insert(..) => need('o', &["a"], Some("a")),
            ChangeKind::Merge(_, None) | ChangeKind::Replace(_, None) => {
                need('o', &["au"], Some("au"))
            }
            ChangeKind::Merge(..) | ChangeKind::Replace(..) => need('o', &["u"], Some("u")),
        },
        Op::CreateTable { .. } => need('c', &["c", "w"], None),
        Op::DeleteTable(_) => need('c', &["d"], None),
        Op::GetEntity(..) | Op::QueryEntities(..) => need('o', &["r"], Some("r")),
        Op::GetTable(_) | Op::QueryTables(_) => need('c', &["l"], None),
        Op::GetProperties | Op::GetStats => need('s', &["r"], None),
        Op::SetProperties => need('s', &["w"], None),
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
