//! The attributes `index(..)` and `unique(..)` as they are written.

use proc_macro2::Ident;
use syn::meta::ParseNestedMeta;
use syn::{LitInt, LitStr, Path, Result};

use super::{INDEX, UNIQUE};
use crate::attrs::{nested, value};
use crate::declaration::rows::{check_table, table_name};

/// `index(name = by_email, row = "email_{email:lower}", ..)`.
pub(super) struct Written {
    pub(super) name: Ident,
    pub(super) partition: Option<LitStr>,
    /// The table of its rows; `None` for the table of the entities.
    pub(super) table: Option<LitStr>,
    pub(super) row: LitStr,
    pub(super) many: bool,
    /// Whether it is a `unique(..)`, whose rows only claim the value in `partition`.
    pub(super) claims: bool,
    /// The number of partitions over which the claims of a `unique(..)` are spread; `None` if each claim has its
    /// own.
    pub(super) buckets: Option<LitInt>,
    /// The fields that copies have; `None` for all.
    pub(super) copy: Option<Vec<Ident>>,
    /// A condition that the entity must meet to be in the index.
    pub(super) when: Option<Path>,
}

impl Written {
    pub(super) fn parse(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let (mut name, mut partition, mut table, mut row) = (None, None, None, None);
        let (mut many, mut copy, mut when) = (false, None, None);
        let allowed = ["copy", "many", "name", "partition", "row", "table", "when"];
        nested(meta, INDEX, &allowed, |word, meta| {
            match word {
                "copy" => {
                    let mut fields = Vec::new();
                    meta.parse_nested_meta(|meta| {
                        let field = meta.path.require_ident()?;
                        if fields.contains(field) {
                            return Err(meta.error(format!("duplicate attribute `{field}`")));
                        }
                        fields.push(field.clone());
                        Ok(())
                    })?;
                    copy = Some(fields);
                }
                "many" => many = true,
                "name" => name = Some(meta.value()?.parse::<Ident>()?),
                "partition" => partition = Some(value(meta)?),
                "row" => row = Some(value(meta)?),
                "table" => table = Some(table_name(meta)?),
                _ => when = Some(value(meta)?.parse_with(Path::parse_mod_style)?),
            }
            Ok(())
        })?;
        let (Some(name), Some(row)) = (name, row) else {
            return Err(meta.error(
                "an index requires a name and a template: index(name = by_email, row = \
                 \"email_{email}\")",
            ));
        };
        check_table(partition.as_ref(), table.as_ref())?;
        Ok(Self { name, partition, table, row, many, claims: false, buckets: None, copy, when })
    }

    /// `unique(name = by_number, value = "{number}", buckets = 16)`: its rows are in partitions named after the
    /// value, or after its bucket.
    pub(super) fn parse_unique(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let (mut name, mut template, mut buckets, mut when) = (None, None, None, None);
        nested(meta, UNIQUE, &["buckets", "name", "value", "when"], |word, meta| {
            match word {
                "buckets" => buckets = Some(meta.value()?.parse::<LitInt>()?),
                "name" => name = Some(meta.value()?.parse::<Ident>()?),
                "value" => template = Some(value(meta)?),
                _ => when = Some(value(meta)?.parse_with(Path::parse_mod_style)?),
            }
            Ok(())
        })?;
        let (Some(name), Some(template)) = (name, template) else {
            return Err(meta.error(
                "a unique value requires a name and a template: unique(name = by_number, value = \
                 \"{number}\")",
            ));
        };
        let (span, copy) = (template.span(), Some(Vec::new()));
        let (partition, row) = if buckets.is_some() {
            (LitStr::new("", span), LitStr::new(&format!("claim_{}", template.value()), span))
        } else {
            (template, LitStr::new("claim", span))
        };
        let (partition, table) = (Some(partition), None);
        Ok(Self { name, partition, table, row, many: false, claims: true, buckets, copy, when })
    }
}
