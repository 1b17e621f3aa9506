//! Writes the program's log to standard error, and with `--debug FILE` to a file.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging. `debug` is the file for the debug log; if it is empty, the debug log goes to
/// standard error. The directory of the file is created if it does not exist.
pub(crate) fn start(silent: bool, debug: Option<&Path>) -> io::Result<()> {
    let file = debug.filter(|path| !path.as_os_str().is_empty());
    let level = match (silent, debug.is_some() && file.is_none()) {
        (_, true) => LevelFilter::DEBUG,
        (true, false) => LevelFilter::ERROR,
        (false, false) => LevelFilter::INFO,
    };
    let file = file.map(open).transpose()?.map(|file| {
        tracing_subscriber::fmt::layer()
            .with_writer(Mutex::new(file))
            .with_filter(LevelFilter::DEBUG)
    });
    let console = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_filter(level);
    tracing_subscriber::registry().with(console).with(file).init();
    Ok(())
}

fn open(path: &Path) -> io::Result<fs::File> {
    let open = || {
        if let Some(directory) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            fs::create_dir_all(directory)?;
        }
        OpenOptions::new().create(true).append(true).open(path)
    };
    open().map_err(|error| {
        let message = format!("--debug: cannot write {}: {error}", path.display());
        io::Error::new(error.kind(), message)
    })
}
