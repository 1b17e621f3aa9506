//! Replays exchanges that were recorded against the live storage service, and judges a server's answers.
//!
//! Each run of a test is sent again in its order, under names of its own. What the server hands out
//! (`ETag`s, pop receipts, continuation tokens) takes the place of the recorded values in later requests.
//! `README.md` beside this package describes the format of the recordings and how they are obtained.

mod client;
mod exchange;
mod json;
mod judge;
mod operation;
mod replay;
mod report;
mod request;
mod session;
mod sign;
mod text;
mod xml;

pub use client::Answer;
pub use exchange::{Auth, Exchange, Headers, Service, load, runs};
pub use judge::{Judgement, Level};
pub use operation::Operation;
pub use replay::{Options, Outcome, Verdict, replay};
pub use report::{failures, json, summary};
