//! `#[derive(Entity)]` and `#[derive(Projection)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{DeriveInput, Path, Result};

use crate::attrs::{DefaultValue, System};
use crate::declaration::Declarations;
use crate::growing;
use crate::keys;
use crate::model::{Field, Keys, Model, VERSION, plain};
use crate::names::constant;
use crate::role::Role;
use crate::stored_types;
use crate::template::Template;
use crate::types::{at, option_of};

/// The maximum number of names that the service accepts in `$select`.
const MAX_SELECT: usize = 252;

pub(crate) fn entity(input: &DeriveInput) -> Result<TokenStream> {
    let (model, keys) = Model::entity(input)?;
    let projection = projection_impl(&model, Some(&keys));
    let items = keys::items(&model, &keys);
    let declared = keys.declarations.constructors(&model, &keys);
    let columns = columns(&model);
    let entity = entity_impl(&model, &keys);
    let checks = keys::format_checks(&model, &keys);
    let warnings = growing::warnings(&model, &keys);
    let inherent = inherent(&model, &quote! { #items #declared #columns });
    Ok(quote! {
        #inherent
        #projection
        #entity
        #checks
        #warnings
    })
}

pub(crate) fn projection(input: &DeriveInput) -> Result<TokenStream> {
    Ok(projection_impl(&Model::projection(input)?, None))
}

/// What a program calls on the type.
fn inherent(model: &Model<'_>, items: &TokenStream) -> TokenStream {
    let (ident, bounded) = (model.ident, model.bounded());
    let (generics, arguments, bounds) = bounded.split_for_impl();
    quote! {
        // A program rarely uses every constructor and every column, and a public struct may have private
        // fields of private types.
        #[automatically_derived]
        #[allow(dead_code, private_bounds, private_interfaces)]
        impl #generics #ident #arguments #bounds {
            #items
        }
    }
}

/// A struct whose fields are properties of the entity that contains it.
pub(crate) fn flatten(input: &DeriveInput) -> Result<TokenStream> {
    let model = Model::flatten(input)?;
    let Model { krate, ident, .. } = &model;
    let row = format_ident!("__row", span = Span::mixed_site());
    let out = format_ident!("__out", span = Span::mixed_site());
    let fields = model.fields.iter().enumerate().map(|(i, field)| {
        let (name, value) = (field.ident, read(&model, i, field, &row));
        quote! { #name: #value }
    });
    let names = model.properties();
    let types = stored_types::constant(&model);
    let properties = model.fields.iter().filter_map(|field| write(&model, field, &out));
    let inherent = inherent(&model, &columns(&model));
    let bounded = model.bounded();
    let (generics, arguments, bounds) = bounded.split_for_impl();
    Ok(quote! {
        #inherent

        #[automatically_derived]
        impl #generics #krate::Flatten for #ident #arguments #bounds {
            const NAMES: &'static [&'static str] = &[#(#names),*];
            #types

            fn decode(
                #row: &#krate::entity::RowReader<'_>,
            ) -> ::core::result::Result<Self, #krate::DecodeError> {
                ::core::result::Result::Ok(Self { #(#fields,)* })
            }

            fn encode(&self, #out: &mut #krate::entity::RowWriter) {
                #(#properties)*
            }
        }
    })
}

fn projection_impl(model: &Model<'_>, keys: Option<&Keys>) -> TokenStream {
    let Model { krate, ident, .. } = model;
    let bounded = model.bounded();
    let (generics, arguments, bounds) = bounded.split_for_impl();
    let row = format_ident!("__row", span = Span::mixed_site());
    let (kind, version) = (kind_of(model), optional(model.version.as_ref()));
    let older = keys.and_then(|keys| keys.declarations.older());
    let of_type = match older {
        Some(from) if model.version.is_some() => quote_spanned! { at(from) =>
            if #row.of_type(#kind, #version, true)? {
                return ::core::result::Result::Ok(::core::convert::From::from(
                    <#from as #krate::Projection>::decode(#row)?,
                ));
            }
        },
        _ if model.kind.is_none() && model.version.is_none() => TokenStream::new(),
        _ => quote! { #row.of_type(#kind, #version, false)?; },
    };
    let key_fields = keys.map(|keys| {
        let pattern = keys::tuple(keys::parsed(keys).map(keys::local));
        quote! { let #pattern = Self::parse_key(#row.partition_key()?, #row.row_key()?)?; }
    });
    let fields = model.fields.iter().enumerate().map(|(i, field)| {
        let name = field.ident;
        let value = read(model, i, field, &row);
        quote! { #name: #value }
    });
    let columns = selected(model, older.is_some());
    let has_bucket =
        keys.is_some_and(|keys| keys.partition.parts().any(|part| part.bucket.is_some()));
    let decoded = if has_bucket {
        // The bucket may be computed from a property, so the key is checked after all fields are read.
        let entity = format_ident!("__entity", span = Span::mixed_site());
        quote! {
            let #entity = Self { #(#fields,)* };
            #row.in_partition_of(&#entity)?;
            ::core::result::Result::Ok(#entity)
        }
    } else {
        quote! { ::core::result::Result::Ok(Self { #(#fields,)* }) }
    };
    let declared = keys.and_then(|keys| keys.declarations.constant(model, keys));
    let types = stored_types::constant(model);
    let checks = type_checks(model);
    quote! {
        #checks

        #[automatically_derived]
        impl #generics #krate::Projection for #ident #arguments #bounds {
            const COLUMNS: ::core::option::Option<&'static [&'static str]> = #columns;
            #types
            #declared

            fn decode(
                #row: &#krate::entity::RowReader<'_>,
            ) -> ::core::result::Result<Self, #krate::DecodeError> {
                #of_type
                #key_fields
                #decoded
            }
        }
    }
}

fn entity_impl(model: &Model<'_>, keys: &Keys) -> TokenStream {
    let Model { krate, ident, .. } = model;
    let bounded = model.bounded();
    let (generics, arguments, bounds) = bounded.split_for_impl();
    let apart = names_apart(model);
    let out = format_ident!("__out", span = Span::mixed_site());
    let own = |i: usize| {
        let field = model.fields[i].ident;
        quote! { self.#field }
    };
    let partition_key = keys::write(model, &keys.partition.pieces, &out, own);
    let row_key = keys::write(model, &keys.row.pieces, &out, own);
    let rows = heads(model, &keys.row);
    let partitions = heads(model, &keys.partition);
    let row_template = keys::template(model, &keys.row.pieces);
    let discriminator = &model.discriminator;
    let kind = model.kind.as_ref().map(|kind| {
        quote! {
            const KIND: ::core::option::Option<&'static str> = ::core::option::Option::Some(#kind);
            const DISCRIMINATOR: &'static str = #discriminator;
        }
    });
    let version = model.version.map(|version| quote! { const VERSION: i32 = #version; });
    let write_type = (model.kind.is_some() || model.version.is_some()).then(|| {
        let kind = kind_of(model);
        quote! { #out.of_type(#kind, <Self as #krate::Entity>::VERSION); }
    });
    let properties = model.fields.iter().filter_map(|field| write(model, field, &out));
    let store = keys.store.then(|| quote! { const STORE: bool = true; });
    let methods = keys.declarations.methods(model, keys);
    let checks = keys.declarations.checks(model);
    quote! {
        #[automatically_derived]
        impl #generics #krate::Entity for #ident #arguments #bounds {
            const ROWS: #krate::Rows = #rows;
            const PARTITIONS: #krate::Rows = #partitions;
            const ROW_TEMPLATE: &'static [#krate::key::Piece] = #row_template;
            #kind
            #version
            #store

            fn partition_key(&self, #out: &mut #krate::key::KeyWriter) {
                #partition_key
            }

            fn row_key(&self, #out: &mut #krate::key::KeyWriter) {
                #row_key
            }

            fn encode(&self, #out: &mut #krate::entity::RowWriter) {
                #apart
                #write_type
                #(#properties)*
            }

            #methods
        }

        #checks
    }
}

/// An expression for an `Option` with the discriminator's name and the kind.
fn kind_of(model: &Model<'_>) -> TokenStream {
    let discriminator = &model.discriminator;
    optional(model.kind.as_ref().map(|kind| quote! { (#discriminator, #kind) }).as_ref())
}

/// An expression for an `Option`.
fn optional<T: ToTokens>(value: Option<&T>) -> TokenStream {
    value.map_or_else(
        || quote! { ::core::option::Option::None },
        |value| quote! { ::core::option::Option::Some(#value) },
    )
}

/// The `$select` list of a query.
fn selected(model: &Model<'_>, is_converted: bool) -> TokenStream {
    let kind = model.kind.as_ref().map(|_| &*model.discriminator);
    let names: Vec<_> = ["PartitionKey", "RowKey", "Timestamp"]
        .into_iter()
        .chain(kind)
        .chain(model.version.map(|_| VERSION))
        .chain(model.properties())
        .collect();
    // An older version may have other properties.
    let is_open = model.has_rest() || model.flattened().next().is_some();
    if names.len() > MAX_SELECT || is_converted || is_open {
        // Decoding looks up all properties by name.
        return quote! { ::core::option::Option::None };
    }
    quote! { ::core::option::Option::Some(&[#(#names),*]) }
}

/// The range of keys that a template can produce, which its leading text determines.
fn heads(model: &Model<'_>, template: &Template) -> TokenStream {
    let krate = &model.krate;
    let head = template.head();
    if template.parts().next().is_none() {
        quote! { #krate::Rows::One(#head) }
    } else if head.is_empty() {
        quote! { #krate::Rows::All }
    } else {
        quote! { #krate::Rows::Head(#head) }
    }
}

/// A constant for each property that filters can compare.
fn columns(model: &Model<'_>) -> TokenStream {
    let Model { krate, vis, .. } = model;
    let columns = model.fields.iter().filter_map(|field| {
        let Role::Property { name, json: false, blob: false, with: None, encrypt, exact, .. } =
            &field.role
        else {
            return None;
        };
        let constant = Ident::new(&constant(&plain(field.ident)), field.ident.span());
        let ty = option_of(field.ty).unwrap_or(field.ty);
        let what = if *encrypt { "for patches; it is encrypted" } else { "for filters" };
        let doc = format!("The property `{name}`, {what}.");
        let stored = stored(model, field).map(|stored| quote! { .stored_as(#stored) });
        let exact = (*exact || model.exact).then(|| quote! { .exact() });
        Some(quote! {
            #[doc = #doc]
            #vis const #constant: #krate::Column<#ty> =
                #krate::Column::named(#name) #stored #exact;
        })
    });
    quote! { #(#columns)* }
}

/// The EDM type that a field is stored as: an expression for an `Option<Type>`, evaluated at compile time.
/// `None` for the default type.
pub(crate) fn stored(model: &Model<'_>, field: &Field<'_>) -> Option<TokenStream> {
    let Model { krate, compat, .. } = model;
    // Every library stores all other fields as text or bytes.
    let Role::Property { json: false, blob: false, encrypt: false, with: None, stored, .. } =
        &field.role
    else {
        return None;
    };
    let ty = field.ty;
    match (stored, compat) {
        (Some(stored), _) => {
            Some(quote! { ::core::option::Option::Some(#krate::edm::Type::#stored) })
        }
        (None, Some(compat)) => Some(quote_spanned! { at(ty) =>
            const {
                #krate::entity::derive::Compat::#compat.stored_as(<#ty as #krate::Property>::TYPE)
            }
        }),
        (None, None) => None,
    }
}

/// Refuses `as` on a field whose values cannot be stored as that type.
fn type_checks(model: &Model<'_>) -> TokenStream {
    let krate = &model.krate;
    let checks = model.fields.iter().filter_map(|field| {
        let Role::Property { stored: Some(stored), .. } = &field.role else { return None };
        let ty = field.ty;
        let what = format!(
            "`as = \"{stored}\"` does not support the type of `{}`: numbers can be stored as \
             `Int32`, `Int64` or `Double`; integers, dates and GUIDs also as `String`",
            field.ident
        );
        Some(quote_spanned! { at(ty) =>
            const _: () = ::core::assert!(
                #krate::entity::derive::is_storable_as(
                    <#ty as #krate::Property>::TYPE,
                    #krate::edm::Type::#stored,
                ),
                #what
            );
        })
    });
    quote! { #(#checks)* }
}

/// The property names of the other fields, as lists of names, each with its prefix. No entry of a `rest`
/// field may have one of them.
fn taken(model: &Model<'_>) -> TokenStream {
    let krate = &model.krate;
    let own = own_names(model);
    let flattened = model.flattened().map(|(Field { ty, .. }, prefix)| {
        quote_spanned! { at(ty) => (#prefix, <#ty as #krate::Flatten>::NAMES) }
    });
    quote! { &[("", &[#(#own),*]) #(, #flattened)*] }
}

fn own_names(model: &Model<'_>) -> Vec<String> {
    let declared = Declarations::properties(model);
    let kind = model.kind.as_ref().map(|_| model.discriminator.clone());
    model.properties().map(str::to_owned).chain(declared).chain(kind).collect()
}

/// A check that fails to compile if a flattened field has a property of another field, of the type or of
/// the service.
fn names_apart(model: &Model<'_>) -> Option<TokenStream> {
    let (field, _) = model.flattened().next()?;
    let krate = &model.krate;
    let taken = taken(model);
    let check = quote_spanned! { at(field.ty) =>
        ::core::assert!(
            #krate::entity::derive::names_apart(#taken),
            "a property of the flattened field has the name of another property or a reserved \
             name: give the field a `prefix`"
        )
    };
    // For a type without parameters this is checked at compile time.
    Some(if model.generics.params.is_empty() {
        quote_spanned! { at(field.ty) => const _: () = #check; }
    } else {
        quote_spanned! { at(field.ty) => const { #check } }
    })
}

/// Writes a field that is stored as a property.
fn write(model: &Model<'_>, field: &Field<'_>, out: &Ident) -> Option<TokenStream> {
    if let Role::Rest = field.role {
        let (ident, taken) = (field.ident, taken(model));
        return Some(quote_spanned! { at(field.ty) => #out.rest(&self.#ident, #taken); });
    }
    let (krate, ident, ty) = (&model.krate, field.ident, field.ty);
    if let Role::Flatten(prefix) = &field.role {
        return Some(quote_spanned! { at(ty) =>
            #out.flatten(#prefix, |#out| {
                <#ty as #krate::Flatten>::encode(&self.#ident, #out);
            });
        });
    }
    if let Role::Reference([name, ..]) = &field.role {
        let value = local_value();
        let write = |value: TokenStream| {
            quote_spanned! { at(ty) =>
                #out.flatten(#name, |#out| #krate::BlobRef::encode(#value, #out));
            }
        };
        return Some(if option_of(ty).is_some() {
            let write = write(quote! { #value });
            quote_spanned! { at(ty) =>
                if let ::core::option::Option::Some(#value) = &self.#ident {
                    #write
                }
            }
        } else {
            write(quote! { &self.#ident })
        });
    }
    let Role::Property { name, json, encrypt, with, .. } = &field.role else { return None };
    if let Some(with) = with {
        let value = local_value();
        return Some(if option_of(ty).is_some() {
            quote_spanned! { at(ty) =>
                if let ::core::option::Option::Some(#value) = &self.#ident {
                    #out.converted(#name, #with::to_value(#value));
                }
            }
        } else {
            quote_spanned! { at(ty) => #out.converted(#name, #with::to_value(&self.#ident)); }
        });
    }
    let mark = encrypt.then(|| quote! { #out.must_encrypt(#name); });
    let write = match (json, option_of(ty)) {
        (false, _) => stored(model, field).map_or_else(
            || quote_spanned! { at(ty) => #out.property::<#ty>(#name, &self.#ident); },
            |stored| {
                quote_spanned! { at(ty) =>
                    #out.property_as::<#ty>(#name, &self.#ident, #stored);
                }
            },
        ),
        (true, None) => quote_spanned! { at(ty) => #out.json::<#ty>(#name, &self.#ident); },
        (true, Some(inner)) => quote_spanned! { at(ty) =>
            if let ::core::option::Option::Some(__value) = &self.#ident {
                #out.json::<#inner>(#name, __value);
            }
        },
    };
    Some(quote! { #mark #write })
}

/// An expression for the value of a field.
fn read(model: &Model<'_>, index: usize, field: &Field<'_>, row: &Ident) -> TokenStream {
    let krate = &model.krate;
    let ty = field.ty;
    let span = at(ty);
    match &field.role {
        Role::Key => {
            let local = keys::local(index);
            quote! { #local }
        }
        Role::Skipped(default) => {
            let default = default_path(default.as_ref());
            quote_spanned! { span => #default() }
        }
        Role::Rest => {
            let taken = taken(model);
            quote_spanned! { span => #row.rest(#taken)? }
        }
        Role::Reference([name, ..]) => {
            let value = quote_spanned! { span =>
                #krate::BlobRef::decode(&#row.flattened(#name))?
            };
            absent(value, krate, (field, name, None))
        }
        Role::Flatten(prefix) => quote_spanned! { span =>
            <#ty as #krate::Flatten>::decode(&#row.flattened(#prefix))?
        },
        Role::Property { name, with: Some(with), default, .. } => {
            let value = quote_spanned! { span => #row.converted(#name, #with::from_value)? };
            absent(value, krate, (field, name, default.as_ref()))
        }
        Role::System(system) => {
            let value = match system {
                System::PartitionKey => quote! { #row.partition_key()? },
                System::RowKey => quote! { #row.row_key()? },
                System::Timestamp => quote! { #row.timestamp()? },
            };
            quote_spanned! { span => <#ty as ::core::convert::From<_>>::from(#value) }
        }
        // The value of a field in a blob is not read with the row.
        Role::Property { name, json: false, blob: true, .. } => quote_spanned! { span =>
            #row.property_as::<#ty>(
                #name,
                ::core::option::Option::None,
                || ::core::option::Option::Some(<#ty as ::core::default::Default>::default()),
            )?
        },
        Role::Property { name, json: true, blob: true, .. } if option_of(ty).is_none() => {
            quote_spanned! { span => #row.json::<#ty>(#name)?.unwrap_or_default() }
        }
        Role::Property { name, json: false, default: None, .. } => stored(model, field)
            .map_or_else(
                || quote_spanned! { span => #row.property::<#ty>(#name)? },
                |stored| {
                    quote_spanned! { span =>
                        #row.property_as::<#ty>(#name, #stored, <#ty as #krate::Property>::absent)?
                    }
                },
            ),
        Role::Property { name, json: false, default, .. } => {
            let default = default_path(default.as_ref());
            let stored = stored(model, field).unwrap_or_else(|| optional(None::<&i32>));
            quote_spanned! { span =>
                #row.property_as::<#ty>(#name, #stored, || ::core::option::Option::Some(#default()))?
            }
        }
        Role::Property { name, json: true, default, .. } => {
            let read = option_of(ty).unwrap_or(ty);
            let value = quote_spanned! { span => #row.json::<#read>(#name)? };
            absent(value, krate, (field, name, default.as_ref()))
        }
    }
}

/// The value of a field, from an expression for an `Option` that is `None` if the property is absent.
fn absent(
    value: TokenStream,
    krate: &Path,
    (field, name, default): (&Field<'_>, &str, Option<&DefaultValue>),
) -> TokenStream {
    let span = at(field.ty);
    match (option_of(field.ty), default) {
        (Some(_), None) => value,
        (Some(_), Some(default)) => {
            let (default, found) = (default_path(Some(default)), local_value());
            quote_spanned! { span =>
                match #value {
                    ::core::option::Option::None => #default(),
                    #found => #found,
                }
            }
        }
        (None, Some(default)) => {
            let default = default_path(Some(default));
            quote_spanned! { span => #value.unwrap_or_else(#default) }
        }
        (None, None) => quote_spanned! { span =>
            #value.ok_or_else(|| #krate::DecodeError::missing(#name))?
        },
    }
}

fn local_value() -> Ident {
    format_ident!("__value", span = Span::mixed_site())
}

fn default_path(default: Option<&DefaultValue>) -> TokenStream {
    let path = default.and_then(|default| default.path.as_ref());
    path.map_or_else(|| quote! { ::core::default::Default::default }, ToTokens::to_token_stream)
}
