//! Reads a seed from JSON. Each error names its place, as `containers.invoices.a.txt`, and no key or content.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use rowkey_wire::blob::ContentHeaders;
use rowkey_wire::blob::checksum::Checksum;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::contents::{Seed, SeedBlob, SeedEntity, SeedError};
use crate::load::metadata;
use crate::op::entity::{self, Keys, Strictness};
use crate::op::metadata::Metadata;

/// The end of the name of an annotation.
const ANNOTATION: &str = "@odata.type";

impl Seed {
    /// Reads a seed in the format for people, see [`Seed`].
    ///
    /// Blobs from files are refused, as a text has no folder: see [`read`](Self::read).
    ///
    /// ```
    /// use rowkey_emulator::Seed;
    ///
    /// let error = Seed::from_json(r#"{"tables": {"orders": [{"RowKey": "1"}]}}"#).unwrap_err();
    /// assert_eq!(error.place(), "tables.orders[0]");
    /// assert!(Seed::from_json(r#"{"queues": {"work": ["a message"]}}"#).is_ok());
    /// ```
    pub fn from_json(json: &str) -> Result<Self, SeedError> {
        parse(json, None)
    }

    /// Reads a seed from a file in the format for people, see [`Seed`]. Blobs from files are found from the folder of the
    /// file on.
    ///
    /// ```
    /// use rowkey_emulator::Seed;
    ///
    /// # let folder = std::env::temp_dir().join(format!("rowkey-seed-doc-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let file = folder.join("seed.json");
    /// std::fs::write(&file, r#"{"containers": {"invoices": {"seed": {"file": "seed.json"}}}}"#)?;
    /// assert!(Seed::read(&file).is_ok());
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read(file: impl AsRef<Path>) -> Result<Self, SeedError> {
        let file = file.as_ref();
        let json = fs::read(file).map_err(|error| {
            SeedError::new("", format!("cannot read the seed {}: {error}", file.display()))
        })?;
        let json = std::str::from_utf8(&json)
            .map_err(|_| SeedError::new("", format!("{} is not text in UTF-8", file.display())))?;
        // Editors of some systems begin a file with a byte order mark.
        let json = json.strip_prefix('\u{feff}').unwrap_or(json);
        parse(json, file.parent())
    }
}

fn parse(json: &str, folder: Option<&Path>) -> Result<Seed, SeedError> {
    let whole: &RawValue = serde_json::from_str(json)
        .map_err(|error| SeedError::new("", format!("it is not JSON: {error}")))?;
    let mut seed = Seed::new();
    for (name, value) in members("", whole)? {
        match &*name {
            "account" => seed.account = Some(text("account", value)?),
            "tables" => tables(&mut seed, value)?,
            "queues" => queues(&mut seed, value)?,
            "containers" => containers(&mut seed, value, folder)?,
            _ => {
                let what =
                    "there is no such member; known are tables, queues, containers and account";
                return Err(SeedError::new(name, what));
            }
        }
    }
    Ok(seed)
}

fn tables(seed: &mut Seed, value: &RawValue) -> Result<(), SeedError> {
    for (name, entities) in members("tables", value)? {
        let place = format!("tables.{name}");
        let mut read = Vec::new();
        for (at, value) in list(&place, entities)?.into_iter().enumerate() {
            read.push(entity(&format!("{place}[{at}]"), value)?);
        }
        seed.table(&name)?.entities.append(&mut read);
    }
    Ok(())
}

fn entity(place: &str, value: &RawValue) -> Result<SeedEntity, SeedError> {
    let names: Vec<_> = members(place, value)?.into_iter().map(|(name, _)| name).collect();
    for name in names.iter().filter(|name| name.contains('@')) {
        let property = name.strip_suffix(ANNOTATION);
        if !property.is_some_and(|property| names.iter().any(|known| known == property)) {
            let what = "there is no such member; an annotation is the name of a property and `@odata.type`";
            return Err(SeedError::new(format!("{place}.{name}"), what));
        }
    }
    let rejected = |message: Cow<'static, str>| SeedError::new(place, message);
    let generic = "it is not valid JSON of an entity: a number beyond the range of doubles, half of a surrogate pair, \
                   or a value that is a list";
    let fields = entity::fields(value.get().as_bytes()).map_err(|_| rejected(generic.into()))?;
    for field in &fields {
        if let Err(error) = field.value() {
            return Err(SeedError::new(format!("{place}.{}", field.name), error.to_string()));
        }
    }
    // The limits are those of the server that the seed is for.
    let read = entity::entity(&fields, Keys::Body, Strictness::Loose)
        .map_err(|rejection| rejected(rejection.message))?;
    let key = |key: Option<&str>, name: &str| {
        let what = format!("{name} is missing; an entity has both keys, which may be \"\"");
        key.map(str::to_owned).ok_or_else(|| SeedError::new(place, what))
    };
    let properties = read.properties.into_iter();
    Ok(SeedEntity {
        partition_key: key(read.partition_key, "PartitionKey")?,
        row_key: key(read.row_key, "RowKey")?,
        properties: properties.map(|(name, value)| (name.to_owned(), value.into_owned())).collect(),
    })
}

fn queues(seed: &mut Seed, value: &RawValue) -> Result<(), SeedError> {
    for (name, messages) in members("queues", value)? {
        let place = format!("queues.{name}");
        let messages = list(&place, messages)?.into_iter().enumerate();
        let messages: Result<_, _> =
            messages.map(|(at, value)| text(&format!("{place}[{at}]"), value)).collect();
        seed.queue(&name, messages?)?;
    }
    Ok(())
}

fn containers(seed: &mut Seed, value: &RawValue, folder: Option<&Path>) -> Result<(), SeedError> {
    for (name, blobs) in members("containers", value)? {
        let place = format!("containers.{name}");
        let mut read = Vec::new();
        for (blob_name, value) in members(&place, blobs)? {
            let place = format!("{place}.{blob_name}");
            read.push(blob(&place, blob_name, value, folder)?);
        }
        seed.container(&name, read)?;
    }
    Ok(())
}

fn blob(
    place: &str,
    name: String,
    value: &RawValue,
    folder: Option<&Path>,
) -> Result<SeedBlob, SeedError> {
    let (mut content, mut metadata) = (None, Metadata::default());
    let mut content_type = HeaderValue::from_static("application/octet-stream");
    let mut sources = 0_u32;
    for (member, value) in members(place, value)? {
        let at = format!("{place}.{member}");
        match &*member {
            "contentType" => {
                let value = metadata::utf8(&text(&at, value)?);
                content_type =
                    value.ok_or_else(|| SeedError::new(at, "it is not the value of a header"))?;
            }
            "metadata" => {
                let pairs: Result<Vec<_>, _> = members(&at, value)?
                    .into_iter()
                    .map(|(name, value)| Ok((text(&format!("{at}.{name}"), value)?, name)))
                    .collect();
                let pairs = pairs?;
                let pairs = pairs.iter().map(|(value, name)| (&**name, &**value));
                metadata = metadata::metadata(pairs, metadata::utf8)
                    .map_err(|what| SeedError::new(at, what))?;
            }
            "text" => content = Some(Bytes::from(text(&at, value)?)),
            "base64" => {
                let bytes = BASE64_STANDARD.decode(text(&at, value)?);
                let bytes = bytes.map_err(|_| SeedError::new(&*at, "it is not base64"))?;
                content = Some(bytes.into());
            }
            "file" => content = Some(file(&at, &text(&at, value)?, folder)?),
            _ => {
                let what = "there is no such member; known are text, base64, file, contentType and metadata";
                return Err(SeedError::new(at, what));
            }
        }
        sources = sources.saturating_add(u32::from(["text", "base64", "file"].contains(&&*member)));
    }
    let (1, Some(content)) = (sources, content) else {
        let what = "a blob has one of text, base64 and file";
        return Err(SeedError::new(place, what));
    };
    // As the service does when a blob is put.
    let mut checksum = Checksum::new(true, false);
    checksum.update(&content);
    let md5 = checksum.finish().0.map(Into::into);
    let headers =
        ContentHeaders { content_type: Some(content_type), md5, ..ContentHeaders::default() };
    Ok(SeedBlob { name, content, headers, metadata })
}

fn file(place: &str, path: &str, folder: Option<&Path>) -> Result<Bytes, SeedError> {
    let Some(folder) = folder else {
        let what = "a seed that is not read from a file has no folder; use text or base64";
        return Err(SeedError::new(place, what));
    };
    let path = folder.join(path);
    // A device or a pipe has no end.
    let content = match fs::metadata(&path) {
        Ok(found) if !found.is_file() => Err(io::Error::other("it is not a file")),
        _ => fs::read(&path),
    };
    content
        .map(Bytes::from)
        .map_err(|error| SeedError::new(place, format!("cannot read {}: {error}", path.display())))
}

fn text(place: &str, value: &RawValue) -> Result<String, SeedError> {
    serde_json::from_str(value.get()).map_err(|_| SeedError::new(place, "it is not text"))
}

fn list<'a>(place: &str, value: &'a RawValue) -> Result<Vec<&'a RawValue>, SeedError> {
    serde_json::from_str(value.get()).map_err(|_| SeedError::new(place, "it is not a list"))
}

/// The members of an object, in order, of which no two have one name.
fn members<'a>(place: &str, value: &'a RawValue) -> Result<Vec<(String, &'a RawValue)>, SeedError> {
    let Members(members) = serde_json::from_str(value.get())
        .map_err(|_| SeedError::new(place, "it is not an object"))?;
    let mut names = HashSet::new();
    if let Some((name, _)) = members.iter().find(|(name, _)| !names.insert(name.as_str())) {
        let dot = if place.is_empty() { "" } else { "." };
        return Err(SeedError::new(format!("{place}{dot}{name}"), "it is there twice"));
    }
    Ok(members)
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}
