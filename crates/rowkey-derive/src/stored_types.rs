//! `const TYPES`: the properties of a type, each with the EDM type that it is stored as.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};

use crate::declaration::blob_property;
use crate::entity::stored;
use crate::model::{Field, Model};
use crate::role::Role;
use crate::types::{at, is_generic};

/// The EDM types of the properties of a reference to a blob, in the order of their names.
const OF_REFERENCE: [&str; 4] = ["String", "Int64", "String", "String"];

/// The constant. The types are evaluated through `Property`, so that aliases and newtypes have those of their values.
pub(crate) fn constant(model: &Model<'_>) -> TokenStream {
    let krate = &model.krate;
    let ty = quote! {
        &'static [(&'static str, ::core::option::Option<#krate::edm::Type>)]
    };
    // The names and the length of the constant must be known before the type parameters are.
    let flattened: Vec<_> =
        model.flattened().filter(|(field, _)| !is_generic(model.generics, field.ty)).collect();
    if flattened.is_empty() {
        let entries = model.fields.iter().flat_map(|field| entries(model, field));
        return quote! { const TYPES: #ty = &[#(#entries),*]; };
    }
    let mut parts = Vec::new();
    let mut own = Vec::new();
    let mut count = 0_usize;
    for field in &model.fields {
        let known = flattened.iter().find(|(flattened, _)| flattened.ident == field.ident);
        let Some((_, prefix)) = known else {
            own.extend(entries(model, field));
            continue;
        };
        count += own.len();
        parts.extend(part(&mut own));
        let types = types_of(model, field);
        let names = if prefix.is_empty() {
            quote! { "" }
        } else {
            // In blocks of their own, because the names are borrowed for the lifetime of the program.
            quote! {
                const {
                    #krate::entity::derive::text(
                        const {
                            &#krate::entity::derive::prefixed::<
                                { #krate::entity::derive::prefixed_length(#prefix, #types) }
                            >(#prefix, #types)
                        },
                    )
                }
            }
        };
        parts.push(quote! { (#prefix, #names, #types) });
    }
    count += own.len();
    parts.extend(part(&mut own));
    let lengths = flattened.iter().map(|(field, _)| types_of(model, field));
    quote! {
        const TYPES: #ty = &#krate::entity::derive::joined::<{ #count #(+ #lengths.len())* }>(
            &[#(#parts),*],
        );
    }
}

/// The entries of fields that are not flattened, as a part of the list; `None` if there are none.
fn part(own: &mut Vec<TokenStream>) -> Option<TokenStream> {
    let own = std::mem::take(own);
    (!own.is_empty()).then(|| quote! { ("", "", &[#(#own),*]) })
}

/// The list of a flattened field.
fn types_of(model: &Model<'_>, field: &Field<'_>) -> TokenStream {
    let (krate, ty) = (&model.krate, field.ty);
    quote_spanned! { at(ty) => <#ty as #krate::Flatten>::TYPES }
}

/// The properties that the field itself is stored as, each a tuple of its name and type.
fn entries(model: &Model<'_>, field: &Field<'_>) -> Vec<TokenStream> {
    let krate = &model.krate;
    let fixed = |name: &str, ty: &str| {
        let ty = quote::format_ident!("{ty}");
        quote! { (#name, ::core::option::Option::Some(#krate::edm::Type::#ty)) }
    };
    match &field.role {
        Role::Reference(names) => {
            names.iter().zip(OF_REFERENCE).map(|(name, ty)| fixed(name, ty)).collect()
        }
        Role::Property { name, json, encrypt, blob, with, .. } => {
            let in_row = if *encrypt {
                // With `blob` it is the key of the blob.
                fixed(name, "Binary")
            } else if *json {
                fixed(name, "String")
            } else if with.is_some() {
                // What the functions write is not known.
                quote! { (#name, ::core::option::Option::None) }
            } else {
                let stored = of_property(model, field);
                quote! { (#name, #stored) }
            };
            if !blob {
                return vec![in_row];
            }
            let pointer = fixed(&blob_property(name), "String");
            let has_value = *encrypt || field.marks.number("threshold").is_some();
            if has_value { vec![in_row, pointer] } else { vec![pointer] }
        }
        Role::Key | Role::Rest | Role::Flatten(_) | Role::Skipped(_) | Role::System(_) => {
            Vec::new()
        }
    }
}

/// An expression for the EDM type of a plain property, an `Option`.
fn of_property(model: &Model<'_>, field: &Field<'_>) -> TokenStream {
    let (krate, ty) = (&model.krate, field.ty);
    match stored(model, field) {
        None => quote_spanned! { at(ty) => <#ty as #krate::Property>::TYPE },
        Some(stored) => quote_spanned! { at(ty) =>
            #krate::entity::derive::stored_type(<#ty as #krate::Property>::TYPE, #stored)
        },
    }
}
