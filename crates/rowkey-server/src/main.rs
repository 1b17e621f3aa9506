//! The server as a program: flags in, one JSON line out when it is ready, logs on stderr.

mod flags;

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use rowkey_server::Server;
use tracing::Level;

use flags::Flags;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    let level = match (flags.silent, &flags.debug) {
        (_, Some(_)) => Level::DEBUG,
        (true, None) => Level::ERROR,
        (false, None) => Level::INFO,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).init();
    match start(flags).await {
        Ok(server) => {
            server.wait();
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn start(flags: Flags) -> io::Result<Server> {
    for note in flags.notes() {
        tracing::info!("{note}");
    }
    let server = flags.builder()?.start().await?;
    ready(&server)?;
    Ok(server)
}

/// The one line on stdout: programs that start the server wait for it.
fn ready(server: &Server) -> io::Result<()> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let certificate = server.certificate().map_or_else(String::new, |certificate| {
        format!(",\"certificate\":{}", quoted(certificate).replace('\r', "").replace('\n', "\\n"))
    });
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{{\"ready\":true,\"blob\":{},\"queue\":{},\"table\":{},\"connectionString\":{}{}}}",
        quoted(server.blob_endpoint()),
        quoted(server.queue_endpoint()),
        quoted(server.table_endpoint()),
        quoted(server.connection_string()),
        certificate,
    )?;
    out.flush()
}
