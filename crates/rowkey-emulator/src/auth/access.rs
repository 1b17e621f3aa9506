//! What a request is allowed, by whom it comes from.

use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use crate::store::Key;
use crate::store::query::Window;
use crate::table::wire::op::{Address, ChangeKind, Op, Target};

/// What the maker of a request may do.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// What a container lets everybody do.
    Anonymous,
    /// Everything: it was signed with an account key.
    Key,
    /// What a shared access signature opens.
    Sas(Box<Grant>),
    /// All that tokens may do: everything but stored access policies of tables.
    Token,
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
    Account {
        services: String,
        resource_types: String,
    },
    /// The queue, container or blob that the request is about: for another one the signature
    /// would not have been genuine.
    Resource,
    Table {
        name: String,
        window: Window,
    },
}

/// What an operation needs of a shared access signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The letter of `srt` that an account's signature has to have: `s`, `c` or `o`.
    pub(crate) resource_type: char,
    /// The letters of `sp` that one has to have: all of any of these. None: it is never enough.
    pub(crate) account: &'static [&'static str],
    /// The same of a signature for the table, queue, container or blob.
    pub(crate) resource: &'static [&'static str],
    /// Whether everybody may do it.
    pub(crate) public: bool,
}

impl Access {
    /// Refuses an operation that the maker of the request may not do.
    pub(crate) fn check(&self, op: &Op<'_>) -> Result<(), Rejection> {
        let grant = match self {
            Self::Sas(grant) => grant,
            // Recorded: with a token there is no such resource.
            Self::Token if matches!(op, Op::GetAcl(_) | Op::SetAcl(_)) => {
                return Err(Rejection::new(ErrorCode::RESOURCE_NOT_FOUND));
            }
            Self::Anonymous | Self::Key | Self::Token => return Ok(()),
        };
        // Its parts are checked one by one.
        if *op == Op::Batch {
            return Ok(());
        }
        if let Scope::Table { name, .. } = &grant.scope
            && !table_of(op).is_some_and(|table| name.eq_ignore_ascii_case(table))
        {
            return Err(other_table());
        }
        self.allow(Service::Table, &need(op))?;
        match &grant.scope {
            Scope::Table { window, .. } => check_window(window, op),
            _ => Ok(()),
        }
    }

    /// Refuses by the head what the signature does not allow, before the body is read.
    pub(crate) fn check_target(&self, target: &Target<'_>) -> Result<(), Rejection> {
        let Self::Sas(grant) = self else { return Ok(()) };
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

    /// Refuses an operation that the maker of the request may not do, by what it needs.
    pub(crate) fn allow(&self, service: Service, need: &Need) -> Result<(), Rejection> {
        let grant = match self {
            Self::Key | Self::Token => return Ok(()),
            Self::Anonymous if need.public => return Ok(()),
            // Who may not see it is not told that it is there.
            Self::Anonymous => return Err(Rejection::new(ErrorCode::RESOURCE_NOT_FOUND)),
            Self::Sas(grant) => grant,
        };
        let letters = match &grant.scope {
            Scope::Account { .. } => need.account,
            Scope::Resource | Scope::Table { .. } => need.resource,
        };
        if letters.is_empty() {
            return Err(Rejection::new(ErrorCode::AUTHORIZATION_FAILURE)
                .because("no shared access signature of this kind allows the operation"));
        }
        if let Scope::Account { services, resource_types } = &grant.scope {
            let letter = match service {
                Service::Blob => 'b',
                Service::Queue => 'q',
                Service::Table => 't',
            };
            if !services.contains(letter) {
                return Err(Rejection::new(ErrorCode::AUTHORIZATION_SERVICE_MISMATCH));
            }
            if !resource_types.contains(need.resource_type) {
                return Err(Rejection::new(ErrorCode::AUTHORIZATION_RESOURCE_TYPE_MISMATCH));
            }
        }
        if letters.iter().any(|letters| self.has(letters)) {
            return Ok(());
        }
        Err(Rejection::new(ErrorCode::AUTHORIZATION_PERMISSION_MISMATCH))
    }

    /// Whether all these permissions are given.
    pub(crate) fn has(&self, letters: &str) -> bool {
        match self {
            Self::Anonymous => false,
            Self::Key | Self::Token => true,
            Self::Sas(grant) => letters.chars().all(|letter| grant.permissions.contains(letter)),
        }
    }

    /// The part of the table that may be seen.
    pub(crate) fn window(&self) -> Window {
        match self {
            Self::Sas(grant) => match &grant.scope {
                Scope::Table { window, .. } => window.clone(),
                Scope::Account { .. } | Scope::Resource => Window::default(),
            },
            Self::Anonymous | Self::Key | Self::Token => Window::default(),
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
    Err(Rejection::new(code).because("the key is outside the signature's range"))
}

fn other_table() -> Rejection {
    Rejection::new(ErrorCode::AUTHORIZATION_FAILURE)
        .because("the shared access signature is for another table")
}

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
