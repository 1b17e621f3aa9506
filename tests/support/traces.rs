//! A `tracing` subscriber for one test among tests that run in parallel.

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};

/// The subscriber is the default of the thread while this lives.
#[must_use]
#[derive(Debug)]
#[expect(dead_code, reason = "held until the test ends")]
pub struct Subscribed {
    default: DefaultGuard,
    second: Dispatch,
}

/// Makes `subscriber` the default of this thread.
///
/// While a process has one live subscriber, `tracing` caches the interest of the thread that reaches an event
/// first. If another test's thread does, which has no subscriber, the event is lost for the whole process. With a
/// second live subscriber, `tracing` asks all of them.
pub fn subscribe(subscriber: impl Into<Dispatch>) -> Subscribed {
    let second = Dispatch::new(NoSubscriber::new());
    Subscribed { default: tracing::dispatcher::set_default(&subscriber.into()), second }
}
