//! `rowkey-server health`: whether a running server answers, for the health checks of containers.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use clap::Parser;

/// How long the server may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Exit with 0 if a running server answers, and with 1 if it does not.
///
/// It asks the control plane, if its port is known, and the Table service otherwise.
#[derive(Parser)]
#[command(name = "rowkey-server health")]
pub(crate) struct Health {
    /// The host of the server.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// The port of the control plane.
    #[arg(long, env = "ROWKEY_CONTROL_PORT", value_name = "PORT")]
    control_port: Option<u16>,
    /// The port of the Table service.
    #[arg(long, visible_alias = "tablePort", value_name = "PORT", default_value_t = 10002)]
    table_port: u16,
}

impl Health {
    /// Asks the server; the error says why it does not count as healthy.
    pub(crate) fn check(&self) -> io::Result<()> {
        let port = self.control_port.unwrap_or(self.table_port);
        let within = |error: io::Error| {
            let message = format!("{}:{port} does not answer: {error}", self.host);
            io::Error::new(error.kind(), message)
        };
        let status = ask(&self.host, port).map_err(within)?;
        // The Table service refuses a request without an account, which is an answer, too.
        if self.control_port.is_none() || status == 200 {
            return Ok(());
        }
        Err(io::Error::other(format!("{}:{port} answers with status {status}", self.host)))
    }
}

/// The status of the response to `GET /health`.
fn ask(host: &str, port: u16) -> io::Result<u16> {
    let mut refused = io::Error::other("the host has no address");
    for address in (host, port).to_socket_addrs()? {
        let mut stream = match TcpStream::connect_timeout(&address, LIMIT) {
            Ok(stream) => stream,
            Err(error) => {
                refused = error;
                continue;
            }
        };
        stream.set_read_timeout(Some(LIMIT))?;
        let request =
            format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        let status =
            std::str::from_utf8(&start).ok().and_then(|start| start.strip_prefix("HTTP/1."));
        let status = status.and_then(|start| start.get(2..)?.parse().ok());
        return status.ok_or_else(|| io::Error::other("what answers does not speak HTTP"));
    }
    Err(refused)
}
