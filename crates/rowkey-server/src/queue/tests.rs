//! The service over HTTP.
