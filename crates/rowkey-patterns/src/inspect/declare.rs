//! Generates the Rust source of a struct that reads the inspected rows.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use rowkey_client::edm::Type;

use super::{Column, Inspection, counts};

/// Keywords, which cannot be used as field names unchanged.
const KEYWORDS: [&str; 22] = [
    "as", "async", "box", "break", "const", "do", "enum", "fn", "for", "if", "impl", "in", "loop",
    "match", "mod", "move", "mut", "priv", "ref", "type", "use", "where",
];

pub(super) fn declaration(found: &Inspection, name: &str) -> String {
    let mut taken = BTreeSet::new();
    let [partition, row] = [("partition", 0), ("row", 1)].map(|(name, key)| {
        let (template, fields) = found.shapes[key].shape().template(name);
        taken.extend(fields.iter().map(|(name, _)| name.clone()));
        (template, fields)
    });
    let fields: Vec<_> = found
        .columns
        .iter()
        .map(|(name, column)| (field(&snake(name), &mut taken), name, column))
        .collect();
    let pascal =
        !fields.is_empty() && fields.iter().all(|(field, name, _)| pascal(field) == **name);

    let mut out = String::new();
    let _ = writeln!(out, "// PartitionKey: {}", counts(&found.partition_keys));
    let _ = writeln!(out, "// RowKey: {}", counts(&found.row_keys));
    let case = if pascal { ", rename_all = \"PascalCase\"" } else { "" };
    let _ = writeln!(out, "#[derive(Clone, Debug, PartialEq, rowkey::Entity)]");
    let keys = [format!("partition = {:?}", partition.0), format!("row = {:?}{case}", row.0)];
    let line = format!("#[entity({})]", keys.join(", "));
    // The line break that rustfmt would insert.
    let line = if line.len() > 100 {
        format!("#[entity(\n    {}\n)]", keys.join(",\n    "))
    } else {
        line
    };
    let _ = writeln!(out, "{line}");
    let profile = Profile::of(found);
    if let Some(profile) = profile {
        let _ = writeln!(out, "#[entity(compat = {:?})]", profile.name());
    }
    let _ = writeln!(out, "pub struct {name} {{");
    for (field, rust) in partition.1.iter().chain(&row.1) {
        let _ = writeln!(out, "    pub {field}: {rust},");
    }
    for (field, name, column) in &fields {
        if column.types.len() > 1 {
            let _ = writeln!(out, "    // {}", counts(&column.types));
        }
        let (rust, stored) = rust(column, profile);
        let rename = !pascal && field.trim_start_matches("r#") != *name;
        let attributes = [
            rename.then(|| format!("rename = {name:?}")),
            stored.map(|stored| format!("as = {stored:?}")),
        ];
        let attributes: Vec<_> = attributes.into_iter().flatten().collect();
        if !attributes.is_empty() {
            let _ = writeln!(out, "    #[entity({})]", attributes.join(", "));
        }
        let optional = column.present < found.rows;
        let rust = if optional { format!("Option<{rust}>") } else { rust.to_owned() };
        let _ = writeln!(out, "    pub {field}: {rust},");
    }
    out.push_str("}\n");
    out
}

/// The library that wrote the rows, if their types reveal it.
#[derive(Clone, Copy, PartialEq)]
enum Profile {
    AzureDataTables,
    JavaScript,
}

impl Profile {
    fn of(found: &Inspection) -> Option<Self> {
        let columns = || found.columns.values();
        let typed = [Type::Int64, Type::DateTime, Type::Guid];
        let is_typed = columns().any(|column| typed.iter().any(|edm| column.has(*edm)));
        let is_mixed = |column: &Column| column.has(Type::Int32) && column.has(Type::Double);
        match () {
            // Dates and GUIDs are text, and no type needs an annotation.
            () if !is_typed && columns().any(|column| column.text().is_some()) => {
                Some(Self::AzureDataTables)
            }
            // A number is an Int32 if it is whole, beside fractions or beside annotated types.
            () if columns().any(|column| is_mixed(column) && (is_typed || column.has_parts)) => {
                Some(Self::JavaScript)
            }
            () => None,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::AzureDataTables => "azure_data_tables-0.21",
            Self::JavaScript => "javascript",
        }
    }
}

impl Column {
    /// The type of its values, if all are text in the format of one type.
    fn text(&self) -> Option<&'static str> {
        match self.present {
            0 => None,
            all if self.dates == all => Some("rowkey::edm::DateTime"),
            all if self.guids == all => Some("rowkey::edm::Guid"),
            _ => None,
        }
    }
}

/// The type that reads every value of a column, and its stored type if that is not the profile's default.
fn rust(column: &Column, profile: Option<Profile>) -> (&'static str, Option<&'static str>) {
    let numbers = [Type::Int32, Type::Int64, Type::Double];
    let are_numbers = numbers.iter().filter(|edm| column.has(**edm)).count() == column.types.len();
    if are_numbers {
        return match () {
            () if column.has(Type::Double) && (column.fractions || column.types.len() == 1) => {
                ("f64", None)
            }
            () if column.has(Type::Int64) => ("i64", profile.map(|_| "Int64")),
            // Integers, some of them too large for an Int32, from a library without Int64.
            () if column.has(Type::Double) => ("i64", Some("Double")),
            // The profile stores it as an Int32, and later values may be larger.
            () if profile.is_some() => ("i64", None),
            () => ("i32", None),
        };
    }
    let rust = match () {
        () if column.types.len() > 1 => "rowkey::edm::Value",
        () if column.has(Type::Boolean) => "bool",
        () if column.has(Type::Binary) => "Vec<u8>",
        () if column.has(Type::DateTime) => "rowkey::edm::DateTime",
        () if column.has(Type::Guid) => "rowkey::edm::Guid",
        () => match column.text() {
            Some(rust) if profile == Some(Profile::AzureDataTables) => rust,
            Some(rust) => return (rust, Some("String")),
            None => "String",
        },
    };
    (rust, None)
}

/// A field name derived from a text in `snake_case`, different from all other field names.
fn field(snake: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = if KEYWORDS.contains(&snake) {
        format!("r#{snake}")
    } else if snake.starts_with(|first: char| first.is_ascii_digit()) || snake == "self" {
        format!("n{snake}")
    } else {
        snake.to_owned()
    };
    for n in 2.. {
        if taken.insert(name.clone()) {
            break;
        }
        name = format!("{snake}_{n}");
    }
    name
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_uppercase() && !before.is_uppercase() && before != '_' {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
        before = letter;
    }
    out
}

fn pascal(field: &str) -> String {
    let words = field.trim_start_matches("r#").split('_');
    words
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        })
        .collect()
}
