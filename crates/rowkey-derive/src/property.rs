//! `#[derive(Property)]`: a newtype is stored as what it holds, an enum as text.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{DeriveInput, Result};

use crate::model::{at, refuse_generics};
use crate::shape::{Newtype, Shape, Variants};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    refuse_generics(&input.generics, "Property")?;
    match Shape::parse(input, "property")? {
        Shape::Newtype(newtype) => Ok(newtype_impl(input, &newtype)),
        Shape::Variants(variants) => Ok(enum_impl(input, &variants)),
    }
}

fn newtype_impl(input: &DeriveInput, newtype: &Newtype<'_>) -> TokenStream {
    let Newtype { krate, member, ty } = newtype;
    let ident = &input.ident;
    let property = quote_spanned! { at(ty) => <#ty as #krate::entity::Property> };
    quote! {
        #[automatically_derived]
        impl #krate::entity::Property for #ident {
            fn to_value(&self) -> ::core::result::Result<
                ::core::option::Option<#krate::edm::ValueRef<'_>>,
                #krate::entity::PropertyError,
            > {
                #property::to_value(&self.#member)
            }

            fn from_value(
                value: #krate::edm::ValueRef<'_>,
            ) -> ::core::result::Result<Self, #krate::entity::PropertyError> {
                #property::from_value(value).map(|value| Self { #member: value })
            }

            fn absent() -> ::core::option::Option<Self> {
                #property::absent().map(|value| Self { #member: value })
            }
        }
    }
}

fn enum_impl(input: &DeriveInput, variants: &Variants<'_>) -> TokenStream {
    let Variants { krate, idents, texts } = variants;
    let ident = &input.ident;
    let unknown = format!("its text is not one that `{ident}` has");
    quote! {
        #[automatically_derived]
        impl #krate::entity::Property for #ident {
            fn to_value(&self) -> ::core::result::Result<
                ::core::option::Option<#krate::edm::ValueRef<'_>>,
                #krate::entity::PropertyError,
            > {
                let text = match self { #(Self::#idents => #texts,)* };
                ::core::result::Result::Ok(::core::option::Option::Some(
                    #krate::edm::ValueRef::String(::std::borrow::Cow::Borrowed(text)),
                ))
            }

            fn from_value(
                value: #krate::edm::ValueRef<'_>,
            ) -> ::core::result::Result<Self, #krate::entity::PropertyError> {
                match value {
                    #krate::edm::ValueRef::String(text) => match &*text {
                        #(#texts => ::core::result::Result::Ok(Self::#idents),)*
                        _ => ::core::result::Result::Err(
                            #krate::entity::PropertyError::new(#unknown),
                        ),
                    },
                    other => ::core::result::Result::Err(#krate::entity::PropertyError::wrong_type(
                        #krate::edm::Type::String,
                        other.edm_type(),
                    )),
                }
            }
        }
    }
}
