//! The text of a message: a stored format.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rowkey_client::telemetry::TraceParent;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::any::ANY;

/// The maximum number of characters kept of an error's text.
const MAX_ERROR: usize = 300;

/// The maximum number of failures kept; the latest are kept.
const MAX_HISTORY: usize = 16;

/// The most times that a task was redriven; rows hold no larger number.
const MAX_REDRIVEN: u32 = i32::MAX.unsigned_abs();

/// The maximum number of characters of the id of a redrive. Those of this crate are shorter.
const MAX_REDRIVE: usize = 64;

/// The content of a message.
#[derive(Clone, Debug)]
pub(crate) struct Envelope {
    /// The kind that the message names, if it was read as a task of any kind.
    kind: Option<String>,
    pub(crate) id: String,
    pub(crate) content: Content,
    /// When the task was first put, if before this message.
    pub(crate) first_seen: Option<String>,
    /// The trace in which the task was put.
    pub(crate) trace: Option<TraceParent>,
    /// The number of attempts that counted.
    pub(crate) attempts: u32,
    /// The message's dequeue count at the last attempt with a known result.
    pub(crate) receptions: u32,
    /// Whether the reception after that was an attempt during which the worker ran no other task.
    pub(crate) alone: bool,
    pub(crate) history: Vec<Failure>,
    /// How often the task was redriven, and the id of the last call that did it.
    pub(crate) redriven: u32,
    pub(crate) redrive: Option<String>,
    /// The reason to put the message aside, if that was decided.
    pub(crate) given_up: Option<GivenUp>,
    /// Fields that this version does not know, unchanged.
    others: BTreeMap<String, Box<RawValue>>,
}

/// Why a task is given up. Written into its message before it becomes a dead letter, so that it is not tried
/// again, even if a later step fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenUp {
    /// The name of a [`Cause`](crate::dead_letters::Cause).
    pub(crate) cause: String,
    pub(crate) reason: String,
}

/// The task, or its location.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Claim { name: String, sha256: String },
    Inline(Box<RawValue>),
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// When it ended: RFC 3339.
    pub at: String,
    /// The first 300 characters of the error's text.
    pub error: String,
    /// The name of its [`Cause`](crate::dead_letters::Cause); `None` if an older program wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The fields of an envelope, in the order of writing.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fields<'a> {
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(
        borrow,
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) task: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) claim: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) receptions: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) alone: Option<bool>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) first_seen: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "<[Failure]>::is_empty")]
    pub(super) history: Cow<'a, [Failure]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) redriven: Option<u32>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) redrive: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) given_up: Option<GivenUp>,
}

/// The names of these fields in JSON.
const NAMES: [&str; 14] = [
    "kind",
    "id",
    "task",
    "claim",
    "sha256",
    "traceparent",
    "attempts",
    "receptions",
    "alone",
    "firstSeen",
    "history",
    "redriven",
    "redrive",
    "givenUp",
];

/// Makes `null` a value: it can be a task.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl Envelope {
    pub(crate) fn new(id: String, content: Content) -> Self {
        Self {
            kind: None,
            id,
            content,
            first_seen: None,
            trace: None,
            attempts: 0,
            receptions: 0,
            alone: false,
            history: Vec::new(),
            redriven: 0,
            redrive: None,
            given_up: None,
            others: BTreeMap::new(),
        }
    }

    /// Reads a message, possibly written by hand: an envelope or only the task, in plain text or base64. `id`
    /// is used if the message has none. The error explains the problem without quoting the message.
    ///
    /// As a task of any kind, only a message is read that names its kind: it could not be written again without.
    pub(crate) fn read(text: &str, id: &str, kind: &str) -> Result<Self, String> {
        let decoded = plain(text)?;
        let json = decoded.as_ref();
        let is_any = kind == ANY;
        let Some(fields) = envelope(json) else {
            if is_any {
                return Err("its text names no kind of task".to_owned());
            }
            let task = RawValue::from_string(json.trim().to_owned())
                .map_err(|_| "its text is not JSON".to_owned())?;
            return Ok(Self::new(id.to_owned(), Content::Inline(task)));
        };
        if !is_any && fields.kind != kind {
            return Err(format!("its kind is not `{kind}`"));
        }
        let content = match (fields.task, fields.claim, fields.sha256) {
            (Some(task), _, _) => Content::Inline(task.to_owned()),
            (None, Some(name), Some(sha256)) => {
                Content::Claim { name: name.into_owned(), sha256: sha256.into_owned() }
            }
            _ => return Err("it names a claim without its `sha256`".to_owned()),
        };
        Ok(Self {
            kind: is_any.then(|| fields.kind.into_owned()),
            id: fields.id.map_or_else(|| id.to_owned(), Cow::into_owned),
            content,
            first_seen: fields.first_seen.map(Cow::into_owned),
            // A task with an invalid trace is processed without the trace.
            trace: fields.traceparent.and_then(|text| text.parse().ok()),
            attempts: fields.attempts.unwrap_or_default(),
            receptions: fields.receptions.unwrap_or_default(),
            alone: fields.alone.unwrap_or_default(),
            history: fields.history.into_owned(),
            redriven: fields.redriven.unwrap_or_default().min(MAX_REDRIVEN),
            redrive: fields.redrive.map(|id| id.chars().take(MAX_REDRIVE).collect()),
            given_up: fields.given_up,
            others: others(json),
        })
    }

    /// The form kept in a dead letter: without the state of the message that it came with.
    pub(crate) fn as_put_aside(&self) -> Self {
        let (receptions, alone, given_up) = (0, false, None);
        Self { receptions, alone, given_up, ..self.clone() }
    }

    /// A copy that is marked as given up.
    pub(crate) fn giving_up(&self, cause: String, reason: &str) -> Self {
        Self {
            given_up: Some(GivenUp { cause, reason: shortened(reason, MAX_ERROR) }),
            ..self.clone()
        }
    }

    /// The kind of the task, which is of this type.
    pub(crate) fn kind<'a>(&'a self, of_type: &'a str) -> &'a str {
        self.kind.as_deref().unwrap_or(of_type)
    }

    /// The text of a message with this content.
    pub(crate) fn text(&self, of_type: &str) -> String {
        // Strings, numbers and validated JSON: serializing them cannot fail.
        let fields = self.fields(self.kind(of_type));
        let mut text = serde_json::to_string(&fields).unwrap_or_default();
        for (name, value) in &self.others {
            text.pop();
            let name = serde_json::to_string(name).unwrap_or_default();
            text = [&*text, ",", &*name, ":", value.get(), "}"].concat();
        }
        text
    }

    fn fields<'a>(&'a self, kind: &'a str) -> Fields<'a> {
        let (task, claim, sha256) = match &self.content {
            Content::Inline(task) => (Some(&**task), None, None),
            Content::Claim { name, sha256 } => (None, Some(name), Some(sha256)),
        };
        Fields {
            kind: kind.into(),
            id: Some(self.id.as_str().into()),
            task,
            claim: claim.map(Into::into),
            sha256: sha256.map(Into::into),
            traceparent: self.trace.map(|trace| trace.to_string().into()),
            attempts: (self.attempts > 0).then_some(self.attempts),
            receptions: (self.receptions > 0).then_some(self.receptions),
            alone: self.alone.then_some(true),
            first_seen: self.first_seen.as_deref().map(Into::into),
            history: self.history.as_slice().into(),
            redriven: (self.redriven > 0).then_some(self.redriven),
            redrive: self.redrive.as_deref().map(Into::into),
            given_up: self.given_up.clone(),
        }
    }

    /// Adds a failure, and drops the oldest one if there are too many.
    pub(crate) fn failed(
        &mut self,
        at: chrono::DateTime<chrono::Utc>,
        error: &str,
        cause: Option<String>,
    ) {
        // Another program may have written more of them.
        let surplus = (self.history.len() + 1).saturating_sub(MAX_HISTORY);
        drop(self.history.drain(..surplus));
        self.history.push(Failure { at: time(at), error: shortened(error, MAX_ERROR), cause });
    }
}

/// Decodes base64 unless the message is plain JSON.
pub(super) fn plain(text: &str) -> Result<Cow<'_, str>, String> {
    if serde_json::from_str::<&RawValue>(text).is_ok() {
        return Ok(text.into());
    }
    let decoded = STANDARD.decode(text.trim_ascii()).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded {
        Some(json) if serde_json::from_str::<&RawValue>(&json).is_ok() => Ok(json.into()),
        _ => Err("its text is neither JSON nor JSON in base64".to_owned()),
    }
}

/// Parses JSON that is an envelope: it has a kind, and a task or a claim.
fn envelope(json: &str) -> Option<Fields<'_>> {
    let fields: Fields<'_> = serde_json::from_str(json).ok()?;
    (fields.task.is_some() || fields.claim.is_some()).then_some(fields)
}

/// The fields of an envelope that this version does not know. They are kept in the message.
fn others(json: &str) -> BTreeMap<String, Box<RawValue>> {
    let mut fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(json).unwrap_or_default();
    fields.retain(|name, _| !NAMES.contains(&name.as_str()));
    fields
}

/// The kind named in a message's text, for messages of any kind.
pub(crate) fn kind_of(text: &str) -> Option<String> {
    let json = plain(text).ok()?;
    envelope(&json).map(|fields| fields.kind.into_owned())
}

/// Formats a time as messages do.
pub(crate) fn time(at: chrono::DateTime<chrono::Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// The part of an error's text that is kept.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
