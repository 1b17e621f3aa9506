//! Bodies of XML: listings, messages, policies, properties, errors.

use std::collections::BTreeSet;
use std::iter::zip;

use super::{Judge, Level, short};
use crate::exchange::Headers;
use crate::text::{self, RFC1123, canonical_stamp, http_date, pattern};
use crate::xml::Element;

pattern! {
    NAME_OF_ONE = r"/(Queue|Container)(\[\d+\])?/Name$";
}

/// Elements of features that are not judged, or of how the recorded account was set up.
const IGNORED: [&str; 20] = [
    "AccessTier",
    "AccessTierInferred",
    "AccessTierChangeTime",
    "TagCount",
    "VersionId",
    "IsCurrentVersion",
    "DefaultEncryptionScope",
    "DenyEncryptionScopeOverride",
    "HasImmutabilityPolicy",
    "HasLegalHold",
    "ImmutableStorageWithVersioningEnabled",
    "LastAccessTime",
    "ResourceType",
    "OrMetadata",
    "EncryptionScope",
    "CustomerProvidedKeySha256",
    "Content-CRC64",
    "RemainingRetentionDays",
    "DeleteRetentionPolicy",
    "StaticWebsite",
];
/// Elements that hold a time of the server.
const TIMES: [&str; 6] = [
    "InsertionTime",
    "ExpirationTime",
    "TimeNextVisible",
    "Last-Modified",
    "Creation-Time",
    "CopyCompletionTime",
];
/// Elements with values that the server generates.
const GIVEN: [&str; 12] = [
    "MessageId",
    "PopReceipt",
    "Etag",
    "Snapshot",
    "NextMarker",
    "CopyId",
    "LastSyncTime",
    "Status",
    "AuthenticationErrorDetail",
    "ServerCalculatedMd5",
    "Marker",
    "ServerEncrypted",
];

/// The children that are compared; names of metadata in lower case, as the recorders wrote them.
fn children(element: &Element) -> Vec<Element> {
    let judged = element.children.iter().filter(|child| !IGNORED.contains(&child.name.as_str()));
    let mut judged: Vec<Element> = judged.cloned().collect();
    if element.name == "Metadata" {
        for child in &mut judged {
            child.name = child.name.to_lowercase();
        }
    }
    judged
}

/// Seconds from a time to that in a child; none for a missing one and for the end of all days.
fn span(element: &Element, name: &str, from: Option<&str>) -> Option<i64> {
    let (first, last) = (http_date(from?)?, http_date(element.child(name)?)?);
    (last < 200_000_000_000).then_some(last - first)
}

impl Judge<'_> {
    pub(super) fn xml_texts(&mut self, recorded: &str, live: &str, at: &str) -> Result<(), String> {
        let (old, new) = (Element::read(recorded)?, Element::read(live)?);
        if at.is_empty() && (&old.name, &old.namespace) != (&new.name, &new.namespace) {
            let text =
                format!("root element: recorded {}, live {} {}", old.name, new.name, new.namespace);
            self.note(Level::Body, text);
        }
        self.xml(&old, &new, &old.name);
        Ok(())
    }

    fn xml(&mut self, recorded: &Element, live: &Element, at: &str) {
        let attributes = recorded.attributes.iter().chain(&live.attributes);
        let attributes: BTreeSet<&str> = attributes.map(|(name, _)| name.as_str()).collect();
        for name in attributes {
            let (mut was, is) = (recorded.attribute(name), live.attribute(name));
            if name == "ContainerName" {
                was = self.session.name(was);
            }
            if was.trim_end_matches('/') != is.trim_end_matches('/') {
                let text = format!("{at}@{name}: recorded {was:?}, live {is:?}");
                self.note(Level::Body, text);
            }
        }
        let kind = recorded.name.as_str();
        let (mut old, mut new) = (children(recorded), children(live));
        if matches!(kind, "Queues" | "Containers") {
            old.retain(|it| {
                it.child("Name").is_some_and(|name| self.session.names.contains_key(name))
            });
            new.retain(|it| it.child("Name").is_some_and(|name| self.session.owns(name)));
        }
        if old.is_empty() && new.is_empty() {
            self.leaf(kind, &recorded.text, &live.text, at);
            return;
        }
        let mut names: Vec<&str> = Vec::new();
        for child in old.iter().chain(&new) {
            if !names.contains(&child.name.as_str()) {
                names.push(&child.name);
            }
        }
        for name in names {
            let of = |all: &[Element]| {
                all.iter().filter(|it| it.name == name).cloned().collect::<Vec<_>>()
            };
            let (was, mut is) = (of(&old), of(&new));
            if was.len() != is.len() {
                // A list, its entries and the properties may have elements that are newer.
                let newer = was.is_empty()
                    && matches!(
                        kind,
                        "EnumerationResults" | "Properties" | "StorageServiceProperties"
                    );
                let level = if newer { Level::Exact } else { Level::Body };
                let (was, is) = (was.len(), is.len());
                self.note(level, format!("{at}/{name}: recorded {was} times, live {is} times"));
            } else if kind == "StorageServiceProperties" && !self.session.sections.contains(name) {
                // Set before the run began.
                continue;
            }
            if name == "QueueMessage" {
                is = self.paired(&was, is, at);
            }
            for (index, (a, b)) in zip(&was, &is).enumerate() {
                let number = if was.len() > 1 { format!("[{index}]") } else { String::new() };
                self.xml(a, b, &format!("{at}/{name}{number}"));
            }
        }
        if kind == "QueueMessage" && live.child("MessageId").is_some_and(|id| !id.is_empty()) {
            self.message_times(recorded, live, at);
        }
    }

    /// Live messages in the order of the recorded ones, by their text: those put within a second have no
    /// order of their own.
    fn paired(&mut self, recorded: &[Element], live: Vec<Element>, at: &str) -> Vec<Element> {
        let text = |message: &Element| message.child("MessageText").unwrap_or_default().to_owned();
        let texts = |all: &[Element]| all.iter().map(text).collect::<Vec<_>>();
        let (old, new) = (texts(recorded), texts(&live));
        let sorted = |texts: &[String]| {
            let mut texts = texts.to_vec();
            texts.sort();
            texts
        };
        if sorted(&old) != sorted(&new) {
            return live;
        }
        let put = |text: &String| {
            let at = old.iter().position(|it| it == text)?;
            recorded.get(at)?.child("InsertionTime")
        };
        if old.iter().map(put).ne(new.iter().map(put)) {
            self.note(
                Level::Body,
                format!("{at}: order of messages: recorded {old:?}, live {new:?}"),
            );
        }
        let mut rest = live;
        let mut paired = Vec::new();
        for wanted in &old {
            if let Some(index) = rest.iter().position(|it| text(it) == *wanted) {
                paired.push(rest.remove(index));
            }
        }
        paired
    }

    fn message_times(&mut self, recorded: &Element, live: &Element, at: &str) {
        let receipt = |message: &Element| message.child("PopReceipt").unwrap_or("-").to_owned();
        let place = recorded.child("MessageId").unwrap_or("-");
        self.session.learn(&receipt(recorded), &receipt(live), place);
        let date = |headers: &Headers| headers.get("date").cloned();
        let sides =
            [(recorded, date(&self.exchange.answer_headers)), (live, date(&self.live.headers))];
        for (later, first) in [("ExpirationTime", Some("InsertionTime")), ("TimeNextVisible", None)]
        {
            let [was, is] = sides.each_ref().map(|(message, date)| {
                let from = first.map_or(date.as_deref(), |first| message.child(first));
                span(message, later, from)
            });
            let near = match (was, is) {
                (Some(was), Some(is)) => (was - is).abs() <= 2,
                (was, is) => was == is,
            };
            if !near {
                self.note(
                    Level::Body,
                    format!("{at}/{later}: recorded {was:?} s later, live {is:?} s"),
                );
            }
        }
    }

    fn leaf(&mut self, name: &str, recorded: &str, live: &str, at: &str) {
        if matches!(name, "Message" | "message") {
            self.message(recorded, live, at);
            return;
        }
        if TIMES.contains(&name) || GIVEN.contains(&name) {
            self.given(name, recorded, live, at);
            return;
        }
        let stamp = canonical_stamp(recorded);
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
        let moved = || self.session.live(&stamp, "").unwrap_or_else(|| stamp.clone());
        let exact = name == "Reason"
            || matches!(name, "Start" | "Expiry") && canonical_stamp(live) == moved()
            || name.ends_with("Headers") && list(recorded) == list(live);
        let expected = if name == "Name" && NAME_OF_ONE.is_match(at) {
            self.session.name(recorded).to_owned()
        } else if name == "Prefix" && self.listing() && !recorded.is_empty() {
            self.session.prefixed(recorded)
        } else {
            recorded.to_owned()
        };
        if expected != live {
            let level = if exact { Level::Exact } else { Level::Body };
            self.note(level, format!("{at}: recorded {}, live {}", short(&expected), short(live)));
        }
    }

    fn given(&mut self, name: &str, recorded: &str, live: &str, at: &str) {
        let foreign = || !self.session.names.contains_key(&text::named_by(recorded));
        if name == "NextMarker" && self.listing() && foreign() {
            return;
        }
        let missing = recorded.is_empty() != live.is_empty() && name != "LastSyncTime";
        if missing || TIMES.contains(&name) && !live.is_empty() && !RFC1123.is_match(live) {
            self.note(
                Level::Body,
                format!("{at}: recorded {}, live {}", short(recorded), short(live)),
            );
        } else if !recorded.is_empty() {
            self.session.learn(recorded, live, &self.place);
            if name == "Etag" {
                self.session.learn(&format!("\"{recorded}\""), &format!("\"{live}\""), "");
            }
        }
    }
}
