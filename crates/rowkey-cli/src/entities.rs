//! Entities as input: typed JSON on the command line, in a file or from stdin.

use std::fs;
use std::io::{self, Read as _};

use clap::Args;
use rowkey::{DynamicEntity, ETag, Match};
use rowkey_transfer::json_lines::Decoder;
use serde_json::value::RawValue;

use crate::error::{Error, Exit, Result};

/// Where entities come from.
#[derive(Args)]
pub(crate) struct Input {
    /// The entity as JSON with PartitionKey and RowKey; `@FILE` to read a file, `-` to read stdin. A file may hold several
    /// entities. A number is an Int32; other types are written as `{"Edm.Int64":"5"}`.
    #[arg(value_name = "ENTITY")]
    entity: String,
}

/// The keys of one entity.
#[derive(Args)]
pub(crate) struct Keys {
    /// The PartitionKey. A key that begins with a hyphen stands after `--`.
    #[arg(value_name = "PARTITION_KEY")]
    pub(crate) partition_key: String,
    /// The RowKey.
    #[arg(value_name = "ROW_KEY")]
    pub(crate) row_key: String,
}

impl Keys {
    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.partition_key, &self.row_key)
    }
}

/// The condition of a write: an ETag as `rowkey get --etag` shows it, or `*` for any.
pub(crate) fn condition(text: &str) -> Match {
    if text == "*" { Match::Any } else { Match::ETag(ETag::new(text)) }
}

impl Input {
    /// Reads all entities, so that none is written if one of them is wrong.
    pub(crate) fn read(&self) -> Result<Vec<DynamicEntity>> {
        let text = match self.entity.strip_prefix('@') {
            Some(path) => fs::read_to_string(path).map_err(|error| {
                Error::new(Exit::Failed, format!("{path} cannot be read: {error}"))
            })?,
            None if self.entity == "-" => {
                let mut text = String::new();
                io::stdin().read_to_string(&mut text)?;
                text
            }
            None => self.entity.clone(),
        };
        parse(&text)
    }
}

/// Parses objects one after the other, on one line or on several.
fn parse(text: &str) -> Result<Vec<DynamicEntity>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entities = Vec::new();
    for object in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
        let number = entities.len() + 1;
        // The message of serde_json may quote the input, so only the place is shown.
        let object = object.map_err(|error| {
            Error::usage(format!(
                "entity {number} is not JSON at line {}, column {}; correct it",
                error.line(),
                error.column()
            ))
        })?;
        // In valid JSON, line breaks stand between values alone, and the decoder reads one line.
        let line = object.get().replace(['\n', '\r'], " ");
        let row = Decoder::new(line.as_bytes()).next();
        let row = row.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()));
        let row = row.map_err(|error| {
            let error = error.to_string();
            let what = error.strip_prefix("line 1: ").unwrap_or(&error);
            Error::usage(format!("entity {number}: {what}"))
        })?;
        entities.push(row.entity);
    }
    if entities.is_empty() {
        return Err(Error::usage(
            "the input has no entity; write it as {\"PartitionKey\":\"..\",\"RowKey\":\"..\"}",
        ));
    }
    Ok(entities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_may_stand_on_one_line_or_on_several() {
        let text = "\u{feff}{\"PartitionKey\":\"p\",\r\n \"RowKey\":\"1\",\n\"A\":{\"Edm.Int64\":\n\"5\"}}\n\n\
                    {\"PartitionKey\":\"p\",\"RowKey\":\"2\"}{\"PartitionKey\":\"\",\"RowKey\":\"a\\nb\"}";
        let entities = parse(text).unwrap();
        assert_eq!(entities.len(), 3);
        assert_eq!(entities[0].get_as::<i64>("A").unwrap(), 5);
        assert_eq!(entities[2].row_key, "a\nb");
    }

    #[test]
    fn an_error_names_the_entity_and_does_not_quote_it() {
        let good = r#"{"PartitionKey":"p","RowKey":"r"}"#;
        for (text, expected) in [
            ("secret", "entity 2 is not JSON at line 2, column 1"),
            (r#"{"PartitionKey":"secret""#, "entity 2 is not JSON at line 2"),
            (r#"{"PartitionKey":"secret"}"#, "entity 2: RowKey"),
            (
                r#"{"PartitionKey":"p","RowKey":"r","A":{"Edm.Guid":"secret"}}"#,
                "entity 2: property `A`",
            ),
            (r#"{"PartitionKey":"p","RowKey":"r","A":1,"A":2}"#, "entity 2: property `A`"),
        ] {
            let error = parse(&format!("{good}\n{text}")).unwrap_err();
            assert_eq!(error.exit(), Exit::Usage);
            assert!(error.to_string().starts_with(expected), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        assert!(parse(" \n").unwrap_err().to_string().starts_with("the input has no entity"));
    }

    #[test]
    fn an_asterisk_is_any_etag() {
        assert_eq!(condition("*"), Match::Any);
        assert_eq!(condition("W/\"1\"").as_str(), "W/\"1\"");
    }
}
