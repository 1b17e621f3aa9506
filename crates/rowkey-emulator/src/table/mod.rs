//! The Table service over HTTP: requests to operations on the store, and back.
//!
//! | module | what is in it |
//! |---|---|
//! | [`call`] | [`Call`](call::Call): one request, authorized; which operation it is |
//! | [`entity`] | one entity: get, insert, update, delete |
//! | [`page`] | queries for entities, in steps |
//! | [`batch`] | entity group transactions |
//! | [`tables`] | the tables themselves |
//! | [`permit`] | what each operation needs of a shared access signature |
//! | [`wire`] | the formats: operations, requests, answers |
//! | [`service`] | access policies, service properties, statistics |

mod batch;
pub(crate) mod call;
mod entity;
mod page;
pub(crate) mod permit;
mod service;
mod tables;
pub(crate) mod wire;
