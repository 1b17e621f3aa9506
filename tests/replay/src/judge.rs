//! Compares a live response with the recorded one, and stores the values that the server generated.
//!
//! Three levels: `status` is the status and the error code; `body` is also what a client reads, in the body
//! and in headers; `exact` is every other header, orders, spellings and messages, too.

use std::collections::BTreeSet;

use crate::client::Answer;
use crate::exchange::{Exchange, Headers};
use crate::operation::LISTINGS;
use crate::session::{Session, place};
use crate::text::{self, HOST, pattern};

mod batch;
mod entity;
mod headers;
mod markup;

pattern! {
    TABLE_ETAG = r#"^W/"datetime'\d{4}-\d\d-\d\dT\d\d%3A\d\d%3A\d\d(\.\d{0,6}[1-9])?Z'"$"#;
    BOUNDARY = r"boundary=(batch|changeset)response_.*";
    SPACED = r";\s+";
}

/// The levels, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the package is not published")]
pub enum Level {
    /// The status and the error code agree.
    Status,
    /// The data that a client reads agrees, too.
    Body,
    /// All that is compared agrees.
    Exact,
}

impl Level {
    /// All, in the order in which they are compared.
    pub const ALL: [Self; 3] = [Self::Status, Self::Body, Self::Exact];

    /// The name in options and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Body => "body",
            Self::Exact => "exact",
        }
    }
}

/// What differs between two answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    differences: Vec<(Level, String)>,
}

impl Judgement {
    /// The highest level at which the answers agree.
    pub fn level(&self) -> Option<Level> {
        Level::ALL.into_iter().take_while(|level| self.at(*level).next().is_none()).last()
    }

    /// What differs at a level.
    pub fn at(&self, level: Level) -> impl Iterator<Item = &str> {
        self.differences.iter().filter(move |(it, _)| *it == level).map(|(_, text)| text.as_str())
    }
}

/// Compares one answer.
pub(crate) struct Judge<'a> {
    session: &'a mut Session,
    exchange: &'a Exchange,
    live: &'a Answer,
    /// The endpoint, with the account.
    base: &'a str,
    place: String,
    ignored: &'a BTreeSet<String>,
    judgement: Judgement,
}

/// Judges an answer to a request that was sent with these headers.
pub(crate) fn judge(
    session: &mut Session,
    exchange: &Exchange,
    live: &Answer,
    sent: &Headers,
    base: &str,
    ignored: &BTreeSet<String>,
) -> Judgement {
    let judgement = Judgement::default();
    let place = place(exchange);
    let mut judge = Judge { session, exchange, live, base, place, ignored, judgement };
    if live.status != exchange.status {
        judge.note(
            Level::Status,
            format!("status: recorded {}, live {}", exchange.status, live.status),
        );
    }
    let recorded = exchange.code();
    judge.code(recorded, text::error_code(&live.headers, &live.body), "");
    if judge.judgement.differences.is_empty() {
        judge.headers(sent);
        judge.body();
    }
    judge.judgement
}

impl Judge<'_> {
    fn note(&mut self, level: Level, text: String) {
        if !self.ignored.iter().any(|name| text.contains(&format!("header {name}:"))) {
            self.judgement.differences.push((level, text));
        }
    }

    /// A recorded text with the names of the run, its host left open.
    fn expected(&self, text: &str) -> String {
        self.session.rename(&HOST.replace_all(text, "{base}"))
    }

    /// A live text, its endpoint left open.
    fn neutral(&self, text: &str) -> String {
        text.replace(&format!("{}-secondary", self.base), "{base}").replace(self.base, "{base}")
    }

    fn code(&mut self, recorded: Option<String>, live: Option<String>, at: &str) {
        if recorded.is_some() && recorded != live {
            let [recorded, live] =
                [recorded, live].map(|it| it.unwrap_or_else(|| "none".to_owned()));
            self.note(Level::Status, format!("{at}error code: recorded {recorded}, live {live}"));
        }
    }

    fn header(&mut self, level: Level, name: &str) {
        let show =
            |headers: &Headers| headers.get(name).map_or("none".to_owned(), |it| format!("{it:?}"));
        let (recorded, live) = (show(&self.exchange.answer_headers), show(&self.live.headers));
        let (recorded, live) = (self.expected(&recorded), self.neutral(&live));
        self.note(level, format!("header {name}: recorded {recorded}, live {live}"));
    }

    fn body(&mut self) {
        let (exchange, live) = (self.exchange, &self.live.body);
        if exchange.method == "HEAD" {
            return;
        }
        let text = String::from_utf8_lossy(live).into_owned();
        if exchange.op() == "GetBlob" && exchange.ok() {
            if *live != exchange.answer {
                let (was, is) = (exchange.answer.len(), live.len());
                self.note(Level::Body, format!("content: recorded {was} bytes, live {is} others"));
            }
        } else if exchange.answer.is_empty() {
            if !text.trim().is_empty() && exchange.status != 304 {
                self.note(Level::Body, format!("body: recorded none, live {}", short(&text)));
            }
        } else if exchange
            .answer_headers
            .get("content-type")
            .is_some_and(|it| it.starts_with("multipart/"))
        {
            self.batch(&exchange.answer_text(), &text);
        } else {
            self.text(&exchange.answer_text(), &text, "");
        }
    }

    /// Compares texts by their format.
    fn text(&mut self, recorded: &str, live: &str, at: &str) {
        let (recorded, live) = (self.expected(recorded), self.neutral(live));
        let bare = |text: &str| text.trim_start_matches('\u{feff}').trim().to_owned();
        let (recorded, live) = (bare(&recorded), bare(&live));
        let compared = if recorded.starts_with(['{', '[']) {
            self.json_texts(&recorded, &live, if at.is_empty() { "$" } else { at })
        } else if recorded.starts_with('<') {
            self.xml_texts(&recorded, &live, at)
        } else {
            if recorded != live {
                let (was, is) = (short(&recorded), short(&live));
                self.note(Level::Body, format!("{at}text: recorded {was}, live {is}"));
            }
            Ok(())
        };
        if let Err(error) = compared {
            self.note(Level::Body, format!("{at}invalid body ({error}): live {}", short(&live)));
        }
    }

    /// Compares messages of errors: the index of the failing part counts more than the words.
    fn message(&mut self, recorded: &str, live: &str, at: &str) {
        let index = |text: &str| {
            text.split_once(':')
                .map(|(it, _)| it.to_owned())
                .filter(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if index(recorded) != index(live) {
            let (was, is) = (short(recorded), short(live));
            self.note(Level::Body, format!("{at}: index of the part: recorded {was}, live {is}"));
        }
        let words =
            |text: &str| text.split("RequestId:").next().unwrap_or_default().trim_end().to_owned();
        if words(recorded) != words(live) {
            self.note(
                Level::Exact,
                format!("{at}: recorded {}, live {}", short(recorded), short(live)),
            );
        }
    }

    fn listing(&self) -> bool {
        LISTINGS.contains(&self.exchange.op())
    }
}

/// A media type in one spelling; other values as they are.
fn media(value: &str) -> String {
    let value = BOUNDARY.replace_all(value, "boundary=${1}response").into_owned();
    if value.contains('/') && !value.contains(['(', '{']) {
        SPACED.replace_all(&value, ";").to_lowercase()
    } else {
        value
    }
}

fn short(text: &str) -> String {
    format!("{:?}", text.chars().take(80).collect::<String>())
}
