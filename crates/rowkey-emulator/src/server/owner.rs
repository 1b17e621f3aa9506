//! Connections of the owner of a server, within the process, for its control plane.

use std::sync::Arc;

use rowkey_wire::auth::Service;
use tokio::io::DuplexStream;

use super::Server;
use crate::http::connection;

/// How many bytes a connection holds that one side has written and the other has not read.
const BUFFER: usize = 64 * 1024;

impl Server {
    /// Opens a connection to a service within this process, and returns its client's side, and the work that
    /// serves it until the client's side is dropped.
    ///
    /// Its requests speak HTTP/1.1 and the REST protocol of the service, and need no credential: they may do what a
    /// request may that is signed with the account's key. Faults, throttling, page cuts and the journal do not see
    /// them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> std::io::Result<()> {
    /// use rowkey_emulator::{DEVELOPMENT_ACCOUNT, Server, Service};
    /// use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    ///
    /// let server = Server::start().await?;
    /// let (mut client, serving) = server.connect_as_owner(Service::Table);
    /// tokio::spawn(serving);
    /// let request = format!(
    ///     "GET /{DEVELOPMENT_ACCOUNT}/Tables HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    /// );
    /// client.write_all(request.as_bytes()).await?;
    /// let mut response = String::new();
    /// client.read_to_string(&mut response).await?;
    /// assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    /// assert!(server.journal().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn connect_as_owner(
        &self,
        service: Service,
    ) -> (DuplexStream, impl Future<Output = ()> + Send + 'static) {
        let (client, stream) = tokio::io::duplex(BUFFER);
        let serving = connection::serve_owner(Arc::clone(&self.state), stream, service);
        (client, serving)
    }
}
