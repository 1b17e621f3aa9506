//! `rowkey-server health`: whether a running server answers, for the health checks of containers.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use clap::Parser;

/// The length of `HTTP/1.1 200`.
const START: u64 = 12;

/// How long the server may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Exit with 0 if a running server answers, and with 1 if it does not.
///
/// It asks the control plane, if its port is known, and the Table service otherwise.
#[derive(Parser)]
#[command(name = "rowkey-server health", bin_name = "rowkey-server health")]
pub(crate) struct Health {
    /// The host of the server.
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// The port of the control plane.
    #[arg(long, env = "ROWKEY_CONTROL_PORT", value_name = "PORT")]
    control_port: Option<String>,
    /// The port of the Table service.
    #[arg(long, visible_alias = "tablePort", value_name = "PORT", default_value_t = 10002)]
    table_port: u16,
}

impl Health {
    /// Asks the server; the error says why it does not count as healthy.
    pub(crate) fn check(&self) -> io::Result<()> {
        // The variable may be there and empty, as in a compose file.
        let control = self.control_port.as_deref().filter(|port| !port.is_empty());
        let control: Option<u16> = control.map(str::parse).transpose().map_err(|_| {
            io::Error::other("the port of the control plane is not a number up to 65535")
        })?;
        let port = control.unwrap_or(self.table_port);
        let within = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    "no answer in 5 seconds".to_owned()
                }
                _ => error.to_string(),
            };
            let message = format!("{}:{port} does not answer: {why}", self.host);
            io::Error::new(error.kind(), message)
        };
        let start = ask(&self.host, port).map_err(within)?;
        // The Table service refuses the request, which is an answer, too; with HTTPS it refuses plain HTTP.
        if control.is_none() && !start.is_empty() || start.starts_with(b"HTTP/1.1 200") {
            return Ok(());
        }
        let start = String::from_utf8_lossy(&start);
        let status = start.strip_prefix("HTTP/1.1 ").unwrap_or("none of HTTP");
        Err(io::Error::other(format!("{}:{port} answers with status {status}", self.host)))
    }
}

/// The first bytes of the response to `GET /health`.
fn ask(host: &str, port: u16) -> io::Result<Vec<u8>> {
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
        let mut start = Vec::new();
        stream.take(START).read_to_end(&mut start)?;
        if start.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        return Ok(start);
    }
    Err(refused)
}
