//! [`Stubs`] on a server of wiremock.

use std::io;

use wiremock::{Match, Mock, MockServer, Request, Respond, ResponseTemplate};

use super::exchange::Exchange;
use super::stubs::{Stubs, authority};

/// Later than the mocks of a test, whose priority is 5.
const PRIORITY: u8 = 6;

impl Stubs {
    /// Mounts the stubs. Mocks that a test mounts with wiremock's own priority, before or after, take
    /// precedence.
    ///
    /// A request that nothing answers gets an error that names it. The server also expects no such
    /// request, so that the test fails when the server is dropped.
    pub async fn mount(&self, server: &MockServer) {
        let lost = |stubs: Self| move |request: &Request| stubs.lose(request);
        Mock::given(Lost(self.clone()))
            .respond_with_err(lost(self.clone()))
            .with_priority(PRIORITY)
            .mount(server)
            .await;
        Mock::given(Covered(self.clone()))
            .respond_with(Covered(self.clone()))
            .with_priority(PRIORITY)
            .mount(server)
            .await;
        Mock::given(wiremock::matchers::any())
            .respond_with(Unanswered(self.clone()))
            .with_priority(u8::MAX)
            .named("requests that no stub answers")
            .expect(0)
            .mount(server)
            .await;
    }

    /// Applies a write whose answer is lost.
    fn lose(&self, request: &Request) -> io::Error {
        let mut state = self.locked();
        let request = exchange(request);
        if let Some((at, _)) = state.failing(&request) {
            state.failures.remove(at);
        }
        let _ = state.applied(&request);
        io::Error::new(io::ErrorKind::ConnectionReset, "the answer is lost")
    }
}

struct Lost(Stubs);
struct Covered(Stubs);
struct Unanswered(Stubs);

impl Match for Lost {
    fn matches(&self, request: &Request) -> bool {
        let state = self.0.locked();
        let failing = state.failing(&exchange(request));
        failing.is_some_and(|(at, _)| state.failures[at].code.is_none())
    }
}

impl Match for Covered {
    fn matches(&self, request: &Request) -> bool {
        self.0.locked().covers(&exchange(request))
    }
}

impl Respond for Covered {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut state = self.0.locked();
        let request = exchange(request);
        state.answer(&request).unwrap_or_else(|| state.refuse(&request)).into()
    }
}

impl Respond for Unanswered {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        self.0.locked().refuse(&exchange(request)).into()
    }
}

fn exchange(request: &Request) -> Exchange<'_> {
    Exchange {
        // The URL of wiremock has another one.
        authority: authority(&request.headers),
        method: &request.method,
        path: request.url.path(),
        query: request.url.query().unwrap_or_default(),
        headers: &request.headers,
        body: &request.body,
    }
}
