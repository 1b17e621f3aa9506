//! The output of a failed derive besides its errors: the same items, without a body.
//!
//! If a derive generated nothing, every use of the type would be an error and hide the actual mistake. So
//! this module generates all items that the program may use, as far as they can be determined from invalid
//! attributes. The program does not compile, so none of them is ever run.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Data, DeriveInput, Field, Fields, LitStr, Path, Token, Type, parenthesized,
    parse_quote,
};

use crate::model::plain;
use crate::names::constant;
use crate::types::{option_of, vec_of};

/// The attributes on the type, whether or not they are valid.
struct RawAttributes {
    krate: Path,
    partition: Option<String>,
    row: Option<String>,
    indexes: Vec<Index>,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of an attribute")]
struct Index {
    name: Option<Ident>,
    partition: Option<String>,
    row: Option<String>,
    many: bool,
    claims: bool,
    /// Whether it is a `list(..)`.
    lists: bool,
    /// Whether it is a list in blobs, whose address has no partition.
    blob: bool,
}

pub(crate) fn entity(input: &DeriveInput) -> TokenStream {
    let attributes = raw_attributes(input, "entity");
    let projection = projection_of(input, &attributes.krate);
    let entity = entity_of(input, &attributes.krate);
    let items = named_fields(input).map(|fields| items(input, &attributes, &fields));
    quote! { #projection #entity #items }
}

pub(crate) fn entity_set(input: &DeriveInput) -> TokenStream {
    let attributes = raw_attributes(input, "entity_set");
    let projection = projection_of(input, &attributes.krate);
    let entity = entity_of(input, &attributes.krate);
    quote! { #projection #entity }
}

pub(crate) fn projection(input: &DeriveInput) -> TokenStream {
    projection_of(input, &raw_attributes(input, "entity").krate)
}

pub(crate) fn property(input: &DeriveInput) -> TokenStream {
    let krate = raw_attributes(input, "property").krate;
    let ident = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #krate::Property for #ident #arguments #bounds {
            fn to_value(&self) -> ::core::result::Result<
                ::core::option::Option<#krate::edm::ValueRef<'_>>,
                #krate::entity::PropertyError,
            > {
                ::core::unreachable!()
            }

            fn from_value(
                _: #krate::edm::ValueRef<'_>,
            ) -> ::core::result::Result<Self, #krate::entity::PropertyError> {
                ::core::unreachable!()
            }
        }
    }
}

pub(crate) fn key_part(input: &DeriveInput) -> TokenStream {
    let krate = raw_attributes(input, "key_part").krate;
    let ident = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #krate::KeyPart for #ident #arguments #bounds {
            // The requirements of a template are not the mistake to report.
            const KIND: #krate::key::PartKind = #krate::key::PartKind::Failed;

            fn write(&self, _: &mut #krate::key::KeyWriter) {}

            fn read(
                _: &str,
                _: #krate::key::PartFormat,
            ) -> ::core::result::Result<Self, #krate::key::KeyReadError> {
                ::core::unreachable!()
            }
        }
    }
}

pub(crate) fn flatten(input: &DeriveInput) -> TokenStream {
    let krate = raw_attributes(input, "entity").krate;
    let ident = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #krate::Flatten for #ident #arguments #bounds {
            const NAMES: &'static [&'static str] = &[];

            fn decode(
                _: &#krate::entity::RowReader<'_>,
            ) -> ::core::result::Result<Self, #krate::DecodeError> {
                ::core::unreachable!()
            }

            fn encode(&self, _: &mut #krate::entity::RowWriter) {}
        }
    }
}

fn projection_of(input: &DeriveInput, krate: &Path) -> TokenStream {
    let ident = &input.ident;
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #krate::Projection for #ident #arguments #bounds {
            const COLUMNS: ::core::option::Option<&'static [&'static str]> =
                ::core::option::Option::None;

            fn decode(
                _: &#krate::entity::RowReader<'_>,
            ) -> ::core::result::Result<Self, #krate::DecodeError> {
                ::core::unreachable!()
            }
        }
    }
}

fn entity_of(input: &DeriveInput, krate: &Path) -> TokenStream {
    let ident = &input.ident;
    // A row template that no other type has, so that an `EntitySet` reports no conflict.
    let row = format!("\0{ident}");
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #krate::Entity for #ident #arguments #bounds {
            const ROWS: #krate::Rows = #krate::Rows::One(#row);

            fn partition_key(&self, _: &mut #krate::key::KeyWriter) {}

            fn row_key(&self, _: &mut #krate::key::KeyWriter) {}

            fn encode(&self, _: &mut #krate::entity::RowWriter) {}
        }
    }
}

/// The constructors of keys and indexes, and the columns.
fn items(input: &DeriveInput, attributes: &RawAttributes, fields: &[&Field]) -> TokenStream {
    let RawAttributes { krate, partition, row, indexes } = attributes;
    let (ident, vis) = (&input.ident, &input.vis);
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let mut seen = BTreeSet::new();
    let mut item = |name: &Ident, given: &[&Field], returns: TokenStream| {
        // A duplicate name was already reported.
        let parameters = parameters(krate, given);
        seen.insert(plain(name)).then(|| {
            quote! { #vis fn #name(#parameters) -> #returns { ::core::unreachable!() } }
        })
    };
    let partition = named_in(partition.as_deref(), fields);
    let row = named_in(row.as_deref(), fields);
    let both = distinct(&[&partition, &row]);
    let mut methods = Vec::new();
    methods.extend(item(&format_ident!("key"), &both, quote! { #krate::Key<Self> }));
    let part = quote! { #krate::Partition<Self> };
    methods.extend(item(&format_ident!("partition"), &partition, part.clone()));
    for (at, last) in row.iter().enumerate().take(row.len().saturating_sub(1)) {
        let Some(last) = &last.ident else { continue };
        let given = distinct(&[&partition, &row[..=at]]);
        methods.extend(item(&format_ident!("under_{}", last.unraw()), &given, part.clone()));
    }
    for Index { name, partition: own, row, many, claims, lists, blob } in indexes {
        let Some(name) = name else { continue };
        if *lists {
            let within = if *blob { &[] } else { &partition[..] };
            let given = distinct(&[within, &named_in(row.as_deref(), fields)]);
            methods.extend(item(name, &given, quote! { #krate::index::ListKey<Self> }));
            continue;
        }
        let scope = match own {
            _ if *claims => quote! { #krate::index::Claimed },
            Some(_) => quote! { #krate::index::OtherPartition },
            None => quote! { #krate::index::SamePartition },
        };
        let within = own.as_ref().map(|own| named_in(Some(own), fields));
        let within = within.unwrap_or_else(|| partition.clone());
        let row = named_in(row.as_deref(), fields);
        let range = quote! { #krate::index::IndexRange<Self, #scope> };
        let one = quote! { #krate::index::IndexKey<Self, #scope> };
        let given = distinct(&[&within, &row]);
        methods.extend(item(name, &given, if *many { range.clone() } else { one }));
        if *claims {
            continue;
        }
        let all = format_ident!("{}_all", name.unraw());
        methods.extend(item(&all, &within, range.clone()));
        for (at, last) in row.iter().enumerate().take(row.len().saturating_sub(1)) {
            let Some(last) = &last.ident else { continue };
            let under = format_ident!("{}_under_{}", name.unraw(), last.unraw());
            let given = distinct(&[&within, &row[..=at]]);
            methods.extend(item(&under, &given, range.clone()));
        }
    }
    let types = both.iter().map(|field| &field.ty);
    let types = if both.len() == 1 {
        quote! { #(#types)* }
    } else {
        quote! { (#(#types),*) }
    };
    let mut constants = BTreeSet::new();
    let columns = fields.iter().filter_map(|field| {
        let name = constant(&plain(field.ident.as_ref()?));
        let constant = format_ident!("{name}");
        let ty: &Type = option_of(&field.ty).unwrap_or(&field.ty);
        constants.insert(name).then(|| {
            quote! { #vis const #constant: #krate::Column<#ty> = #krate::Column::named(""); }
        })
    });
    quote! {
        #[automatically_derived]
        #[allow(dead_code, private_bounds, private_interfaces)]
        impl #generics #ident #arguments #bounds {
            #(#methods)*

            #vis fn parse_key(
                _: &str,
                _: &str,
            ) -> ::core::result::Result<#types, #krate::DecodeError> {
                ::core::unreachable!()
            }

            #(#columns)*
        }
    }
}

fn parameters(krate: &Path, fields: &[&Field]) -> TokenStream {
    let of = |ty| vec_of(ty).or_else(|| option_of(ty)).unwrap_or(ty);
    let types = fields.iter().map(|field| of(&field.ty));
    quote! { #(_: impl #krate::Arg<#types>),* }
}

/// The fields that a template names, in template order.
fn named_in<'a>(template: Option<&str>, fields: &[&'a Field]) -> Vec<&'a Field> {
    let parts = template.unwrap_or_default().split('{').skip(1);
    let names = parts.map(|part| part.split(['}', ':']).next().unwrap_or_default());
    names
        .filter_map(|name| {
            fields.iter().find(|field| field.ident.as_ref().is_some_and(|it| plain(it) == name))
        })
        .copied()
        .collect()
}

fn distinct<'a>(parts: &[&[&'a Field]]) -> Vec<&'a Field> {
    let mut all: Vec<&Field> = Vec::new();
    for field in parts.iter().flat_map(|part| part.iter()) {
        if !all.iter().any(|known| known.ident == field.ident) {
            all.push(field);
        }
    }
    all
}

fn named_fields(input: &DeriveInput) -> Option<Vec<&Field>> {
    match &input.data {
        Data::Struct(data) if matches!(data.fields, Fields::Named(_)) => {
            Some(data.fields.iter().collect())
        }
        _ => None,
    }
}

fn raw_attributes(input: &DeriveInput, namespace: &str) -> RawAttributes {
    let mut attributes = RawAttributes {
        krate: parse_quote!(::rowkey),
        partition: None,
        row: None,
        indexes: Vec::new(),
    };
    let of_namespace: Vec<&Attribute> =
        input.attrs.iter().filter(|attr| attr.path().is_ident(namespace)).collect();
    for attr in of_namespace {
        // Parsed up to the first syntax error.
        let _ = attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("crate") {
                attributes.krate =
                    meta.value()?.parse::<LitStr>()?.parse_with(Path::parse_mod_style)?;
            } else if meta.path.is_ident("partition") {
                attributes.partition = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if meta.path.is_ident("row") {
                attributes.row = Some(meta.value()?.parse::<LitStr>()?.value());
            } else if ["index", "list", "unique"].iter().any(|name| meta.path.is_ident(name)) {
                let (claims, lists) = (meta.path.is_ident("unique"), meta.path.is_ident("list"));
                let mut index = Index { claims, lists, ..Index::default() };
                let read = meta.parse_nested_meta(|meta| index.read(&meta));
                attributes.indexes.push(index);
                read?;
            } else {
                skip(&meta)?;
            }
            Ok(())
        });
    }
    attributes
}

impl Index {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if meta.path.is_ident("name") {
            self.name = Some(meta.value()?.parse()?);
        } else if meta.path.is_ident("value") && self.lists {
            self.row = Some(meta.value()?.parse::<LitStr>()?.value());
        } else if meta.path.is_ident("partition") || meta.path.is_ident("value") {
            self.partition = Some(meta.value()?.parse::<LitStr>()?.value());
        } else if meta.path.is_ident("row") {
            self.row = Some(meta.value()?.parse::<LitStr>()?.value());
        } else {
            self.many |= meta.path.is_ident("many");
            self.blob |= meta.path.is_ident("blob");
            skip(meta)?;
        }
        Ok(())
    }
}

/// Skips the value of a name that is not needed here.
pub(crate) fn skip(meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<TokenTree>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let within;
        parenthesized!(within in meta.input);
        within.parse::<TokenStream>()?;
    }
    Ok(())
}
