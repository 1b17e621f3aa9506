//! The page for browsers: its files, which are part of the program.

use axum::Router;

use crate::plane::Shared;

/// Whether a path is a file of the page.
pub(crate) fn has(path: &str) -> bool {
    path == "/"
}

/// The files of the page.
pub(crate) fn router() -> Router<Shared> {
    Router::new()
}
