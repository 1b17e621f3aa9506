//! The token endpoint of a server, and the identities that get tokens from it.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use super::bind::{bind, reachable};
use super::{Server, ServerBuilder};
use crate::account::Tokens;
use crate::http::connection::Serves;
use crate::identity::{Identity, Issuer, TokenKey};
use crate::state::State;

/// The options of the token endpoint.
#[derive(Clone, Default)]
pub(super) struct Settings {
    /// Whether the server issues tokens.
    issues: bool,
    /// `None` for the published ones.
    identities: Option<Vec<Identity>>,
    port: u16,
    /// The key of a server that was forked, whose tokens stay valid.
    key: Option<Arc<TokenKey>>,
}

impl Settings {
    /// Makes the key and the identities, if the server issues tokens.
    pub(super) fn prepare(&mut self, state: &mut State) -> io::Result<()> {
        if !self.issues {
            return Ok(());
        }
        let given = self.identities.as_deref().unwrap_or_default();
        for (at, identity) in given.iter().enumerate() {
            let same = |one: &&Identity| {
                one.id().eq_ignore_ascii_case(identity.id())
                    || one.object_id().eq_ignore_ascii_case(identity.object_id())
            };
            if let Some(other) = given[..at].iter().find(same) {
                let message = format!(
                    "the identities {} and {} have the same id or objectId, and would share their roles",
                    other.id(),
                    identity.id()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        let key = match &self.key {
            Some(key) => Arc::clone(key),
            None => Arc::new(TokenKey::generate()?),
        };
        let issuer = Arc::new(Issuer::new(key, self.identities.as_deref()));
        for account in &mut state.accounts {
            account.tokens = Tokens::Issued(Arc::clone(&issuer));
        }
        state.issuer = Some(issuer);
        Ok(())
    }

    /// Binds the authority's socket, if the server issues tokens.
    pub(super) fn listen(
        &self,
        state: &State,
        scheme: &str,
        host: &str,
    ) -> io::Result<Option<(TcpListener, Serves)>> {
        let Some(issuer) = &state.issuer else { return Ok(None) };
        let listener = bind(host, self.port)?;
        issuer.listen(format!("{scheme}://{}", reachable(listener.local_addr()?)));
        Ok(Some((listener, Serves::Tokens)))
    }

    /// Lets the system choose the port.
    pub(super) fn on_free_port(&mut self) {
        self.port = 0;
    }
}

/// Tokens, with the feature `oauth`.
impl ServerBuilder {
    /// Issues bearer tokens, and accepts only those.
    ///
    /// The server then is an authority, as `login.microsoftonline.com` is: its address,
    /// [`Server::authority`], has an OpenID configuration, keys, a token endpoint, and the endpoints
    /// of managed identities. Tokens are signed, expire after an hour by [`Server::clock`], and
    /// permit what the roles of their identity permit.
    ///
    /// Without a call of [`identity`](Self::identity) there are two identities with all roles: the
    /// application [`DEVELOPMENT_CLIENT_ID`](crate::DEVELOPMENT_CLIENT_ID) with the published secret
    /// [`DEVELOPMENT_CLIENT_SECRET`](crate::DEVELOPMENT_CLIENT_SECRET), and a managed identity.
    ///
    /// The first such server of a process makes a key, which takes a few hundred milliseconds.
    ///
    /// Clients of Microsoft demand an authority that speaks HTTPS, see [`https`](Self::https).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{DEVELOPMENT_CLIENT_ID, Server};
    ///
    /// let server = Server::builder().issue_tokens().authority_port(0).start().await?;
    /// assert!(server.authority().is_some_and(|address| address.starts_with("http://127.0.0.1:")));
    /// let token = server.token(DEVELOPMENT_CLIENT_ID).unwrap_or_default();
    /// let authorization = format!("Bearer {token}"); // for a request without a client
    /// # assert_eq!(authorization.split('.').count(), 3);
    /// # Ok(()) }
    /// ```
    pub fn issue_tokens(mut self) -> Self {
        self.tokens.issues = true;
        self
    }

    /// Adds an identity that gets tokens, and [issues tokens](Self::issue_tokens).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{Identity, Role, Scope, Server};
    ///
    /// let reader = Identity::application("reporting", "secret")
    ///     .role_on(Role::StorageTableDataReader, Scope::table("devstoreaccount1", "orders"));
    /// let anna = Identity::user("anna@contoso.com", "password")
    ///     .with_object_id("0b2a1f3c-6a43-4f0e-9d0c-2f6f4f2f7a55")
    ///     .role_on(Role::StorageBlobDataReader, Scope::container("devstoreaccount1", "invoices"));
    /// let pod = Identity::workload("worker").role(Role::StorageQueueDataMessageProcessor);
    /// let builder = Server::builder().identity(reader).identity(anna).identity(pod);
    /// let server = builder.start().await?;
    /// assert!(server.token("reporting").is_some());
    /// # Ok(()) }
    /// ```
    pub fn identity(mut self, identity: Identity) -> Self {
        self.tokens.identities.get_or_insert_default().push(identity);
        self.issue_tokens()
    }

    /// Sets the port of the authority. Default: 0, a free port. Its host is that of the Table
    /// service.
    pub fn authority_port(mut self, port: u16) -> Self {
        self.tokens.port = port;
        self
    }
}

/// Tokens, with the feature `oauth`.
impl Server {
    /// The address of the authority, `https://127.0.0.1:10004`, to which clients add a tenant;
    /// `None` if the server does not [issue tokens](ServerBuilder::issue_tokens). Every tenant
    /// exists, and has the same identities.
    pub fn authority(&self) -> Option<&str> {
        self.state.issuer.as_ref().map(|issuer| issuer.address())
    }

    /// A token for Azure Storage of the identity with this client id or user name, which expires in
    /// an hour by [`clock`](Self::clock).
    ///
    /// Returns `None` if there is no such identity, or the server does not
    /// [issue tokens](ServerBuilder::issue_tokens).
    pub fn token(&self, id: &str) -> Option<String> {
        self.state.issuer.as_ref()?.storage_token(id, self.state.now())
    }

    /// Adds an identity, or replaces the one with its id. Roles have their effect at once, also for
    /// tokens that exist.
    ///
    /// Returns `false`, without an effect, if the server does not
    /// [issue tokens](ServerBuilder::issue_tokens), and if another identity has the same object id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{Identity, Role, Server};
    ///
    /// let server = Server::builder().issue_tokens().start().await?;
    /// let sender = Identity::managed_identity("5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10");
    /// assert!(server.add_identity(sender.role(Role::StorageQueueDataMessageSender)));
    /// assert_eq!(server.identities().len(), 3);
    /// assert!(server.remove_identity("5f0c5b0e-52c3-4cd1-9c9b-3f1a1c1f2d10"));
    /// # Ok(()) }
    /// ```
    pub fn add_identity(&self, identity: Identity) -> bool {
        self.state.issuer.as_ref().is_some_and(|issuer| issuer.identities.add(identity))
    }

    /// Removes the identity with this client id or user name. Its tokens then permit nothing.
    ///
    /// Returns `false` if there is none.
    pub fn remove_identity(&self, id: &str) -> bool {
        self.state.issuer.as_ref().is_some_and(|issuer| issuer.identities.remove(id))
    }

    /// The identities, in the order in which they were added.
    pub fn identities(&self) -> Vec<Identity> {
        self.state.issuer.as_ref().map(|issuer| issuer.identities.list()).unwrap_or_default()
    }

    /// The options of another server with the identities and the key of this one.
    pub(super) fn with_identities(&self, mut builder: ServerBuilder) -> ServerBuilder {
        if let Some(issuer) = &self.state.issuer {
            builder.tokens.identities = Some(issuer.identities.list());
            builder.tokens.key = Some(Arc::clone(&issuer.key));
        }
        builder
    }
}
