//! Sends the runs of tests, several at a time, and collects the verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::client::{Answer, Client, Sent, Transport, pause};
use crate::exchange::{Auth, Exchange, Headers, Service};
use crate::judge::{Judgement, Level, judge};
use crate::operation::{CREATES, DELETES, LISTINGS};
use crate::request;
use crate::session::Session;
use crate::text::pattern;

pattern! {
    TIMED = r"(?i)visibilitytimeout=|messagettl=";
    SECTION = r"<(Logging|HourMetrics|MinuteMetrics|Metrics|Cors|DefaultServiceVersion)\b";
}

/// How exchanges are replayed.
#[derive(Clone, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "the package is not published")]
pub struct Options {
    /// The longest recorded pause that is waited for, in seconds. What follows a longer one is skipped.
    pub max_pause: i64,
    /// Runs that are replayed at the same time.
    pub jobs: usize,
    /// Headers of answers that are not compared.
    pub ignore_headers: BTreeSet<String>,
}

/// What became of an exchange.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "the package is not published")]
pub enum Outcome {
    /// It was sent, and the answer judged.
    Judged {
        /// What differs.
        judgement: Judgement,
        /// Whether a write of the same run had failed before.
        after_failure: bool,
    },
    /// It follows a pause that was too long.
    Skipped,
}

/// The verdict on one exchange.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the package is not published")]
pub struct Verdict {
    /// The file of the recording.
    pub file: String,
    /// The test.
    pub test: String,
    /// The exchange's number in the test.
    pub seq: u64,
    /// The service.
    pub service: Service,
    /// The operation.
    pub op: String,
    /// The recorded method and target.
    pub request: String,
    /// What became of it.
    pub outcome: Outcome,
}

impl Verdict {
    /// Whether the answers agree at a level.
    pub fn passed(&self, level: Level) -> bool {
        let Outcome::Judged { judgement, .. } = &self.outcome else { return false };
        judgement.level().is_some_and(|reached| reached >= level)
    }

    /// Whether it was judged.
    pub const fn judged(&self) -> bool {
        matches!(self.outcome, Outcome::Judged { .. })
    }
}

/// Replays runs of tests on the servers at these endpoints, and gives the verdicts in the order of the runs.
pub fn replay(
    runs: &[Vec<Exchange>],
    endpoints: &BTreeMap<Service, String>,
    options: &Options,
) -> std::io::Result<Vec<Verdict>> {
    let shared: Vec<usize> =
        (0..runs.len()).filter(|at| runs.get(*at).is_some_and(|run| whole_account(run))).collect();
    let results = Mutex::new(BTreeMap::new());
    let next = AtomicUsize::new(0);
    let work = || -> std::io::Result<()> {
        let mut client = Client::new(endpoints)?;
        while let Some((at, run)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            runs.get(at).map(|run| (at, run))
        } {
            if !shared.contains(&at) {
                let verdicts = Run::new(run, options).replay(&mut client);
                results.lock().expect("no thread panics").insert(at, verdicts);
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    // Runs alone, after the other tests have removed their resources.
    let mut client = Client::new(endpoints)?;
    let mut results = results.into_inner().expect("no thread panics");
    for at in shared {
        if let Some(run) = runs.get(at) {
            results.insert(at, Run::new(run, options).replay(&mut client));
        }
    }
    Ok(results.into_values().flatten().collect())
}

/// Whether a run is about what all runs share: listings, service properties, the root container.
fn whole_account(run: &[Exchange]) -> bool {
    run.iter().any(|exchange| {
        let first = exchange.resource().first().map_or("", String::as_str);
        LISTINGS.contains(&exchange.op()) || matches!(first, "" | "$root")
    })
}

/// One run while it is replayed.
pub(crate) struct Run<'a> {
    exchanges: &'a [Exchange],
    options: &'a Options,
    session: Session,
    /// The resources at the end; an empty name for the service properties.
    created: BTreeSet<String>,
    failed: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(run: &'a [Exchange], options: &'a Options) -> Self {
        let session = Session::new(run);
        Self { exchanges: run, options, session, created: BTreeSet::new(), failed: false }
    }

    pub(crate) fn replay(mut self, transport: &mut impl Transport) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        let timed = self.exchanges.iter().any(|exchange| {
            let lease = ["x-ms-lease-duration", "x-ms-lease-break-period"];
            TIMED.is_match(&exchange.target)
                || lease.iter().any(|it| exchange.headers.contains_key(*it))
        });
        let mut last = self.exchanges.first().and_then(Exchange::when);
        let mut behind = false;
        for exchange in self.exchanges {
            let waited = exchange.when().zip(last).map_or(0, |(when, last)| when - last);
            last = exchange.when().or(last);
            if timed && waited >= 3 && !behind {
                behind = waited > self.options.max_pause;
                if !behind {
                    pause(waited);
                }
            }
            let outcome = if behind { Outcome::Skipped } else { self.judged(exchange, transport) };
            if !exchange.setup {
                verdicts.push(Verdict {
                    file: exchange.file.clone(),
                    test: exchange.test.clone(),
                    seq: exchange.seq,
                    service: exchange.service,
                    op: exchange.op().to_owned(),
                    request: format!("{} {}", exchange.method, exchange.target),
                    outcome,
                });
            }
        }
        self.clean(transport);
        verdicts
    }

    fn judged(&mut self, exchange: &Exchange, transport: &mut impl Transport) -> Outcome {
        let policies = self.exchanges.iter().any(|it| it.query.contains_key("si"));
        let sent = request::live(&mut self.session, exchange, transport, policies);
        let (answer, headers) = if let Some(sent) = sent {
            let headers = sent.headers.clone();
            (transport.send(sent), headers)
        } else {
            let body = b"the server gave no continuation token to follow".to_vec();
            (Answer { body, ..Answer::default() }, Headers::new())
        };
        if let Some(name) =
            exchange.resource().first().filter(|_| (1..300).contains(&answer.status))
        {
            let name = self.session.name(name).to_owned();
            if CREATES.contains(&exchange.op()) {
                self.created.insert(name);
            } else if DELETES.contains(&exchange.op()) {
                self.created.remove(&name);
            }
        }
        if exchange.op() == "SetServiceProperties" && exchange.ok() {
            let text = exchange.text();
            self.session.sections.extend(SECTION.captures_iter(&text).map(|it| it[1].to_owned()));
            self.created.insert(String::new());
        }
        let base = transport.endpoint(exchange.service).to_owned();
        let ignored = &self.options.ignore_headers;
        let judgement = judge(&mut self.session, exchange, &answer, &headers, &base, ignored);
        let after_failure = self.failed;
        self.failed |= exchange.writes() && judgement.level().is_none();
        Outcome::Judged { judgement, after_failure }
    }

    /// Removes the resources of the run.
    fn clean(&self, transport: &mut impl Transport) {
        let service = self.session.service;
        let mut send = |method: &str, target: String, more: &[(&str, &str)], body: Option<&str>| {
            let fixed = [("x-ms-version", "2019-02-02"), ("accept", "application/json")];
            let headers =
                fixed.iter().chain(more).map(|&(name, value)| (name.to_owned(), value.to_owned()));
            transport.send(Sent {
                service,
                method: method.to_owned(),
                target,
                headers: headers.collect(),
                body: body.map(|it| it.as_bytes().to_vec()),
                auth: Auth::Key,
                secondary: false,
            })
        };
        for name in &self.created {
            if name.is_empty() {
                let body = "<StorageServiceProperties><Cors /></StorageServiceProperties>";
                let target = "/?restype=service&comp=properties".to_owned();
                send("PUT", target, &[("content-type", "application/xml")], Some(body));
                continue;
            }
            let target = match service {
                Service::Table => format!("/Tables('{name}')"),
                Service::Queue => format!("/{name}"),
                Service::Blob => format!("/{name}?restype=container"),
            };
            if send("DELETE", target.clone(), &[], None).status == 412 {
                let lease = format!("/{name}?comp=lease&restype=container");
                let now = [("x-ms-lease-action", "break"), ("x-ms-lease-break-period", "0")];
                send("PUT", lease, &now, None);
                send("DELETE", target, &[], None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
