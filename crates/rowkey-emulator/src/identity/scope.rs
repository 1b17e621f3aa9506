//! What a role assignment is for: everything, an account, or one of its resources.

use std::fmt;
use std::str::FromStr;

use rowkey_wire::auth::Resource;
use serde::{Deserialize, Serialize};

/// What a [role assignment](crate::RoleAssignment) is for.
///
/// As text, and in JSON, a scope is the end of its id in Azure Resource Manager: `/` for everything,
/// `contoso`, `contoso/tables/orders`, `contoso/queues/work` or `contoso/containers/invoices`.
///
/// ```
/// use rowkey_emulator::Scope;
///
/// let scope: Scope = "contoso/tables/orders".parse()?;
/// assert_eq!(scope, Scope::table("contoso", "orders"));
/// assert!("contoso/shares/x".parse::<Scope>().is_err());
/// # Ok::<_, String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Scope {
    /// All accounts of the server, as a subscription or a resource group is in Azure.
    #[default]
    Everything,
    /// One account.
    Account(String),
    /// One table of an account.
    Table(String, String),
    /// One queue of an account.
    Queue(String, String),
    /// One container of an account, with its blobs.
    Container(String, String),
}

impl Scope {
    /// One account.
    pub fn account(account: impl Into<String>) -> Self {
        Self::Account(account.into())
    }

    /// One table of an account.
    pub fn table(account: impl Into<String>, table: impl Into<String>) -> Self {
        Self::Table(account.into(), table.into())
    }

    /// One queue of an account.
    pub fn queue(account: impl Into<String>, queue: impl Into<String>) -> Self {
        Self::Queue(account.into(), queue.into())
    }

    /// One container of an account, with its blobs.
    pub fn container(account: impl Into<String>, container: impl Into<String>) -> Self {
        Self::Container(account.into(), container.into())
    }

    /// Whether a resource of an account is in this scope; `None` is the account itself.
    pub(crate) fn covers(&self, account: &str, resource: Option<Resource<'_>>) -> bool {
        let of = |known: &str| known == account;
        match (self, resource) {
            (Self::Everything, _) => true,
            (Self::Account(known), _) => of(known),
            // The names of tables are compared without case.
            (Self::Table(known, table), Some(Resource::Table(name))) => {
                of(known) && table.eq_ignore_ascii_case(name)
            }
            (Self::Queue(known, queue), Some(Resource::Queue(name))) => of(known) && queue == name,
            (
                Self::Container(known, container),
                Some(Resource::Container(name) | Resource::Blob { container: name, .. }),
            ) => of(known) && container == name,
            _ => false,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("/"),
            Self::Account(account) => f.write_str(account),
            Self::Table(account, name) => write!(f, "{account}/tables/{name}"),
            Self::Queue(account, name) => write!(f, "{account}/queues/{name}"),
            Self::Container(account, name) => write!(f, "{account}/containers/{name}"),
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "/" {
            return Ok(Self::Everything);
        }
        let mut parts = text.split('/');
        let (account, kind, name) =
            (parts.next().unwrap_or_default(), parts.next(), parts.next().unwrap_or_default());
        match (kind, name.is_empty()) {
            _ if account.is_empty() || parts.next().is_some() => {}
            (None, _) => return Ok(Self::account(account)),
            (Some("tables"), false) => return Ok(Self::table(account, name)),
            (Some("queues"), false) => return Ok(Self::queue(account, name)),
            (Some("containers"), false) => return Ok(Self::container(account, name)),
            _ => {}
        }
        Err(format!(
            "invalid scope `{text}`: expected `/`, `ACCOUNT`, `ACCOUNT/tables/NAME`, \
             `ACCOUNT/queues/NAME` or `ACCOUNT/containers/NAME`"
        ))
    }
}

impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_scope_is_parsed_back() {
        for text in ["/", "a", "a/tables/T", "a/queues/q-1", "a/containers/$web"] {
            assert_eq!(text.parse::<Scope>().unwrap().to_string(), text);
        }
        for wrong in ["", "a/", "a/tables", "a/tables/", "a/tables/t/x", "/a", "a/shares/s"] {
            assert!(wrong.parse::<Scope>().unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_scope_covers_its_resource_and_no_other() {
        let table = Scope::table("a", "Orders");
        assert!(table.covers("a", Some(Resource::Table("orders"))));
        assert!(!table.covers("a", Some(Resource::Table("orders2"))));
        assert!(!table.covers("b", Some(Resource::Table("orders"))));
        assert!(!table.covers("a", Some(Resource::Queue("orders"))));
        assert!(!table.covers("a", None));
        let container = Scope::container("a", "c");
        assert!(container.covers("a", Some(Resource::Blob { container: "c", name: "x" })));
        assert!(!container.covers("a", Some(Resource::Container("d"))));
        let queue = Scope::queue("a", "q");
        assert!(queue.covers("a", Some(Resource::Queue("q"))) && !queue.covers("a", None));
        assert!(Scope::account("a").covers("a", None) && !Scope::account("a").covers("b", None));
        assert!(Scope::Everything.covers("b", Some(Resource::Queue("q"))));
    }
}
