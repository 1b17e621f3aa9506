//! Entities and tables out of response bodies: the client's half.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::fields::Fields;

/// A response body that is not what it should be. Never shows the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyError {
    /// The line in the body, from 1; 0 when there is none to tell.
    pub line: usize,
    /// The column in that line, from 1; 0 when there is none to tell.
    pub column: usize,
    /// The body ends too early.
    pub truncated: bool,
}

/// Why a page could not be read: its body, or the reader of one of its entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageError<E> {
    /// The body is not a page.
    Body(BodyError),
    /// The reader refused an entity.
    Entity(E),
}

/// Reads the body of a point get or of an insert that answers with content.
pub fn entity<'de>(body: &'de [u8], fields: &mut Fields<'de>) -> Result<(), BodyError> {
    let mut deserializer = serde_json::Deserializer::from_str(text(body)?);
    fields.read(&mut deserializer)?;
    Ok(deserializer.end()?)
}

/// Reads a page of entities, giving each to `read` in turn.
pub fn page<'de, E>(
    body: &'de [u8],
    mut read: impl FnMut(&mut Fields<'de>) -> Result<(), E>,
) -> Result<(), PageError<E>> {
    let text = text(body).map_err(PageError::Body)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut refused = None;
    let mut fields = Fields::default();
    let mut found = false;
    let page =
        Page { fields: &mut fields, read: &mut read, refused: &mut refused, found: &mut found };
    let result = deserializer.deserialize_map(page).and_then(|()| deserializer.end());
    if let Some(error) = refused {
        return Err(PageError::Entity(error));
    }
    result.map_err(|error| PageError::Body(error.into()))?;
    if found { Ok(()) } else { Err(PageError::Body(BodyError::WITHOUT_PLACE)) }
}

/// Reads the names of a page of tables.
pub fn tables(body: &[u8]) -> Result<Vec<String>, BodyError> {
    let mut names = Vec::new();
    page(body, |fields| {
        let name = fields.text("TableName").ok_or(BodyError::WITHOUT_PLACE)?;
        names.push(name.to_owned());
        Ok(())
    })
    .map_err(|error| match error {
        PageError::Body(error) | PageError::Entity(error) => error,
    })?;
    Ok(names)
}

/// A page: an object whose `value` is the list of entities.
struct Page<'a, 'de, E, F> {
    fields: &'a mut Fields<'de>,
    read: &'a mut F,
    refused: &'a mut Option<E>,
    found: &'a mut bool,
}

impl<'de, E, F: FnMut(&mut Fields<'de>) -> Result<(), E>> Visitor<'de> for Page<'_, 'de, E, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a page of entities")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { fields, read, refused, found } = self;
        while let Some(is_value) = map.next_key_seed(IsValue)? {
            if is_value {
                *found = true;
                let list = List(Page {
                    fields: &mut *fields,
                    read: &mut *read,
                    refused: &mut *refused,
                    found,
                });
                map.next_value_seed(list)?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

struct List<'a, 'de, E, F>(Page<'a, 'de, E, F>);

impl<'de, E, F: FnMut(&mut Fields<'de>) -> Result<(), E>> DeserializeSeed<'de>
    for List<'_, 'de, E, F>
{
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, E, F: FnMut(&mut Fields<'de>) -> Result<(), E>> Visitor<'de> for List<'_, 'de, E, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entities")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Page { fields, read, refused, .. } = self.0;
        while list.next_element_seed(One(fields))?.is_some() {
            if let Err(error) = read(fields) {
                *refused = Some(error);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

struct One<'a, 'de>(&'a mut Fields<'de>);

impl<'de> DeserializeSeed<'de> for One<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.read(deserializer)
    }
}

/// Whether a key of the page is `value`.
struct IsValue;

impl<'de> DeserializeSeed<'de> for IsValue {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsValue {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == "value")
    }
}

/// The body as text. Checked at once, which is several times faster than text by text.
fn text(body: &[u8]) -> Result<&str, BodyError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    std::str::from_utf8(body).map_err(|error| BodyError {
        truncated: error.error_len().is_none(),
        ..BodyError::WITHOUT_PLACE
    })
}

impl BodyError {
    const WITHOUT_PLACE: Self = Self { line: 0, column: 0, truncated: false };
}

impl From<serde_json::Error> for BodyError {
    /// Keeps the place and drops the text, which may show contents.
    fn from(error: serde_json::Error) -> Self {
        Self { line: error.line(), column: error.column(), truncated: error.is_eof() }
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { truncated: true, .. } => f.write_str("the answer's body is cut off"),
            Self { line: 0, .. } => f.write_str("the answer's JSON lacks what it should have"),
            Self { line, column, .. } => write!(
                f,
                "the answer's body is not the JSON it should be (line {line}, column {column})"
            ),
        }
    }
}

impl std::error::Error for BodyError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recorded page (cosmosdb-python `test_query_entities`, minimal metadata), shortened.
    const PAGE: &str = concat!(
        r#"{"odata.metadata":"https://a.table.core.windows.net/$metadata#t","value":["#,
        r#"{"odata.etag":"W/\"datetime'2017-11-10T02%3A44%3A04.8767474Z'\"","PartitionKey":"pk1","#,
        r#""RowKey":"rk1","Timestamp":"2017-11-10T02:44:04.8767474Z","age@odata.type":"Edm.Int64","#,
        r#""age":"39","sex":"male"},"#,
        r#"{"odata.etag":"W/\"x\"","PartitionKey":"pk2","RowKey":"rk2","xyz":null}]}"#
    );

    #[test]
    fn a_recorded_page_gives_its_entities_in_turn() {
        let mut seen = Vec::new();
        page(PAGE.as_bytes(), |fields| {
            seen.push((
                fields.text("PartitionKey").unwrap().to_owned(),
                fields.etag.clone().unwrap().into_owned(),
                fields.get("age").map(|f| f.value().unwrap().unwrap().into_owned()),
            ));
            Ok::<_, ()>(())
        })
        .unwrap();
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0].0, "pk1");
        assert_eq!(seen[0].1, "W/\"datetime'2017-11-10T02%3A44%3A04.8767474Z'\"");
        assert_eq!(seen[0].2, Some(crate::edm::Value::Int64(39)));
        assert_eq!(seen[1].2, None);
    }

    #[test]
    fn every_cut_of_a_page_is_noticed() {
        for end in 0..PAGE.len() {
            let result = page(&PAGE.as_bytes()[..end], |_| Ok::<_, ()>(()));
            assert!(matches!(result, Err(PageError::Body(e)) if e.truncated), "{end}");
        }
    }

    #[test]
    fn other_json_is_an_error_without_its_text() {
        for body in [
            "{}",
            "[]",
            "\"secret\"",
            "{\"value\":\"secret\"}",
            "{\"value\":[1]}",
            "{\"value\":[]}x",
        ] {
            let error = page(body.as_bytes(), |_| Ok::<_, ()>(())).unwrap_err();
            assert!(!format!("{error:?}").contains("secret"));
            assert!(matches!(error, PageError::Body(e) if !e.truncated), "{body}");
        }
    }

    #[test]
    fn a_readers_refusal_ends_the_page() {
        let mut count = 0;
        let result = page(PAGE.as_bytes(), |_| {
            count += 1;
            Err("no")
        });
        assert_eq!(result, Err(PageError::Entity("no")));
        assert_eq!(count, 1);
    }

    #[test]
    fn names_of_tables_are_read_from_a_recorded_listing() {
        // sdk-python test_query_tables, nometadata.
        let body = br#"{"value":[{"TableName":"listtable1"},{"TableName":"listtable2"}]}"#;
        assert_eq!(tables(body).unwrap(), ["listtable1", "listtable2"]);
    }
}
