//! An identity: an application, a user or a managed identity, with its roles.

use aws_lc_rs::digest;
use rowkey_wire::auth::Resource;
use rowkey_wire::shown;
use serde::{Deserialize, Serialize};

use super::role::Role;
use super::scope::Scope;

/// The tenant of the published identities.
pub const DEVELOPMENT_TENANT_ID: &str = "11111111-1111-1111-1111-111111111111";

/// The client id of the application that a server has if it is given no identities.
pub const DEVELOPMENT_CLIENT_ID: &str = "22222222-2222-2222-2222-222222222222";

/// The published secret of the application [`DEVELOPMENT_CLIENT_ID`]. It is not a secret.
pub const DEVELOPMENT_CLIENT_SECRET: &str = "rowkey-development-secret";

/// The client id of the managed identity that a server has if it is given no identities.
pub const DEVELOPMENT_MANAGED_IDENTITY: &str = "33333333-3333-3333-3333-333333333333";

/// What an identity is, which decides how it gets tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum IdentityKind {
    /// An application with a secret, or with an assertion of a workload identity.
    #[default]
    Application,
    /// A managed identity of a machine, which needs no secret.
    ManagedIdentity,
    /// A user with a password.
    User,
}

/// An application, a user or a managed identity that gets tokens from the server.
///
/// In JSON, as in the program's `--oauth-identities`:
///
/// ```
/// use rowkey_emulator::{Identity, Role, Scope};
///
/// let text = r#"{
///   "kind": "application",
///   "clientId": "5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10",
///   "clientSecret": "s3cret",
///   "roles": [
///     "Storage Queue Data Message Sender",
///     { "role": "Storage Table Data Reader", "scope": "devstoreaccount1/tables/orders" }
///   ]
/// }"#;
/// let identity: Identity = serde_json::from_str(text)?;
/// let same = Identity::application("5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10", "s3cret")
///     .role(Role::StorageQueueDataMessageSender)
///     .role_on(Role::StorageTableDataReader, Scope::table("devstoreaccount1", "orders"));
/// assert_eq!(identity, same);
/// // The secret is only read, never written.
/// assert!(!serde_json::to_string(&same)?.contains("s3cret"));
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Form")]
#[must_use = "an identity has an effect once a server knows it"]
pub struct Identity {
    kind: IdentityKind,
    id: String,
    object_id: String,
    #[serde(skip_serializing)]
    secret: Option<String>,
    roles: Vec<RoleAssignment>,
}

/// A role, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// A misspelt scope would be everything.
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RoleAssignment {
    /// The role.
    pub role: Role,
    /// What the role is for.
    #[serde(default)]
    pub scope: Scope,
}

/// An identity in JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Form {
    #[serde(default)]
    kind: IdentityKind,
    #[serde(alias = "clientId", alias = "username")]
    id: String,
    object_id: Option<String>,
    #[serde(alias = "clientSecret", alias = "password")]
    secret: Option<String>,
    #[serde(default)]
    roles: Vec<RoleForm>,
}

/// A role in JSON: its name, or an object with its name and a scope.
#[derive(Deserialize)]
#[serde(try_from = "serde_json::Value")]
struct RoleForm(RoleAssignment);

impl TryFrom<serde_json::Value> for RoleForm {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Self, String> {
        if let Some(role) = value.as_str() {
            return Ok(Self(RoleAssignment { role: role.parse()?, scope: Scope::Everything }));
        }
        serde_json::from_value(value).map(Self).map_err(|error| error.to_string())
    }
}

impl TryFrom<Form> for Identity {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let Form { kind, id, object_id, secret, roles } = form;
        if id.is_empty() {
            return Err("an identity has a clientId or a username".to_owned());
        }
        let secret = secret.filter(|secret| !secret.is_empty());
        if kind == IdentityKind::User && secret.is_none() {
            return Err(format!("the user {id} has no password"));
        }
        if kind == IdentityKind::ManagedIdentity && secret.is_some() {
            return Err(format!("the managed identity {id} has a secret, but needs none"));
        }
        let roles = roles.into_iter().map(|RoleForm(assignment)| assignment);
        let object_id = object_id.unwrap_or_else(|| derived_id(&id));
        Ok(Self { kind, id, object_id, secret, roles: roles.collect() })
    }
}

impl Identity {
    /// An application with its client id and a secret.
    pub fn application(client_id: impl Into<String>, client_secret: impl Into<String>) -> Self {
        Self::new(IdentityKind::Application, client_id.into(), Some(client_secret.into()))
    }

    /// An application with its client id that has no secret: it sends an assertion, as workload
    /// identities in Kubernetes do. The assertion's signature is not verified.
    pub fn workload(client_id: impl Into<String>) -> Self {
        Self::new(IdentityKind::Application, client_id.into(), None)
    }

    /// A managed identity with its client id.
    pub fn managed_identity(client_id: impl Into<String>) -> Self {
        Self::new(IdentityKind::ManagedIdentity, client_id.into(), None)
    }

    /// A user with a name, such as `anna@example.com`, and a password.
    pub fn user(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::new(IdentityKind::User, username.into(), Some(password.into()))
    }

    fn new(kind: IdentityKind, id: String, secret: Option<String>) -> Self {
        let object_id = derived_id(&id);
        Self { kind, id, object_id, secret, roles: Vec::new() }
    }

    /// Assigns a role for all accounts.
    pub fn role(self, role: Role) -> Self {
        self.role_on(role, Scope::Everything)
    }

    /// Assigns a role for an account or for one of its resources.
    pub fn role_on(mut self, role: Role, scope: Scope) -> Self {
        self.roles.push(RoleAssignment { role, scope });
        self
    }

    /// Sets the object id, `oid` in tokens. By default it is derived from the client id.
    pub fn with_object_id(mut self, object_id: impl Into<String>) -> Self {
        self.object_id = object_id.into();
        self
    }

    /// What the identity is.
    pub fn kind(&self) -> IdentityKind {
        self.kind
    }

    /// The client id, or the name of a user.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The object id, `oid` in tokens.
    pub fn object_id(&self) -> &str {
        &self.object_id
    }

    /// The roles.
    pub fn roles(&self) -> &[RoleAssignment] {
        &self.roles
    }

    /// Whether this is the identity's secret or password.
    pub(crate) fn has_secret(&self, secret: &str) -> bool {
        self.secret.as_deref() == Some(secret)
    }

    /// Whether the identity has this client id or name, in any case.
    pub(crate) fn is(&self, id: &str) -> bool {
        self.id.eq_ignore_ascii_case(id)
    }

    /// Whether a role of the identity permits an action on a resource; `None` is the account.
    pub(crate) fn may(&self, action: &str, account: &str, resource: Option<Resource<'_>>) -> bool {
        self.roles.iter().any(|RoleAssignment { role, scope }| {
            role.allows(action) && scope.covers(account, resource)
        })
    }

    /// An identity without roles: one that the server no longer knows.
    pub(crate) fn removed(object_id: &str) -> Self {
        Self::new(IdentityKind::Application, String::new(), None).with_object_id(object_id)
    }

    /// The identities of a server that is given none, with all rights.
    pub(crate) fn development() -> [Self; 2] {
        let roles = [
            Role::StorageAccountContributor,
            Role::StorageBlobDataOwner,
            Role::StorageQueueDataContributor,
            Role::StorageQueueDelegator,
            Role::StorageTableDataContributor,
            Role::StorageTableDelegator,
        ];
        let with_roles = |identity| roles.into_iter().fold(identity, Self::role);
        [
            with_roles(Self::application(DEVELOPMENT_CLIENT_ID, DEVELOPMENT_CLIENT_SECRET)),
            with_roles(Self::managed_identity(DEVELOPMENT_MANAGED_IDENTITY)),
        ]
    }
}

// Leaves out the secret.
shown!(Identity: kind, id, object_id, roles);

/// An id that follows from a name, so that it is the same at each start.
fn derived_id(name: &str) -> String {
    let hash = digest::digest(&digest::SHA256, name.to_ascii_lowercase().as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_ref()[..16]);
    uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_in_json_have_the_words_of_azure() {
        let read = |text: &str| serde_json::from_str::<Identity>(text);
        let user = read(r#"{"kind":"user","username":"anna@contoso.com","password":"p"}"#);
        assert_eq!(user.unwrap(), Identity::user("anna@contoso.com", "p"));
        let managed = read(r#"{"kind":"managedIdentity","clientId":"m","objectId":"o"}"#).unwrap();
        assert_eq!(managed, Identity::managed_identity("m").with_object_id("o"));
        assert_eq!(read(r#"{"id":"w"}"#).unwrap(), Identity::workload("w"));
        for (wrong, why) in [
            (r#"{"kind":"user","username":"anna"}"#, "no password"),
            (r#"{"kind":"managedIdentity","id":"m","secret":"s"}"#, "needs none"),
            (r#"{"id":""}"#, "clientId"),
            (r#"{"id":"a","role":["x"]}"#, "role"),
            (r#"{"id":"a","roles":["Owner"]}"#, "unknown role `Owner`"),
            (r#"{"id":"a","roles":[{"role":"x"}]}"#, "unknown variant `x`"),
            (
                r#"{"id":"a","roles":[{"role":"Storage Blob Delegator","scope":"a/b"}]}"#,
                "invalid scope `a/b`",
            ),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let identity = Identity::application("app", "s3cret").role(Role::StorageBlobDelegator);
        assert!(!format!("{identity:?}").contains("s3cret"), "{identity:?}");
        let json = serde_json::to_value(&identity).unwrap();
        let roles = serde_json::json!([{"role": "Storage Blob Delegator", "scope": "/"}]);
        assert_eq!(json["roles"], roles);
        assert_eq!(json["kind"], "application");
        assert_eq!(json.get("secret"), None);
    }

    #[test]
    fn a_derived_object_id_is_the_same_each_time() {
        let id = Identity::workload("App").object_id;
        assert_eq!(id, Identity::workload("app").object_id);
        assert_ne!(id, Identity::workload("other").object_id);
        assert!(uuid::Uuid::parse_str(&id).is_ok(), "{id}");
    }
}
