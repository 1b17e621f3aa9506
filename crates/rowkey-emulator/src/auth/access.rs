//! What a request is allowed, by whom it comes from.

use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use crate::store::query::Window;

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
    pub(crate) scope: Scope,
    /// The letters of `sp`, or those of the stored policy.
    pub(super) permissions: String,
}

/// How much it opens.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
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
