//! Decodes pages: entities and table names from the bodies of responses.

use rowkey_entity::internals::decode::{BodyError, text};
use rowkey_wire::odata::{Fields, Malformed, Scanner};

/// Why a page could not be read: its body, or the reader of one of its entities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageError<E> {
    /// The body is not a page.
    Body(BodyError),
    /// The reader refused an entity.
    Entity(E),
}

/// Reads a page of entities, and passes each one to `read`.
pub(crate) fn page<'de, E>(
    body: &'de [u8],
    mut read: impl FnMut(&mut Fields<'de>) -> Result<(), E>,
) -> Result<(), PageError<E>> {
    let mut page = PageReader::new(text(body).map_err(PageError::Body)?);
    let mut fields = Fields::default();
    while page.next(&mut fields).map_err(PageError::Body)? {
        read(&mut fields).map_err(PageError::Entity)?;
    }
    Ok(())
}

/// Reads a page entity by entity: an object whose `value` is the list of entities.
#[derive(Debug)]
pub(crate) struct PageReader<'de> {
    text: &'de str,
    position: Position,
}

/// The position of a reader in a page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Position {
    at: usize,
    within: Within,
    /// Whether the next member or element is the first.
    is_first: bool,
    /// Whether the list was found.
    found: bool,
}

/// The part of a page that is being read.
#[derive(Clone, Copy, Debug, Default)]
enum Within {
    #[default]
    Nothing,
    Object,
    List,
    End,
}

impl<'de> PageReader<'de> {
    /// Starts to read the body's [`text`].
    pub(crate) fn new(text: &'de str) -> Self {
        Self::resume(text, Position::default())
    }

    /// Resumes at the position of another reader of the same text.
    pub(crate) fn resume(text: &'de str, position: Position) -> Self {
        Self { text, position }
    }

    /// The position of the reader.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// Reads the next entity; `false` if there are no more and the page is complete.
    pub(crate) fn next(&mut self, fields: &mut Fields<'de>) -> Result<bool, BodyError> {
        let mut scanner = Scanner::at(self.text, self.position.at);
        let found = self.position.advance(&mut scanner, fields);
        self.position.at = scanner.place();
        match found {
            Ok(false) if !self.position.found => Err(BodyError::AT_UNKNOWN_POSITION),
            found => found.map_err(|Malformed| BodyError::at(self.text, scanner.place())),
        }
    }
}

impl Position {
    fn advance<'de>(
        &mut self,
        scanner: &mut Scanner<'de>,
        fields: &mut Fields<'de>,
    ) -> Result<bool, Malformed> {
        loop {
            match self.within {
                Within::Nothing => {
                    scanner.expect(b'{')?;
                    (self.within, self.is_first) = (Within::Object, true);
                }
                Within::Object => {
                    if !scanner.goes_on(self.is_first, b'}')? {
                        self.within = Within::End;
                    } else if scanner.name()? == "value" {
                        scanner.expect(b'[')?;
                        (self.within, self.is_first, self.found) = (Within::List, true, true);
                    } else {
                        scanner.scalar()?;
                        self.is_first = false;
                    }
                }
                Within::List => {
                    let goes_on = scanner.goes_on(self.is_first, b']')?;
                    self.is_first = false;
                    if goes_on {
                        fields.read(scanner)?;
                        return Ok(true);
                    }
                    self.within = Within::Object;
                }
                Within::End if scanner.is_at_end() => return Ok(false),
                Within::End => return Err(Malformed),
            }
        }
    }
}

/// Reads the names of a page of tables.
pub(crate) fn tables(body: &[u8]) -> Result<Vec<String>, BodyError> {
    let mut names = Vec::new();
    page(body, |fields| {
        let name = fields.text("TableName").ok_or(BodyError::AT_UNKNOWN_POSITION)?;
        names.push(name.to_owned());
        Ok(())
    })
    .map_err(|error| match error {
        PageError::Body(error) | PageError::Entity(error) => error,
    })?;
    Ok(names)
}

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
    fn a_recorded_page_decodes_in_order() {
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
        assert_eq!(seen[0].2, Some(rowkey_wire::edm::Value::Int64(39)));
        assert_eq!(seen[1].2, None);
    }

    #[test]
    fn every_truncated_page_is_an_error() {
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
    fn an_error_of_the_visitor_ends_decoding() {
        let mut count = 0;
        let result = page(PAGE.as_bytes(), |_| {
            count += 1;
            Err("no")
        });
        assert_eq!(result, Err(PageError::Entity("no")));
        assert_eq!(count, 1);
    }

    #[test]
    fn a_recorded_list_of_tables_decodes() {
        // sdk-python test_query_tables, nometadata.
        let body = br#"{"value":[{"TableName":"listtable1"},{"TableName":"listtable2"}]}"#;
        assert_eq!(tables(body).unwrap(), ["listtable1", "listtable2"]);
    }
}
