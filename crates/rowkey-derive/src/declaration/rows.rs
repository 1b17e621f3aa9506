//! What the kinds of declarations with rows of their own have in common: names, tables, and RowKeys that begin
//! differently.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Error, Ident, LitStr, Path, Result};

use crate::attrs::value;
use crate::keys::declared;
use crate::model::{Keys, Model, plain};
use crate::template::Template;

/// The rows of one declaration, as other declarations see them.
pub(crate) struct Rows {
    pub(crate) name: Ident,
    /// `None` if the rows are in the partition of their entities.
    pub(crate) partition: Option<Head>,
    /// The text that their RowKeys begin with.
    pub(crate) row_head: String,
    /// The most operations of a change of one entity, in the entity's transaction.
    pub(crate) operations: usize,
    /// Whether each of them has all properties of its entity.
    pub(crate) copies_all: bool,
}

impl Rows {
    /// Whether they are in the partition of their entities.
    pub(crate) fn is_in_partition(&self) -> bool {
        self.partition.is_none()
    }
}

/// The keys that a template can make, as far as its first text tells.
pub(crate) struct Head {
    pub(crate) text: String,
    /// Whether the text is the whole key.
    pub(crate) is_whole: bool,
}

impl Head {
    /// For a declaration without rows.
    pub(crate) fn none() -> Self {
        Self { text: String::new(), is_whole: true }
    }

    pub(crate) fn of(template: &Template) -> Self {
        let is_whole = template.parts().next().is_none();
        Self { text: template.head().to_owned(), is_whole }
    }

    /// Whether one of the keys may be `key`.
    pub(crate) fn may_be(&self, key: &str) -> bool {
        self.text == key || (!self.is_whole && key.starts_with(&*self.text))
    }
}

/// Template text that distinguishes a declaration from those of other types and names.
pub(crate) fn unambiguous(keys: &Keys, name: &Ident) -> String {
    let head = keys.row.head().replace('{', "{{").replace('}', "}}");
    format!("{head}{}_", plain(name))
}

/// Checks that a constructor may have this name beside those of other declarations.
pub(crate) fn check_name<'a>(
    model: &Model<'_>,
    name: &Ident,
    mut others: impl Iterator<Item = &'a Ident>,
) -> Result<()> {
    let text = plain(name);
    let is_taken = matches!(&*text, "key" | "partition" | "partitions" | "parse_key")
        || model.fields.iter().any(|field| text == format!("under_{}", plain(field.ident)));
    let what = if is_taken {
        "a constructor of the entity"
    } else if others.any(|other| other == name) {
        "another index or list"
    } else {
        return Ok(());
    };
    Err(Error::new(name.span(), format!("`{text}` is already {what}")))
}

/// The error of rows that cannot be told from those that begin with `other`, if they cannot.
pub(crate) fn overlap(head: &str, other: &str, whose: &str) -> Option<String> {
    (head.starts_with(other) || other.starts_with(head)).then(|| {
        format!("rows that begin with {head:?} overlap with {whose}, which begin with {other:?}")
    })
}

/// The name of a table, which the service would accept.
pub(crate) fn table_name(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let table: LitStr = value(meta)?;
    let name = table.value();
    let is_valid = (3..=63).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && !name.eq_ignore_ascii_case("tables");
    if is_valid {
        return Ok(table);
    }
    let what = "a table name has 3 to 63 letters and digits and begins with a letter";
    Err(Error::new(table.span(), what))
}

/// Checks that rows in another table have a partition there.
pub(crate) fn check_table(partition: Option<&LitStr>, table: Option<&LitStr>) -> Result<()> {
    match (partition, table) {
        (None, Some(table)) => {
            let what = "`table` requires `partition`, the partition of the rows in that table";
            Err(Error::new(table.span(), what))
        }
        _ => Ok(()),
    }
}

/// The value of the field `table` of a declaration.
pub(crate) fn declared_table(table: Option<&String>) -> TokenStream {
    let none = || quote! { ::core::option::Option::None };
    table.map_or_else(none, |table| quote! { ::core::option::Option::Some(#table) })
}

pub(crate) fn partition_text(
    model: &Model<'_>,
    template: Option<&Template>,
    table: Option<&String>,
) -> String {
    let text = template.map(|template| declared(model, &template.pieces));
    let partition = text.map(|text| format!(" partition {text}")).unwrap_or_default();
    let table = table.map(|table| format!(" table {table}")).unwrap_or_default();
    format!("{table}{partition}")
}

pub(crate) fn when_text(when: Option<&Path>) -> String {
    when.map(|when| format!(" when {}", quote! { #when })).unwrap_or_default()
}
