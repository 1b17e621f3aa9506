//! The worker's handler: it reads the order of a mail from the store, and sends the mail by a provider.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rowkey::{Error, ErrorKind, Result};
use rowkey_worker::worker::{Attempt, Done, Handler};
use tokio::sync::Notify;

use crate::Service;
use crate::model::{Mail, Order};

/// What a handler uses is in its fields. Many handlers run at a time, so they share it.
pub(crate) struct Mailer {
    pub(crate) service: Arc<Service>,
    pub(crate) provider: Arc<Provider>,
}

impl Handler<Mail> for Mailer {
    async fn handle(&self, mail: Mail, attempt: Attempt) -> Result<Done> {
        let order = self.service.orders.get(Order::key(&mail.tenant, mail.order)).await?;
        let Some(order) = order else { return Ok(Done::Poison("no such order".into())) };
        // The id is the same if a mail comes twice: for the provider, the idempotency key.
        let text = format!("order {} of customer {}", mail.order, order.entity.customer);
        self.provider.send(attempt.id(), &text).map_err(|error| {
            // An error of another crate becomes one of this crate. `Unavailable` is tried again and does not count
            // as an attempt; use another kind for an error that should.
            Error::refused(ErrorKind::Unavailable, "the mail provider is busy").with_source(error)
        })?;
        Ok(Done::Applied)
    }
}

/// Stands for the client of a mail provider. It is busy at the first call.
#[derive(Default)]
pub(crate) struct Provider {
    calls: Mutex<Vec<String>>,
    called: Notify,
}

impl Provider {
    fn send(&self, id: &str, text: &str) -> std::result::Result<(), Busy> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(id.to_owned());
        self.called.notify_one();
        if calls.len() == 1 {
            return Err(Busy);
        }
        println!("mail {id}: {text}");
        Ok(())
    }

    /// The ids of the first two calls, when they have come.
    pub(crate) async fn two_calls(&self) -> [String; 2] {
        loop {
            if let [first, second, ..] =
                self.calls.lock().unwrap_or_else(PoisonError::into_inner).as_slice()
            {
                return [first.clone(), second.clone()];
            }
            self.called.notified().await;
        }
    }
}

/// The error of the mail provider.
#[derive(Debug)]
struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy")
    }
}

impl std::error::Error for Busy {}
