//! JSON bodies, query strings and ids in paths. What is wrong with them is said in a [`Problem`], with its place.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// A JSON body. Its content type is not checked, so that `curl -d` works; an empty body is an empty object.
pub(crate) struct Sent<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let body = Bytes::from_request(request, state).await;
        let body = body.map_err(|error| Problem::new(error.status(), error.body_text()))?;
        let json = if body.trim_ascii().is_empty() { b"{}" } else { &*body };
        let read = serde_json::from_slice(json);
        read.map(Self).map_err(|error| Problem::invalid(format!("the body: {error}")))
    }
}

/// The parameters of a query string.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Query::<T>::from_request_parts(parts, state).await;
        let read = read.map_err(|error| Problem::invalid(error.body_text()))?;
        Ok(Self(read.0))
    }
}

/// The part of a path that names a resource.
pub(crate) struct Named<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::<T>::from_request_parts(parts, state).await;
        let read = read.map_err(|error| Problem::invalid(error.body_text()))?;
        Ok(Self(read.0))
    }
}
