//! `#[derive(KeyPart)]`: a newtype is written as its field, an enum as text.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{DeriveInput, Result};

use crate::property::{bounded, implement};
use crate::shape::{Newtype, Shape, Variants};
use crate::types::at;

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    match Shape::parse(input, "key_part")? {
        Shape::Newtype(newtype) => Ok(newtype_impl(input, &newtype)),
        Shape::Variants(variants) => Ok(enum_impl(input, &variants)),
        // Only a property has a `repr`.
        Shape::Numbers(_) => Ok(TokenStream::new()),
    }
}

fn newtype_impl(input: &DeriveInput, newtype: &Newtype<'_>) -> TokenStream {
    let Newtype { krate, member, ty } = newtype;
    let part = quote_spanned! { at(ty) => <#ty as #krate::KeyPart> };
    let bounded = bounded(input, ty, &quote! { #krate::KeyPart });
    let items = quote! {
        const KIND: #krate::key::PartKind = #part::KIND;
        const EXACT: bool = #part::EXACT;

        fn write(&self, out: &mut #krate::key::KeyWriter) {
            #part::write(&self.#member, out)
        }

        fn read(
            text: &str,
            format: #krate::key::PartFormat,
        ) -> ::core::result::Result<Self, #krate::key::KeyReadError> {
            #part::read(text, format).map(|value| Self { #member: value })
        }
    };
    implement(&input.ident, &bounded, &quote! { #krate::KeyPart }, &items)
}

fn enum_impl(input: &DeriveInput, variants: &Variants<'_>) -> TokenStream {
    let Variants { krate, idents, texts, .. } = variants;
    let ident = &input.ident;
    let unknown = format!("a text that `{ident}` has");
    let string = quote! { <::std::string::String as #krate::KeyPart> };
    quote! {
        #[automatically_derived]
        impl #krate::KeyPart for #ident {
            const KIND: #krate::key::PartKind = #krate::key::PartKind::Text;
            const EXACT: bool = true;

            fn write(&self, out: &mut #krate::key::KeyWriter) {
                out.text(match self { #(Self::#idents => #texts,)* })
            }

            fn read(
                text: &str,
                format: #krate::key::PartFormat,
            ) -> ::core::result::Result<Self, #krate::key::KeyReadError> {
                match &*#string::read(text, format)? {
                    #(#texts => ::core::result::Result::Ok(Self::#idents),)*
                    _ => ::core::result::Result::Err(#krate::key::KeyReadError::malformed(#unknown)),
                }
            }
        }
    }
}
