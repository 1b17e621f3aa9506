//! One run of one test: its names, and the values that the server under test generated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use regex::Regex;

use crate::exchange::{Exchange, Service};
use crate::operation;
use crate::text;

/// Tells the runs of a process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The names and values of a run, from the recorded one to the live one.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) service: Service,
    /// Begins the name of each table, queue and container.
    pub(crate) prefix: String,
    /// Recorded names and live names.
    pub(crate) names: BTreeMap<String, String>,
    pattern: Option<Regex>,
    values: BTreeMap<(String, String), String>,
    /// The last ETag of each resource: recorded, live.
    pub(crate) etags: BTreeMap<String, (String, String)>,
    /// The elements of the service properties that the run has set.
    pub(crate) sections: BTreeSet<String>,
}

impl Session {
    pub(crate) fn new(run: &[Exchange]) -> Self {
        let start = u32::try_from(text::now() % 40_000).unwrap_or(0);
        let number = start.wrapping_add(NUMBER.fetch_add(1, Ordering::Relaxed));
        let digit =
            |power: u32| char::from_digit(number / 36_u32.pow(power) % 36, 36).unwrap_or('0');
        let prefix: String = ['r', digit(2), digit(1), digit(0)].into_iter().collect();
        let service = run.first().map_or(Service::Table, |exchange| exchange.service);
        let found = operation::names(run);
        let pattern = (!found.is_empty() && service == Service::Table).then(|| {
            Regex::new(&found.iter().map(|it| regex::escape(it)).collect::<Vec<_>>().join("|"))
        });
        let names = found.into_iter().map(|name| {
            let rest = name.get((name.len() + 4).saturating_sub(63)..).unwrap_or_default();
            let live = format!("{prefix}{rest}");
            (name, live)
        });
        Self {
            service,
            names: names.collect(),
            pattern: pattern.and_then(Result::ok),
            prefix,
            values: BTreeMap::new(),
            etags: BTreeMap::new(),
            sections: BTreeSet::new(),
        }
    }

    /// The live name of a recorded one; others as they are.
    pub(crate) fn name<'a>(&'a self, recorded: &'a str) -> &'a str {
        self.names.get(recorded).map_or(recorded, String::as_str)
    }

    /// Whether a live name belongs to the run.
    pub(crate) fn owns(&self, live: &str) -> bool {
        self.names.values().any(|name| name == live)
    }

    /// A name that a listing may begin with.
    pub(crate) fn prefixed(&self, recorded: &str) -> String {
        self.names.get(recorded).cloned().unwrap_or_else(|| format!("{}{recorded}", self.prefix))
    }

    /// Replaces names of tables in a text, where they are whole words.
    pub(crate) fn rename(&self, text: &str) -> String {
        let Some(pattern) = &self.pattern else { return text.to_owned() };
        let mut renamed = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(found) = pattern.find_at(text, at) {
            let before = text.get(..found.start()).unwrap_or_default();
            let after = text.get(found.end()..).unwrap_or_default();
            let bytes = before.as_bytes();
            // The digits of a percent-encoded byte are no letters of a word.
            let encoded =
                matches!(bytes, [.., b'%', a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
            let starts = encoded || !bytes.last().is_some_and(u8::is_ascii_alphanumeric);
            let ends = !after.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
            renamed.push_str(text.get(at..found.start()).unwrap_or_default());
            if starts && ends {
                renamed.push_str(self.name(found.as_str()));
                at = found.end();
            } else {
                let next = found.start() + 1;
                renamed.push_str(text.get(found.start()..next).unwrap_or_default());
                at = next;
            }
        }
        renamed.push_str(text.get(at..).unwrap_or_default());
        renamed
    }

    /// Stores the live value for a recorded one, for one place and in general.
    pub(crate) fn learn(&mut self, recorded: &str, live: &str, place: &str) {
        for place in [place, ""] {
            self.values.insert((place.to_owned(), recorded.to_owned()), live.to_owned());
        }
    }

    /// The live value for a recorded one.
    pub(crate) fn live(&self, recorded: &str, place: &str) -> Option<String> {
        let get = |place: &str| self.values.get(&(place.to_owned(), recorded.to_owned()));
        get(place)
            .filter(|it| !it.is_empty())
            .or_else(|| get(""))
            .filter(|it| !it.is_empty())
            .cloned()
    }
}

/// What `ETag`s, times and pop receipts of an exchange belong to.
pub(crate) fn place(exchange: &Exchange) -> String {
    let path = text::unquote(text::path(&exchange.target));
    let message = exchange.service == Service::Queue
        && exchange.resource().get(1..) == Some(&["messages".to_owned()][..]);
    if message { path.rsplit('/').next().unwrap_or_default().to_owned() } else { path }
}
