//! The text of a message: a stored format, so readers come first.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// How much of an error's text is kept.
const MAX_ERROR: usize = 300;

/// How many failures are kept: the latest.
const MAX_HISTORY: usize = 16;

/// What a message holds.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) id: String,
    pub(crate) content: Content,
    /// When the task was first put, if not with this message.
    pub(crate) first_seen: Option<String>,
    /// How many attempts were counted.
    pub(crate) attempts: u32,
    /// How often the message had been received when an attempt last had a known end.
    pub(crate) receptions: u32,
    /// Whether the reception after that was an attempt that no other task took part in.
    pub(crate) alone: bool,
    pub(crate) history: Vec<Failure>,
}

/// The task itself, or where it is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Claim { name: String, sha256: String },
    Inline(Box<RawValue>),
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// RFC 3339.
    pub(crate) at: String,
    pub(crate) error: String,
}

/// The fields of an envelope, in the order in which they are written.
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
    pub(super) text: Option<Cow<'a, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<Cow<'a, str>>,
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
}

impl<'a> Fields<'a> {
    /// No more than a kind.
    pub(super) fn of_kind(kind: &'a str) -> Self {
        Self {
            kind: kind.into(),
            id: None,
            task: None,
            claim: None,
            sha256: None,
            text: None,
            reason: None,
            attempts: None,
            receptions: None,
            alone: None,
            first_seen: None,
            history: Vec::new().into(),
        }
    }
}

/// `null` is a task, too.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

impl Letter {
    pub(crate) fn new(id: String, content: Content) -> Self {
        Self {
            id,
            content,
            first_seen: None,
            attempts: 0,
            receptions: 0,
            alone: false,
            history: Vec::new(),
        }
    }

    /// Reads a message that may have been written by hand: an envelope or the task alone, as it is
    /// or in base64. `id` is used when it names none. The error says what is wrong, and quotes
    /// nothing.
    pub(crate) fn read(text: &str, id: &str, kind: &str) -> Result<Self, String> {
        let decoded = plain(text)?;
        let json = decoded.as_ref();
        let Some(fields) = envelope(json) else {
            let task = RawValue::from_string(json.trim().to_owned())
                .map_err(|_| "its text is not JSON".to_owned())?;
            return Ok(Self::new(id.to_owned(), Content::Inline(task)));
        };
        if fields.kind != kind {
            return Err(format!("it is of another kind than `{kind}`"));
        }
        let content = match (fields.task, fields.claim, fields.sha256) {
            (Some(task), _, _) => Content::Inline(task.to_owned()),
            (None, Some(name), Some(sha256)) => {
                Content::Claim { name: name.into_owned(), sha256: sha256.into_owned() }
            }
            _ => return Err("it names a claim without its `sha256`".to_owned()),
        };
        Ok(Self {
            id: fields.id.map_or_else(|| id.to_owned(), Cow::into_owned),
            content,
            first_seen: fields.first_seen.map(Cow::into_owned),
            attempts: fields.attempts.unwrap_or_default(),
            receptions: fields.receptions.unwrap_or_default(),
            alone: fields.alone.unwrap_or_default(),
            history: fields.history.into_owned(),
        })
    }

    /// The text of a message that holds this.
    pub(crate) fn text(&self, kind: &str) -> String {
        json(&self.fields(kind))
    }

    pub(super) fn fields<'a>(&'a self, kind: &'a str) -> Fields<'a> {
        let (task, claim, sha256) = match &self.content {
            Content::Inline(task) => (Some(&**task), None, None),
            Content::Claim { name, sha256 } => (None, Some(name), Some(sha256)),
        };
        Fields {
            id: Some(self.id.as_str().into()),
            task,
            claim: claim.map(Into::into),
            sha256: sha256.map(Into::into),
            attempts: (self.attempts > 0).then_some(self.attempts),
            receptions: (self.receptions > 0).then_some(self.receptions),
            alone: self.alone.then_some(true),
            first_seen: self.first_seen.as_deref().map(Into::into),
            history: self.history.as_slice().into(),
            ..Fields::of_kind(kind)
        }
    }

    /// Adds a failure, and forgets the oldest when there are too many.
    pub(crate) fn failed(&mut self, at: chrono::DateTime<chrono::Utc>, error: &str) {
        if self.history.len() == MAX_HISTORY {
            self.history.remove(0);
        }
        self.history.push(Failure { at: time(at), error: shortened(error) });
    }
}

/// The JSON of a message that may be in base64.
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

/// The fields of JSON that is an envelope: it says its kind, and has a task or a claim.
fn envelope(json: &str) -> Option<Fields<'_>> {
    let fields: Fields<'_> = serde_json::from_str(json).ok()?;
    (fields.task.is_some() || fields.claim.is_some()).then_some(fields)
}

pub(super) fn json(fields: &Fields<'_>) -> String {
    // Texts, numbers and JSON that was checked: writing them cannot fail.
    serde_json::to_string(fields).unwrap_or_default()
}

/// As messages write times.
pub(crate) fn time(at: chrono::DateTime<chrono::Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// As much of an error's text as is kept.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_ERROR) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
