//! Reads a JSON object of scalars into named fields, which are converted on demand.
//!
//! Nothing is copied from the body unless it contains escapes, and one [`Fields`] serves a whole
//! page of entities, because its list is reused. A type annotation may come before or after its
//! property.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use super::scan::{Malformed, Scanner};
use crate::edm::{Type, ValueRef};

/// The suffix of the name of an annotation: `Age@odata.type`.
const ANNOTATION: &str = "@odata.type";

/// The properties of one JSON object, in the order of the body, without its `odata.*` entries.
#[derive(Debug, Default)]
pub struct Fields<'de> {
    /// The `odata.etag` entry.
    pub etag: Option<Cow<'de, str>>,
    list: Vec<Field<'de>>,
    /// The last annotation, until its property comes, which is nearly always next.
    waiting: Option<(Cow<'de, str>, Annotation)>,
    /// Annotations that were not followed by their property.
    pending: Vec<(Cow<'de, str>, Annotation)>,
}

/// One property: its name, the annotated type if there is one, and the JSON value.
#[derive(Clone, Debug)]
pub struct Field<'de> {
    /// The property's name.
    pub name: Cow<'de, str>,
    /// The value as in JSON.
    pub scalar: Scalar<'de>,
    annotation: Annotation,
}

/// A JSON value that is not an object or a list.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar<'de> {
    /// `true`, `false`.
    Boolean(bool),
    /// A number with a point or an exponent, or too large for an integer.
    Float(f64),
    /// A number without a point.
    Integer(i64),
    /// `null`.
    Null,
    /// An object or a list, which is not a valid property.
    Structure,
    /// Text.
    Text(Cow<'de, str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Annotation {
    Known(Type),
    Missing,
    Unknown,
}

/// The reason why a field is not a value of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// The text or number is not a valid value of the annotated type.
    Malformed(Type),
    /// An object or a list.
    Structure,
    /// The annotation is not a known type.
    UnknownType,
}

impl<'de> Fields<'de> {
    /// The properties in the order of the body.
    pub fn iter(&self) -> std::slice::Iter<'_, Field<'de>> {
        self.list.iter()
    }

    /// The property with this name.
    pub fn get(&self, name: &str) -> Option<&Field<'de>> {
        self.list.iter().find(|field| field.name == name)
    }

    /// The property with this name and its index in the list. The search goes from `start` to the
    /// end and then from the beginning.
    pub fn position(&self, name: &str, start: usize) -> Option<(usize, &Field<'de>)> {
        let (before, after) = self.list.split_at(start.min(self.list.len()));
        let found = |list: &[Field<'de>]| list.iter().position(|field| field.name == name);
        let at =
            found(after).map(|at| at.saturating_add(before.len())).or_else(|| found(before))?;
        Some((at, &self.list[at]))
    }

    /// The same for the concatenation of `prefix` and `name`.
    pub fn position_after(
        &self,
        prefix: &str,
        name: &str,
        start: usize,
    ) -> Option<(usize, &Field<'de>)> {
        let (before, after) = self.list.split_at(start.min(self.list.len()));
        let is_it = |field: &Field<'de>| field.name.strip_prefix(prefix) == Some(name);
        let found = after.iter().position(is_it).map(|at| at.saturating_add(before.len()));
        let at = found.or_else(|| before.iter().position(is_it))?;
        Some((at, &self.list[at]))
    }

    /// The text of a String property; `None` if it is absent, null or of another type.
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.scalar {
            Scalar::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Reads one JSON object, replacing the current fields.
    pub fn read(&mut self, scanner: &mut Scanner<'de>) -> Result<(), Malformed> {
        self.etag = None;
        self.list.clear();
        // Enough for most entities, in one allocation.
        self.list.reserve(16);
        self.waiting = None;
        self.pending.clear();
        scanner.expect(b'{')?;
        let mut is_first = true;
        while scanner.goes_on(is_first, b'}')? {
            is_first = false;
            let name = scanner.name()?;
            // Property names contain neither a point nor `@`, so all others are annotations.
            if !name.bytes().any(|byte| byte == b'@') && !name.starts_with("odata.") {
                let scalar = scanner.scalar()?;
                self.push(name, scalar);
            } else if name == "odata.etag" {
                self.etag = Some(scanner.string()?);
            } else if let Some(property) = strip_annotation(&name) {
                let annotation = match scanner.scalar()? {
                    Scalar::Text(text) => {
                        Type::from_name(&text).map_or(Annotation::Unknown, Annotation::Known)
                    }
                    Scalar::Null => Annotation::Missing,
                    _ => Annotation::Unknown,
                };
                // Its property comes next, so no search is necessary.
                if !property.is_empty()
                    && !property.starts_with("odata.")
                    && matches!(property, Cow::Borrowed(_))
                    && scanner.takes_member(&property)
                {
                    let before = self.waiting.take();
                    self.settle(before);
                    let scalar = scanner.scalar()?;
                    self.list.push(Field { name: property, scalar, annotation });
                } else {
                    self.annotate(property, annotation);
                }
            } else {
                scanner.scalar()?;
            }
        }
        self.settle_all();
        Ok(())
    }

    /// Clears the fields for another body, keeping the allocation.
    #[must_use = "the fields themselves are gone"]
    pub fn recycle<'other>(mut self) -> Fields<'other> {
        self.list.clear();
        // The list is empty, so the compiler reuses its allocation.
        let list = self.list.into_iter().map(|_| Field::EMPTY).collect();
        Fields { list, ..Fields::default() }
    }

    fn push(&mut self, name: Cow<'de, str>, scalar: Scalar<'de>) {
        let annotation = match self.waiting.take() {
            Some((annotated, annotation)) if annotated == name => annotation,
            other => {
                self.settle(other);
                Annotation::Missing
            }
        };
        self.list.push(Field { name, scalar, annotation });
    }

    fn annotate(&mut self, name: Cow<'de, str>, annotation: Annotation) {
        let before = self.waiting.replace((name, annotation));
        self.settle(before);
    }

    /// Attaches an annotation to the property just before it, or keeps it.
    fn settle(&mut self, waiting: Option<(Cow<'de, str>, Annotation)>) {
        let Some((name, annotation)) = waiting else { return };
        match self.list.last_mut().filter(|field| field.name == name) {
            Some(field) => field.annotation = annotation,
            None => self.pending.push((name, annotation)),
        }
    }

    /// Attaches the remaining annotations to their properties in one pass. Searching for each would
    /// take quadratic time in a body of annotations only.
    fn settle_all(&mut self) {
        let last = self.waiting.take();
        self.settle(last);
        if self.pending.is_empty() {
            return;
        }
        let mut pending: HashMap<_, _> = self.pending.drain(..).collect();
        for field in self.list.iter_mut().rev() {
            if let Some(annotation) = pending.remove(&field.name) {
                field.annotation = annotation;
            }
        }
    }
}

impl<'a, 'de> IntoIterator for &'a Fields<'de> {
    type Item = &'a Field<'de>;
    type IntoIter = std::slice::Iter<'a, Field<'de>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Field<'_> {
    const EMPTY: Self =
        Self { name: Cow::Borrowed(""), scalar: Scalar::Null, annotation: Annotation::Missing };

    /// The value, with the annotated type, or otherwise the type that the service infers. `None`
    /// for null.
    pub fn value(&self) -> Result<Option<ValueRef<'_>>, FieldError> {
        let annotated = match self.annotation {
            Annotation::Known(annotated) => Some(annotated),
            Annotation::Missing => None,
            Annotation::Unknown => return Err(FieldError::UnknownType),
        };
        self.scalar.value(annotated)
    }

    /// Whether the property is null.
    pub fn is_null(&self) -> bool {
        self.scalar == Scalar::Null
    }
}

impl Scalar<'_> {
    /// The value as a property of the annotated type, or otherwise of the type that the service
    /// infers. `None` for null.
    #[inline]
    pub fn value(&self, annotated: Option<Type>) -> Result<Option<ValueRef<'_>>, FieldError> {
        Ok(Some(match self {
            Self::Null => return Ok(None),
            Self::Structure => return Err(FieldError::Structure),
            Self::Boolean(value) => match annotated {
                None | Some(Type::Boolean) => ValueRef::Boolean(*value),
                Some(other) => return Err(FieldError::Malformed(other)),
            },
            Self::Float(value) => match annotated {
                None | Some(Type::Double) => ValueRef::Double(*value),
                Some(other) => return Err(FieldError::Malformed(other)),
            },
            Self::Integer(value) => integer(*value, annotated)?,
            Self::Text(text) => {
                let annotated = annotated.unwrap_or(Type::String);
                annotated.parse(text).ok_or(FieldError::Malformed(annotated))?
            }
        }))
    }
}

fn integer(value: i64, annotated: Option<Type>) -> Result<ValueRef<'static>, FieldError> {
    #[expect(clippy::cast_precision_loss, reason = "a Double was asked for; it is the nearest")]
    let double = || ValueRef::Double(value as f64);
    match annotated {
        // A number that does not fit into an Int32 is a Double, as in Azurite. The service's
        // behaviour was not recorded.
        None => Ok(i32::try_from(value).map_or_else(|_| double(), ValueRef::Int32)),
        Some(Type::Int32) => i32::try_from(value)
            .map(ValueRef::Int32)
            .map_err(|_| FieldError::Malformed(Type::Int32)),
        Some(Type::Int64) => Ok(ValueRef::Int64(value)),
        Some(Type::Double) => Ok(double()),
        Some(other) => Err(FieldError::Malformed(other)),
    }
}

/// The property that an annotation is about. Some clients annotate annotations
/// (`Age@odata.type@odata.type`), which have no effect.
fn strip_annotation<'de>(name: &Cow<'de, str>) -> Option<Cow<'de, str>> {
    let property = match name {
        Cow::Borrowed(text) => Cow::Borrowed(text.strip_suffix(ANNOTATION)?),
        Cow::Owned(text) => Cow::Owned(text.strip_suffix(ANNOTATION)?.to_owned()),
    };
    (!property.contains('@')).then_some(property)
}

impl fmt::Display for FieldError {
    /// Does not show the value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(annotated) => write!(f, "the value is not a valid {annotated}"),
            Self::Structure => f.write_str("an object or a list cannot be a property"),
            Self::UnknownType => f.write_str("the type annotation names no EDM type"),
        }
    }
}

impl std::error::Error for FieldError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields<'_> {
        let mut fields = Fields::default();
        fields.read(&mut Scanner::new(json)).unwrap();
        fields
    }

    fn value(json: &str) -> Result<Option<ValueRef<'static>>, FieldError> {
        let json = format!("{{{json}}}");
        let fields = fields(&json);
        let value = fields.get("x").unwrap().value()?;
        Ok(value.map(|value| value.into_owned().into()))
    }

    #[test]
    fn values_have_the_type_that_the_service_gives_them() {
        // Forms of recorded entities: cosmosdb-python test_get_entity_full_metadata, sdk-go
        // TestAddAnnotatedEntity, sdk-python with redundant annotations.
        let cases = [
            (r#""x":"39""#, ValueRef::String("39".into())),
            (r#""x@odata.type":"Edm.Int64","x":"39""#, ValueRef::Int64(39)),
            (r#""x":"39","x@odata.type":"Edm.Int64""#, ValueRef::Int64(39)),
            (r#""x@odata.type":"Edm.Int64","x":"9223372036854775807""#, ValueRef::Int64(i64::MAX)),
            (r#""x":3.0"#, ValueRef::Double(3.0)),
            (r#""x":3"#, ValueRef::Int32(3)),
            (r#""x":8589934592,"x@odata.type":"Edm.Double""#, ValueRef::Double(8_589_934_592.0)),
            (r#""x@odata.type":"Edm.Double","x":"-Infinity""#, ValueRef::Double(f64::NEG_INFINITY)),
            (r#""x":1.7976931348623157E+308"#, ValueRef::Double(f64::MAX)),
            (r#""x":true"#, ValueRef::Boolean(true)),
            // azure-data-tables (Python), test_encoder.test_encoder_create_entity_raw
            (r#""x@odata.type":"Edm.Boolean","x":"False""#, ValueRef::Boolean(false)),
            // Azurite stores a Double.
            (r#""x":2147483648"#, ValueRef::Double(2_147_483_648.0)),
            (r#""x":-9223372036854775808"#, ValueRef::Double(-9_223_372_036_854_775_808.0)),
            (r#""x":18446744073709551615"#, ValueRef::Double(18_446_744_073_709_551_615.0)),
            (r#""x@odata.type":"Edm.Binary","x":"AQID""#, ValueRef::Binary(vec![1, 2, 3].into())),
            (
                r#""x@odata.type":"Edm.String","x@odata.type@odata.type":"?","x":"a""#,
                ValueRef::String("a".into()),
            ),
        ];
        for (json, expected) in cases {
            assert_eq!(value(json), Ok(Some(expected)), "{json}");
        }
        assert_eq!(value(r#""x":null"#), Ok(None));
    }

    /// A body no larger than a batch may be once kept a server busy for minutes.
    #[test]
    fn any_number_of_annotations_may_stand_apart_from_their_properties() {
        const COUNT: usize = 100_000;
        let annotations = (0..COUNT).map(|n| format!(r#""p{n}@odata.type":"Edm.Int64""#));
        let values = (0..COUNT).rev().map(|n| format!(r#""p{n}":"{n}""#));
        let strangers = (0..COUNT).map(|n| format!(r#""q{n}@odata.type":"Edm.Guid""#));
        let members: Vec<String> = annotations.chain(values).chain(strangers).collect();
        let json = format!("{{{}}}", members.join(","));
        let fields = fields(&json);
        assert_eq!(fields.iter().len(), COUNT);
        for field in &fields {
            let expected = field.name[1..].parse().unwrap();
            assert_eq!(field.value(), Ok(Some(ValueRef::Int64(expected))));
        }
    }

    #[test]
    fn wrong_values_name_the_type_and_not_the_text() {
        for (json, error) in [
            (r#""x@odata.type":"Edm.Guid","x":"secret""#, FieldError::Malformed(Type::Guid)),
            (
                r#""x@odata.type":"Edm.Int64","x":"9223372036854775808""#,
                FieldError::Malformed(Type::Int64),
            ),
            (r#""x@odata.type":"Edm.Decimal","x":"1""#, FieldError::UnknownType),
            (r#""x@odata.type":"Edm.Int32","x":4294967296"#, FieldError::Malformed(Type::Int32)),
            (r#""x@odata.type":"Edm.Boolean","x":"no""#, FieldError::Malformed(Type::Boolean)),
            (r#""x":{"a":[1]}"#, FieldError::Structure),
        ] {
            let found = value(json).unwrap_err();
            assert!(!found.to_string().contains("secret"));
            assert_eq!(found, error, "{json}");
        }
    }

    #[test]
    fn recycled_fields_keep_their_memory() {
        let text = r#"{"a":1}"#.to_owned();
        let before = fields(&text);
        let list = before.list.as_ptr() as usize;
        let after: Fields<'static> = before.recycle();
        assert!(after.list.is_empty());
        assert_eq!(after.list.as_ptr() as usize, list);
    }

    #[test]
    fn metadata_is_set_apart_and_the_order_is_kept() {
        let json = r#"{"odata.metadata":"https://a/$metadata#t/@Element","odata.etag":"W/\"datetime'x'\"","PartitionKey":"p","RowKey":"r\u00e9","b":1,"a":2}"#;
        let fields = fields(json);
        assert_eq!(fields.etag.as_deref(), Some("W/\"datetime'x'\""));
        let names: Vec<_> = fields.iter().map(|f| f.name.as_ref()).collect();
        assert_eq!(names, ["PartitionKey", "RowKey", "b", "a"]);
        assert_eq!(fields.text("RowKey"), Some("ré"));
        assert!(matches!(fields.iter().next().unwrap().scalar, Scalar::Text(Cow::Borrowed("p"))));
    }
}
