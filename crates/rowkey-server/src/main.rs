//! The server program: reads flags, prints one line of JSON when it is ready, and logs to stderr.

mod flags;
mod health;
mod log;
mod pfx;
#[cfg(feature = "seeds")]
mod seeds;

use std::future::{pending, poll_fn};
use std::io::{self, Write as _};
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;
use std::thread;

use clap::Parser as _;
#[cfg(feature = "control")]
use futures_util::future::select;
#[cfg(feature = "control")]
use rowkey_control::Plane;
use rowkey_emulator::Server;
use serde::Serialize;
use tokio::sync::oneshot;

use flags::Flags;
use health::Health;

// Entities of all sizes come and go: the system's allocator would keep the memory of a dropped
// table.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Not a subcommand of the flags: these take no positional argument, and say so.
    if std::env::args_os().nth(1).is_some_and(|first| first == "health") {
        return match Health::parse_from(std::env::args_os().skip(1)).check() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let _ = writeln!(io::stderr(), "{error}");
                ExitCode::FAILURE
            }
        };
    }
    let flags = Flags::parse();
    #[cfg(unix)]
    if flags.location.is_some() {
        // Data files are accessible only to the server's user, and a log may be among them.
        rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    }
    let log = flags.check_log().and_then(|()| log::start(flags.silent, flags.debug.as_deref()));
    if let Err(error) = log {
        let _ = writeln!(io::stderr(), "{error}");
        return ExitCode::FAILURE;
    }
    #[cfg(unix)]
    take_descriptors();
    match serve(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(flags: Flags) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(flags))
}

async fn run(flags: Flags) -> io::Result<()> {
    for note in flags.notes() {
        tracing::info!("{note}");
    }
    let show_keys = flags.show_keys;
    let end_with_stdin = flags.end_with_stdin;
    let faults = flags.failing.faults()?;
    #[cfg(feature = "control")]
    let control = flags.control.options(flags.allow_host.clone(), show_keys);
    let server = flags.builder()?.start().await?;
    let (mut told, mut closed) = (pin!(told_to_end()?), pin!(stdin_is_closed(end_with_stdin)));
    let end = poll_fn(|cx| match told.as_mut().poll(cx) {
        Poll::Pending => closed.as_mut().poll(cx),
        Poll::Ready(()) => Poll::Ready(()),
    });
    let faults: Vec<_> = faults.into_iter().map(|fault| server.inject(fault)).collect();
    #[cfg(feature = "control")]
    if let Some(options) = control {
        let plane = Plane::start(server, options).await?;
        for fault in faults {
            plane.keep(fault);
        }
        ready(plane.server(), Some(plane.url()), show_keys)?;
        select(pin!(end), pin!(plane.shutdown_requested())).await;
        plane.stop().await;
        return Ok(());
    }
    ready(&server, None, show_keys)?;
    end.await;
    // What they hold is not executed at the end.
    for fault in &faults {
        fault.discard();
    }
    // Once it has ended, all data has been synced.
    drop((faults, server));
    Ok(())
}

/// Raises the limit on file descriptors. Each connection takes one, and many systems allow a
/// program 1,024 by default. If this fails, only connections beyond the limit are affected.
#[cfg(unix)]
fn take_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Waits for a signal that ends the program. The handler is installed before the program reports that it is ready,
/// because a program that waits for this may send the signal at once.
#[cfg(unix)]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut interrupted, mut terminated) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(poll_fn(move |cx| {
        let is_told = interrupted.poll_recv(cx).is_ready() || terminated.poll_recv(cx).is_ready();
        if is_told { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// Waits for a signal that ends the program.
#[cfg(not(unix))]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}

/// Waits until standard input is closed, or forever. The system closes a pipe when the program at its other end has ended, so
/// no server is left behind by a test that was killed.
async fn stdin_is_closed(is_watched: bool) {
    let (closed, is_closed) = oneshot::channel::<()>();
    let watch = move || {
        // What arrives has no meaning, and an error is an end as well.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(closed);
    };
    // Reading standard input blocks, and the thread ends with the program.
    if is_watched && thread::Builder::new().name("stdin".into()).spawn(watch).is_ok() {
        let _ = is_closed.await;
    } else {
        pending::<()>().await;
    }
}

/// The ready line, which programs that start the server wait for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    ready: bool,
    blob: &'a str,
    queue: &'a str,
    table: &'a str,
    connection_string: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
}

/// Prints the ready line to stdout. Such lines end up in logs, which should not contain keys, so the keys of the user's
/// own accounts are shown only on request.
fn ready(server: &Server, control: Option<&str>, show_keys: bool) -> io::Result<()> {
    let line = Line {
        ready: true,
        blob: server.blob_endpoint(),
        queue: server.queue_endpoint(),
        table: server.table_endpoint(),
        connection_string: if show_keys {
            server.connection_string().to_owned()
        } else {
            server.connection_string_without_key()
        },
        control,
        authority: server.authority(),
        certificate: server.certificate().map(|certificate| certificate.replace('\r', "")),
    };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &line)?;
    writeln!(out)?;
    out.flush()
}
