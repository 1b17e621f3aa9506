//! The code generated from an entity's key templates: the constructors of its keys, and the parser.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt as _;
use syn::spanned::Spanned as _;
use syn::{Path, Type};

use crate::model::{Keys, Model};
use crate::notation::Notation;
use crate::role::Role;
use crate::template::{Part, Piece};
use crate::types::{at, option_of, vec_of};

/// `key`, `partition`, `under_..` and `parse_key`.
pub(crate) fn items(model: &Model<'_>, keys: &Keys) -> TokenStream {
    let krate = &model.krate;
    let (partition, row) = (&keys.partition.pieces[..], &keys.row.pieces[..]);
    let (pk_template, rk_template) = (keys.partition.literal.value(), keys.row.literal.value());
    let constructor = |name: &Ident, doc: String, returns: TokenStream, row: &[Piece]| {
        let pieces = (partition, row);
        AddressFn { name, doc, returns, position: 0, pieces, bucket: None, next: None }.item(model)
    };
    let key = constructor(
        &format_ident!("key"),
        format!("The key of one entity: `{pk_template}`, `{rk_template}`."),
        quote! { #krate::Key<Self> },
        row,
    );
    let partition_of = quote! { #krate::Partition<Self> };
    let doc = format!("All entities of this type in the partition `{pk_template}`.");
    let whole = constructor(&format_ident!("partition"), doc, partition_of.clone(), &[]);
    let partitions = partitions(model, keys);

    let parts: Vec<&Part> = keys.row.parts().collect();
    let under = parts.iter().take(parts.len().saturating_sub(1)).map(|last| {
        // The text after the part is in all keys, so it belongs to the prefix.
        let at = |piece: &Piece| matches!(piece, Piece::Part(part) if part.index == last.index);
        let end = row.iter().position(at).map_or(0, |at| at + 2);
        let field = model.fields[last.index].ident;
        let name = format_ident!("under_{}", field.unraw(), span = field.span());
        let doc = format!(
            "The entities in the partition `{pk_template}` whose RowKey, `{rk_template}`, begins \
             with these values up to `{}`.",
            last.field
        );
        constructor(&name, doc, partition_of.clone(), &row[..end.min(row.len())])
    });
    let parse = parse_key(model, keys);
    quote! { #key #whole #partitions #(#under)* #parse }
}

/// `partitions`, if the PartitionKey has a bucket: one partition for each bucket.
fn partitions(model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
    let Model { krate, vis, .. } = model;
    let mut buckets = keys.partition.parts().filter_map(|part| Some((part.index, part.bucket?)));
    let ((of, buckets), None) = (buckets.next()?, buckets.next()) else { return None };
    let (pk, bucket) = (local_named("partition"), local_named("bucket"));
    let given = distinct(indices(&keys.partition.pieces).filter(|index| *index != of));
    let (arguments, bind) = arguments(model, given);
    let is_bucket = |piece: &Piece| matches!(piece, Piece::Part(part) if part.index == of);
    let at = keys.partition.pieces.iter().position(is_bucket)?;
    let before = write(model, &keys.partition.pieces[..at], &pk, local);
    let after = write(model, &keys.partition.pieces[at + 1..], &pk, local);
    let doc = format!(
        "The partitions `{}` of all {buckets} buckets, to read them together.",
        keys.partition.literal.value()
    );
    let all_rows = from_written(krate, 0, &pk, &quote! { #krate::key::KeyWriter::new() }, None);
    // As wide as the number of the last bucket.
    let digits = buckets.saturating_sub(1).to_string().len();
    Some(quote! {
        #[doc = #doc]
        #vis fn partitions(#arguments) -> ::std::vec::Vec<#krate::Partition<Self>> {
            #bind
            (0..#buckets)
                .map(|#bucket| {
                    let mut #pk = #krate::key::KeyWriter::new();
                    #before
                    #pk.literal(&::std::format!("{:0width$}", #bucket, width = #digits));
                    #after
                    #all_rows
                })
                .collect()
        }
    })
}

/// A constructor of an address, with a parameter for each field in its pieces.
pub(crate) struct AddressFn<'a> {
    pub(crate) name: &'a Ident,
    pub(crate) doc: String,
    pub(crate) returns: TokenStream,
    pub(crate) position: usize,
    /// Those of the PartitionKey and of the RowKey.
    pub(crate) pieces: (&'a [Piece], &'a [Piece]),
    /// Statements that write the bucket of an index, once both are written.
    pub(crate) bucket: Option<TokenStream>,
    /// The format of the part that follows the pieces.
    pub(crate) next: Option<TokenStream>,
}

impl AddressFn<'_> {
    pub(crate) fn item(self, model: &Model<'_>) -> TokenStream {
        let Self { name, doc, returns, position, pieces: (partition, row), bucket, next } = self;
        let Model { krate, vis, .. } = model;
        let (pk, rk) = (local_named("partition"), local_named("row"));
        let (arguments, bind) = arguments(model, distinct(indices(partition).chain(indices(row))));
        let write_partition = write(model, partition, &pk, local);
        let write_row = write(model, row, &rk, local);
        let made = from_written(krate, position, &pk, &rk.to_token_stream(), next);
        quote! {
            #[doc = #doc]
            #vis fn #name(#arguments) -> #returns {
                #bind
                let mut #pk = #krate::key::KeyWriter::new();
                #write_partition
                let mut #rk = #krate::key::KeyWriter::new();
                #write_row
                #bucket
                #made
            }
        }
    }
}

/// An expression for a key, a partition or a range, depending on the type that the function returns.
pub(crate) fn from_written(
    krate: &Path,
    position: usize,
    partition: &Ident,
    row: &TokenStream,
    next: Option<TokenStream>,
) -> TokenStream {
    let next = next.unwrap_or_else(|| quote! { #krate::key::PartFormat::DEFAULT });
    quote! {
        ::core::convert::From::from(#krate::key::WrittenKeys {
            position: #position,
            partition_key: #partition,
            row_key: #row,
            next: #next,
        })
    }
}

/// Statements that write `pieces` to `out`; `value` is an expression for a field.
pub(crate) fn write<T: ToTokens>(
    model: &Model<'_>,
    pieces: &[Piece],
    out: &Ident,
    value: impl Fn(usize) -> T,
) -> TokenStream {
    let pieces = pieces.iter().map(|piece| match piece {
        Piece::Literal(text) => quote! { #out.literal(#text); },
        Piece::Part(part) => {
            let span = at(model.fields[part.index].ty);
            let value = value(part.index).to_token_stream().into_iter().map(|mut token| {
                token.set_span(span.resolved_at(token.span()));
                token
            });
            let value = value.collect::<TokenStream>();
            if let Some(buckets) = part.bucket {
                quote_spanned! { span => #out.bucket(&#value, #buckets); }
            } else {
                let format = format(model, part);
                quote_spanned! { span => #out.part(&#value, #format); }
            }
        }
    });
    quote! { #(#pieces)* }
}

/// The pieces of a template as a constant expression.
pub(crate) fn template(model: &Model<'_>, pieces: &[Piece]) -> TokenStream {
    let krate = &model.krate;
    let pieces = pieces.iter().map(|piece| match piece {
        Piece::Literal(text) => quote! { #krate::key::Piece::Literal(#text) },
        Piece::Part(part) => {
            let (ty, format) = (part_type(model, part.index), format(model, part));
            quote_spanned! { at(ty) => #krate::key::Piece::part::<#ty>(#format) }
        }
    });
    quote! { &[#(#pieces),*] }
}

/// A template in a form that programs of other versions understand: each part with its field, the name of its
/// type and its format.
pub(crate) fn declared(model: &Model<'_>, pieces: &[Piece]) -> String {
    let part = |part: &Part| {
        let of = match part_type(model, part.index) {
            Type::Path(path) => path.path.segments.last().map(ToTokens::to_token_stream),
            other => Some(other.to_token_stream()),
        };
        let mut text = format!("{{{}: {}", part.field, of.unwrap_or_default());
        let words = part.format.notation.words();
        if !words.is_empty() {
            let _ = write!(text, ", {words}");
        }
        if let Some(buckets) = part.bucket {
            let _ = write!(text, ", bucket({buckets})");
        }
        text.push_str(if part.format.descending { ", desc}" } else { "}" });
        text
    };
    let piece = |piece: &Piece| match piece {
        Piece::Literal(text) => text.replace('{', "{{").replace('}', "}}"),
        Piece::Part(one) => part(one),
    };
    pieces.iter().map(piece).collect()
}

/// Checks that fail at compile time for formats that a type does not support, and for separators that its
/// text may contain.
pub(crate) fn format_checks(model: &Model<'_>, keys: &Keys) -> TokenStream {
    let krate = &model.krate;
    let parts = keys.partition.parts().chain(keys.row.parts()).chain(keys.declarations.parts());
    let checks = parts.flat_map(|part| {
        let (field, notation) = (&part.field, part.format.notation);
        let (ty, words) = (part_type(model, part.index), notation.words());
        let tokens = notation.tokens(krate);
        // Has the span of the derive, so that lints do not attribute the path to the program.
        let key_part = quote_spanned! { at(ty) => #krate::KeyPart };
        let check = move |method: TokenStream, what: String| {
            quote_spanned! { ty.span() =>
                const _: () = ::core::assert!(
                    <#ty as #key_part>::KIND.#method,
                    "{}",
                    #what
                );
            }
        };
        let notated = (notation != Notation::Standard).then(|| {
            check(
                quote! { takes(#tokens, false) },
                format!("`{{{field}:{words}}}`: {}", notation.whose()),
            )
        });
        let descending = part.format.descending.then(|| {
            let what = format!(
                "`{{{field}:desc}}`: `desc` requires a number, a bool, a date and time, or a \
                     newtype of these"
            );
            check(quote! { takes(#tokens, true) }, what)
        });
        let separator = part.separator.filter(|_| part.bucket.is_none()).map(|separator| {
            let what = format!(
                "`{{{field}}}` is followed by `{separator}`, which its text may contain; use \
                     `_`, `|`, `,` or `;` as the separator, or another format"
            );
            check(quote! { ends_at(#tokens, #separator) }, what)
        });
        notated.into_iter().chain(descending).chain(separator)
    });
    quote! { #(#checks)* }
}

/// The type that a key holds for a field: for an `Option` (allowed only in indexes and lists) its content;
/// for a `Vec` stored as JSON (allowed only in lists) one of its items.
pub(crate) fn part_type<'a>(model: &Model<'a>, index: usize) -> &'a Type {
    let ty = model.fields[index].ty;
    match model.fields[index].role {
        Role::Key => ty,
        Role::Property { json: true, .. } => vec_of(ty).unwrap_or(ty),
        _ => option_of(ty).unwrap_or(ty),
    }
}

/// The fields that are read back from the keys, in template order, each once.
pub(crate) fn parsed(keys: &Keys) -> impl Iterator<Item = usize> {
    distinct(keys.partition.values().chain(keys.row.values()).map(|part| part.index))
}

/// The local variable that holds the value of a field.
pub(crate) fn local(index: usize) -> Ident {
    format_ident!("__{index}", span = Span::mixed_site())
}

/// `()`, `a` or `(a, b)`.
pub(crate) fn tuple<T: ToTokens>(items: impl Iterator<Item = T>) -> TokenStream {
    let items: Vec<T> = items.collect();
    if let [one] = &items[..] {
        quote! { #one }
    } else {
        quote! { (#(#items),*) }
    }
}

fn parse_key(model: &Model<'_>, keys: &Keys) -> TokenStream {
    let Model { krate, vis, .. } = model;
    let (pk, rk) = (local_named("partition"), local_named("row"));
    let mut known = BTreeSet::new();
    let mut read = |pieces: &[Piece], source: &Ident, which: &str| {
        let reader = local_named("reader");
        let values = pieces.iter().filter_map(|piece| match piece {
            Piece::Part(part) if part.bucket.is_none() => Some(part.index),
            _ => None,
        });
        let new: Vec<usize> = values.filter(|index| !known.contains(index)).collect();
        let statements: Vec<_> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => quote! { #reader.literal(#text)?; },
                Piece::Part(Part { bucket: Some(buckets), .. }) => {
                    quote! { #reader.bucket(#buckets)?; }
                }
                Piece::Part(part) => {
                    let (local, format) = (local(part.index), format(model, part));
                    let ty = model.fields[part.index].ty;
                    if known.insert(part.index) {
                        quote_spanned! { at(ty) =>
                            let #local = #reader.part::<#ty>(#format)?;
                        }
                    } else {
                        quote_spanned! { at(ty) => #reader.same::<#ty>(&#local, #format)?; }
                    }
                }
            })
            .collect();
        let types = tuple(new.iter().map(|index| model.fields[*index].ty));
        let locals = tuple(new.iter().copied().map(local));
        quote! {
            let #locals = (|| -> ::core::result::Result<#types, #krate::key::KeyReadError> {
                let mut #reader = #krate::key::KeyReader::new(#source);
                #(#statements)*
                #reader.end()?;
                ::core::result::Result::Ok(#locals)
            })()
            .map_err(|error| #krate::DecodeError::key(#which, error))?;
        }
    };
    // A value in both keys is read from the key with the finer resolution.
    let [first, second] = if keys.is_finer_in_row() {
        [(&keys.row, &rk, "RowKey"), (&keys.partition, &pk, "PartitionKey")]
    } else {
        [(&keys.partition, &pk, "PartitionKey"), (&keys.row, &rk, "RowKey")]
    }
    .map(|(template, source, which)| read(&template.pieces, source, which));
    let types = tuple(parsed(keys).map(|index| model.fields[index].ty));
    let locals = tuple(parsed(keys).map(local));
    quote! {
        /// Parses a stored PartitionKey and RowKey into the values of the fields.
        #vis fn parse_key(
            #pk: &str,
            #rk: &str,
        ) -> ::core::result::Result<#types, #krate::DecodeError> {
            #first
            #second
            ::core::result::Result::Ok(#locals)
        }
    }
}

/// Parameters for these fields, and statements that bind their values.
pub(crate) fn arguments(
    model: &Model<'_>,
    fields: impl Iterator<Item = usize>,
) -> (TokenStream, TokenStream) {
    let krate = &model.krate;
    let (parameters, bind): (Vec<_>, Vec<_>) = fields
        .map(|index| {
            let (ident, ty, local) =
                (model.fields[index].ident, part_type(model, index), local(index));
            (
                quote! { #ident: impl #krate::Arg<#ty> },
                quote! { let #local: #ty = #krate::Arg::<#ty>::into_arg(#ident); },
            )
        })
        .unzip();
    (quote! { #(#parameters),* }, quote! { #(#bind)* })
}

pub(crate) fn format(model: &Model<'_>, part: &Part) -> TokenStream {
    let krate = &model.krate;
    let separator = part.separator.map_or_else(
        || quote! { ::core::option::Option::None },
        |separator| quote! { ::core::option::Option::Some(#separator) },
    );
    let (notation, descending) = (part.format.notation.tokens(krate), part.format.descending);
    quote! {
        #krate::key::PartFormat {
            notation: #notation,
            descending: #descending,
            separator: #separator,
        }
    }
}

pub(crate) fn local_named(name: &str) -> Ident {
    format_ident!("__{name}", span = Span::mixed_site())
}

pub(crate) fn indices(pieces: &[Piece]) -> impl Iterator<Item = usize> {
    pieces.iter().filter_map(|piece| match piece {
        Piece::Part(part) => Some(part.index),
        Piece::Literal(_) => None,
    })
}

pub(crate) fn distinct(indices: impl Iterator<Item = usize>) -> impl Iterator<Item = usize> {
    let mut seen = BTreeSet::new();
    indices.filter(move |index| seen.insert(*index))
}
