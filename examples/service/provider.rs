//! Stands for the client of a mail provider.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// Notes its calls. It is busy at the first one, and rejects the address `rejected@contoso.com` until it is told to
/// accept it.
#[derive(Default)]
pub(crate) struct Provider {
    calls: Mutex<Calls>,
    called: Notify,
}

#[derive(Default)]
struct Calls {
    /// The id and the address of each.
    all: Vec<(String, String)>,
    accepts_all: bool,
}

impl Provider {
    pub(crate) fn send(&self, id: &str, to: &str, text: &str) -> Result<(), SendError> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.all.push((id.to_owned(), to.to_owned()));
        self.called.notify_one();
        if calls.all.len() == 1 {
            return Err(SendError::Busy);
        }
        if to.starts_with("rejected@") && !calls.accepts_all {
            return Err(SendError::Rejected);
        }
        println!("mail {id} to {to}: {text}");
        Ok(())
    }

    pub(crate) fn accept_all(&self) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).accepts_all = true;
    }

    /// The ids of the first `count` mails to an address, when they have come.
    pub(crate) async fn calls(&self, to: &str, count: usize) -> Vec<String> {
        loop {
            let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).all.clone();
            let ids: Vec<_> = calls.into_iter().filter(|call| call.1 == to).map(|c| c.0).collect();
            if ids.len() >= count {
                return ids;
            }
            self.called.notified().await;
        }
    }
}

/// The error of the mail provider.
#[derive(Debug)]
pub(crate) enum SendError {
    Busy,
    Rejected,
}

impl SendError {
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Busy)
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_busy() { "busy" } else { "rejected" })
    }
}

impl std::error::Error for SendError {}
