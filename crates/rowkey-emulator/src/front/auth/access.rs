//! The permissions of a request, by its credentials.

use rowkey_wire::auth::Service;
use rowkey_wire::code::ErrorCode;
use rowkey_wire::error::Rejection;

use super::rights::Rights;
use crate::store::query::Window;

/// The permissions of a request.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// Anonymous access to a public container.
    Anonymous,
    /// Everything: it was signed with an account key.
    Key,
    /// The permissions of a shared access signature.
    Sas(Box<Grant>),
    /// The permissions of a bearer token: those of its identity, except for stored access policies
    /// of tables.
    Token(Rights),
}

/// The permissions of a shared access signature.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) scope: Scope,
    /// The letters of `sp`, or those of the stored policy.
    pub(super) permissions: String,
    /// The rights of the user who made it, if it is signed with a user delegation key: it permits
    /// only what that user may do.
    pub(super) rights: Rights,
}

/// The scope of a shared access signature.
#[derive(Clone, Debug)]
pub(crate) enum Scope {
    Account {
        services: String,
        resource_types: String,
    },
    /// The queue, container or blob of the request. For any other resource the signature would have
    /// been invalid.
    Resource,
    Table {
        name: String,
        window: Window,
    },
}

/// The permissions that an operation requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    /// The letter of `srt` that an account SAS must have: `s`, `c` or `o`.
    pub(crate) resource_type: char,
    /// The letters of `sp` that an account SAS must have: all letters of any one entry. If empty,
    /// no account SAS is sufficient.
    pub(crate) account: &'static [&'static str],
    /// The same for a signature for a table, queue, container or blob.
    pub(crate) resource: &'static [&'static str],
    /// Whether anonymous requests may perform it.
    pub(crate) public: bool,
}

impl Access {
    /// Rejects an operation for which the request lacks the permissions.
    pub(crate) fn allow(&self, service: Service, need: &Need) -> Result<(), Rejection> {
        let grant = match self {
            Self::Key | Self::Token(_) => return Ok(()),
            Self::Anonymous if need.public => return Ok(()),
            // A caller without access must not learn that the resource exists.
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

    /// The rights that an operation needs besides the permissions of the credential.
    pub(crate) fn rights(&self) -> &Rights {
        match self {
            Self::Anonymous | Self::Key => &Rights::All,
            Self::Sas(grant) => &grant.rights,
            Self::Token(rights) => rights,
        }
    }

    /// Whether all these permissions are granted.
    pub(crate) fn has(&self, letters: &str) -> bool {
        match self {
            Self::Anonymous => false,
            Self::Key | Self::Token(_) => true,
            Self::Sas(grant) => letters.chars().all(|letter| grant.permissions.contains(letter)),
        }
    }

    /// The part of the table that is accessible.
    pub(crate) fn window(&self) -> Window {
        match self {
            Self::Sas(grant) => match &grant.scope {
                Scope::Table { window, .. } => window.clone(),
                Scope::Account { .. } | Scope::Resource => Window::default(),
            },
            Self::Anonymous | Self::Key | Self::Token(_) => Window::default(),
        }
    }
}
