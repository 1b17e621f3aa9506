//! What each error of the client and the store advises, and that it helps: a test provokes the error, follows the
//! advice, and succeeds.
//!
//! `every_advice_is_tried_or_excused` reads the sources: an advice that no case here has makes it fail. What no
//! test can follow stands in `excused`.

mod account;
mod answers;
mod blobs;
mod declared;
mod endpoints;
mod excused;
mod jobs;
mod manifest;
mod rare;
mod references;
mod requests;
mod sealed;
mod sources;
mod store;
mod wide;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rowkey::patterns::job::Report;
use rowkey::{Error, ErrorKind, StorageAccount};
use rowkey_emulator::Server;
use rowkey_tests::TestResult;

use excused::EXCUSED;

/// An error that was provoked, after its advice was followed with success.
type Tried = TestResult<Error>;

/// An advice, as the source has it, and a test of it.
struct Case {
    advice: &'static str,
    run: fn() -> BoxFuture<'static, Tried>,
}

const fn case(advice: &'static str, run: fn() -> BoxFuture<'static, Tried>) -> Case {
    Case { advice, run }
}

fn cases() -> impl Iterator<Item = &'static Case> {
    let of_client = [account::CASES, answers::CASES, endpoints::CASES, requests::CASES];
    let of_stores = [declared::CASES, manifest::CASES, sealed::CASES, store::CASES, wide::CASES];
    let others = [blobs::CASES, jobs::CASES, rare::CASES, references::CASES];
    of_client.into_iter().chain(of_stores).chain(others).flatten()
}

fn excused() -> impl Iterator<Item = &'static str> {
    EXCUSED.iter().map(|(advice, _)| *advice)
}

/// The error of a call that must be refused.
fn refused<T>(result: rowkey::Result<T>) -> Tried {
    match result {
        Err(error) => Ok(error),
        Ok(_) => Err("it was not refused".into()),
    }
}

/// The error that a report quotes. No caller gets it as such.
fn reported(report: &Report, what: &str) -> Tried {
    match report.problems.iter().find(|problem| problem.error.contains(what)) {
        Some(problem) => Ok(Error::refused(ErrorKind::Invalid, problem.error.clone())),
        None => Err(format!("no problem says `{what}`: {report:?}").into()),
    }
}

/// A server, and an account on it whose waits take no time.
async fn start() -> TestResult<(Server, StorageAccount)> {
    let server = Server::builder().manual_clock().start().await?;
    let account = rowkey_tests::sweep::account(&server)?;
    Ok((server, account))
}

/// Whether a message ends with an advice whose `{..}` stand for anything.
fn has(message: &str, advice: &str) -> bool {
    let mut rest = message;
    let mut pieces = Vec::new();
    let mut left = advice;
    while let Some((piece, after)) = left.split_once('{') {
        pieces.push(piece);
        left = after.split_once('}').map_or("", |(_, after)| after);
    }
    pieces.push(left);
    pieces.iter().all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

#[tokio::test]
async fn following_an_advice_helps() {
    let mut failed = Vec::new();
    for Case { advice, run } in cases() {
        // The assertions of a case are about what its advice brings.
        let ran = AssertUnwindSafe(run()).catch_unwind().await;
        match ran.unwrap_or_else(|_| Err("an assertion failed, see above".into())) {
            Ok(error) if has(&error.to_string(), advice) => {}
            Ok(error) => failed.push(format!("`{advice}` is not what is said: {error}")),
            Err(error) => failed.push(format!("`{advice}` does not help: {error}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_advice_is_tried_or_excused() {
    let found = sources::advices();
    assert!(found.len() > 90, "the sources are read: {}", found.len());
    let is_known = |advice: &str| {
        cases().any(|case| case.advice == advice) || excused().any(|one| one == advice)
    };
    let new: Vec<_> = found.iter().filter(|advice| !is_known(advice)).collect();
    assert!(new.is_empty(), "no case of `tests/errors/advice` tries: {new:#?}");
    let known = cases().map(|case| case.advice).chain(excused());
    let gone: Vec<_> = known.filter(|advice| !found.iter().any(|one| one == advice)).collect();
    assert!(gone.is_empty(), "no source advises this any more: {gone:#?}");
}
