//! The page for browsers: its files, which are part of the program.

use axum::Router;

/// Whether a path is a file of the page.
pub(crate) fn has(path: &str) -> bool {
    path == "/"
}

/// The files of the page.
pub(crate) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
}
