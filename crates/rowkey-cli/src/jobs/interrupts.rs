//! Ctrl-C, and the signal that ends programs (SIGTERM), while a job runs: the job stops at its last checkpoint.
//!
//! A thread of its own waits for them, because the thread of the command may be busy. Where no job runs, and at a second signal,
//! the program ends at once, as it would without this.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{OnceLock, mpsc};
use std::thread;

use tokio::sync::Notify;

use crate::error::{Exit, Result};

/// What the thread and the job share.
struct Shared {
    is_running: AtomicBool,
    /// The exit code of the signal that came, or 0.
    signal: AtomicU8,
    wake: Notify,
}

static SHARED: Shared = Shared {
    is_running: AtomicBool::new(false),
    signal: AtomicU8::new(0),
    wake: Notify::const_new(),
};

/// While it exists, signals stop the job.
pub(super) struct Interrupts(());

impl Interrupts {
    /// Handles signals from now on.
    pub(super) fn begin() -> Result<Self> {
        static IS_WATCHED: OnceLock<()> = OnceLock::new();
        if IS_WATCHED.get().is_none() {
            watch()?;
            let _ = IS_WATCHED.set(());
        }
        SHARED.is_running.store(true, Ordering::SeqCst);
        Ok(Self(()))
    }

    /// Waits for a signal, and returns its exit code.
    pub(super) async fn signalled(&self) -> Exit {
        loop {
            let exit = [Exit::Interrupted, Exit::Terminated]
                .into_iter()
                .find(|exit| *exit as u8 == SHARED.signal.load(Ordering::SeqCst));
            if let Some(exit) = exit {
                return exit;
            }
            SHARED.wake.notified().await;
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        SHARED.is_running.store(false, Ordering::SeqCst);
    }
}

/// Starts the thread, and returns when it has installed its handlers.
fn watch() -> io::Result<()> {
    let (ready, is_ready) = mpsc::channel();
    let watching = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let watched = runtime.and_then(|runtime| runtime.block_on(signals(&ready)));
        if let Err(error) = watched {
            // If this fails, the job does not wait for it any more.
            let _ = ready.send(Err(error));
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watching)?;
    is_ready.recv().unwrap_or_else(|_| Err(io::Error::other("signals cannot be handled")))
}

/// Records a signal, or ends the program.
fn signal(exit: Exit) {
    let is_first = SHARED.signal.swap(exit as u8, Ordering::SeqCst) == 0;
    if !is_first || !SHARED.is_running.load(Ordering::SeqCst) {
        process::exit((exit as u8).into());
    }
    SHARED.wake.notify_one();
}

#[cfg(unix)]
async fn signals(ready: &mpsc::Sender<io::Result<()>>) -> io::Result<()> {
    use std::pin::pin;

    use futures_util::future::{Either, select};
    use tokio::signal::unix::{self, SignalKind};

    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    let mut terminate = unix::signal(SignalKind::terminate())?;
    let _ = ready.send(Ok(()));
    loop {
        let (interrupted, terminated) = (pin!(interrupt.recv()), pin!(terminate.recv()));
        let exit = match select(interrupted, terminated).await {
            Either::Left(_) => Exit::Interrupted,
            Either::Right(_) => Exit::Terminated,
        };
        signal(exit);
    }
}

#[cfg(windows)]
async fn signals(ready: &mpsc::Sender<io::Result<()>>) -> io::Result<()> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    let _ = ready.send(Ok(()));
    loop {
        interrupt.recv().await;
        signal(Exit::Interrupted);
    }
}
