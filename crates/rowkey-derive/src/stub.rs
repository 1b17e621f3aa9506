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
    Attribute, Data, DeriveInput, Field, Fields, Lit, LitStr, Path, Token, Type, parenthesized,
    parse_quote,
};

use crate::declaration::Declarations;
use crate::model::plain;
use crate::names::constant;
use crate::property::implement;
use crate::types::{option_of, vec_of};

/// The attributes on the type, whether or not they are valid.
struct RawAttributes {
    krate: Path,
    partition: Option<String>,
    row: Option<String>,
    declared: Vec<Raw>,
}

/// An attribute that declares something, as it is written: `index(name = by_email, row = "..", many)`.
pub(crate) struct Raw {
    pub(crate) word: String,
    pub(crate) name: Option<Ident>,
    /// The words in its parentheses, with their texts.
    words: Vec<(String, Option<String>)>,
}

/// The fields that the constructors of a stub can take.
pub(crate) struct Stub<'a> {
    pub(crate) krate: &'a Path,
    /// Those in the PartitionKey.
    pub(crate) partition: Vec<&'a Field>,
    fields: &'a [&'a Field],
}

/// A constructor of a stub: its name, its parameters, each once, and what it returns.
pub(crate) struct Constructor<'a> {
    name: Ident,
    given: Vec<&'a Field>,
    returns: TokenStream,
}

impl<'a> Constructor<'a> {
    pub(crate) fn new(name: Ident, given: &[&[&'a Field]], returns: TokenStream) -> Self {
        Self { name, given: distinct(given), returns }
    }
}

impl<'a> Stub<'a> {
    /// The fields that a template names, in template order.
    pub(crate) fn named_in(&self, template: &str) -> Vec<&'a Field> {
        named_in(template, self.fields)
    }
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
    let items = quote! {
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
    };
    implement(&input.ident, &input.generics, &quote! { #krate::Property }, &items)
}

pub(crate) fn key_part(input: &DeriveInput) -> TokenStream {
    let krate = raw_attributes(input, "key_part").krate;
    let items = quote! {
        // The requirements of a template are not the mistake to report.
        const KIND: #krate::key::PartKind = #krate::key::PartKind::Failed;

        fn write(&self, _: &mut #krate::key::KeyWriter) {}

        fn read(
            _: &str,
            _: #krate::key::PartFormat,
        ) -> ::core::result::Result<Self, #krate::key::KeyReadError> {
            ::core::unreachable!()
        }
    };
    implement(&input.ident, &input.generics, &quote! { #krate::KeyPart }, &items)
}

pub(crate) fn flatten(input: &DeriveInput) -> TokenStream {
    let krate = raw_attributes(input, "entity").krate;
    let items = quote! {
        const NAMES: &'static [&'static str] = &[];

        fn decode(
            _: &#krate::entity::RowReader<'_>,
        ) -> ::core::result::Result<Self, #krate::DecodeError> {
            ::core::unreachable!()
        }

        fn encode(&self, _: &mut #krate::entity::RowWriter) {}
    };
    implement(&input.ident, &input.generics, &quote! { #krate::Flatten }, &items)
}

fn projection_of(input: &DeriveInput, krate: &Path) -> TokenStream {
    let items = quote! {
        const COLUMNS: ::core::option::Option<&'static [&'static str]> =
            ::core::option::Option::None;

        fn decode(
            _: &#krate::entity::RowReader<'_>,
        ) -> ::core::result::Result<Self, #krate::DecodeError> {
            ::core::unreachable!()
        }
    };
    implement(&input.ident, &input.generics, &quote! { #krate::Projection }, &items)
}

fn entity_of(input: &DeriveInput, krate: &Path) -> TokenStream {
    let ident = &input.ident;
    // A row template that no other type has, so that an `EntitySet` reports no conflict.
    let row = format!("\0{ident}");
    let items = quote! {
        const ROWS: #krate::Rows = #krate::Rows::One(#row);

        fn partition_key(&self, _: &mut #krate::key::KeyWriter) {}

        fn row_key(&self, _: &mut #krate::key::KeyWriter) {}

        fn encode(&self, _: &mut #krate::entity::RowWriter) {}
    };
    implement(&input.ident, &input.generics, &quote! { #krate::Entity }, &items)
}

/// The constructors of keys and indexes, and the columns.
fn items(input: &DeriveInput, attributes: &RawAttributes, fields: &[&Field]) -> TokenStream {
    let RawAttributes { krate, partition, row, declared } = attributes;
    let (ident, vis) = (&input.ident, &input.vis);
    let (generics, arguments, bounds) = input.generics.split_for_impl();
    let partition = named_in(partition.as_deref().unwrap_or_default(), fields);
    let row = named_in(row.as_deref().unwrap_or_default(), fields);
    let both = distinct(&[&partition, &row]);
    let part = quote! { #krate::Partition<Self> };
    let key = Constructor::new(format_ident!("key"), &[&both], quote! { #krate::Key<Self> });
    let whole = Constructor::new(format_ident!("partition"), &[&partition], part.clone());
    let mut constructors = vec![key, whole];
    for (at, last) in row.iter().enumerate().take(row.len().saturating_sub(1)) {
        let Some(last) = &last.ident else { continue };
        let name = format_ident!("under_{}", last.unraw());
        constructors.push(Constructor::new(name, &[&partition, &row[..=at]], part.clone()));
    }
    let stub = Stub { krate, partition, fields };
    constructors.extend(declared.iter().flat_map(|written| Declarations::stub(written, &stub)));
    let mut seen = BTreeSet::new();
    let methods = constructors.iter().filter_map(|Constructor { name, given, returns }| {
        // A duplicate name was already reported.
        let parameters = parameters(krate, given);
        seen.insert(plain(name)).then(|| {
            quote! { #vis fn #name(#parameters) -> #returns { ::core::unreachable!() } }
        })
    });
    let methods: Vec<_> = methods.collect();
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
fn named_in<'a>(template: &str, fields: &[&'a Field]) -> Vec<&'a Field> {
    let parts = template.split('{').skip(1);
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
        declared: Vec::new(),
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
            } else if let Some(word) = meta.path.get_ident().map(ToString::to_string)
                && Declarations::is_repeated(&word)
            {
                let mut raw = Raw { word, name: None, words: Vec::new() };
                let read = meta.parse_nested_meta(|meta| raw.read(&meta));
                attributes.declared.push(raw);
                read?;
            } else {
                skip(&meta)?;
            }
            Ok(())
        });
    }
    attributes
}

impl Raw {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        if meta.path.is_ident("name") {
            self.name = Some(meta.value()?.parse()?);
            return Ok(());
        }
        let word = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let is_text =
            |meta: &ParseNestedMeta<'_>| meta.input.peek(Token![=]) && meta.input.peek2(Lit);
        let text = if is_text(meta) {
            match meta.value()?.parse::<Lit>()? {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            }
        } else {
            skip(meta)?;
            None
        };
        self.words.push((word, text));
        Ok(())
    }

    /// Whether the word is in the parentheses.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.iter().any(|(own, _)| own == word)
    }

    /// The text of this word.
    pub(crate) fn text(&self, word: &str) -> Option<&str> {
        self.words.iter().find(|(own, _)| own == word)?.1.as_deref()
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
