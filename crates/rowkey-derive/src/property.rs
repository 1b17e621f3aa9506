//! `#[derive(Property)]`: a newtype is stored as its field, an enum as text or as a number.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{quote, quote_spanned};
use syn::{DeriveInput, Generics, Path, Result, Type};

use crate::shape::{Newtype, Numbers, Other, Shape, Variants};
use crate::types::{at, is_generic};

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    match Shape::parse(input, "property")? {
        Shape::Newtype(newtype) => Ok(newtype_impl(input, &newtype)),
        Shape::Variants(variants) => Ok(enum_impl(input, &variants)),
        Shape::Numbers(numbers) => Ok(number_impl(input, &numbers)),
    }
}

fn newtype_impl(input: &DeriveInput, newtype: &Newtype<'_>) -> TokenStream {
    let Newtype { krate, member, ty } = newtype;
    let property = quote_spanned! { at(ty) => <#ty as #krate::Property> };
    let bounded = bounded(input, ty, &quote! { #krate::Property });
    let items = quote! {
        const TYPE: ::core::option::Option<#krate::edm::Type> = #property::TYPE;

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
    };
    implement(&input.ident, &bounded, &quote! { #krate::Property }, &items)
}

/// An implementation of a trait.
pub(crate) fn implement(
    ident: &Ident,
    generics: &Generics,
    of: &TokenStream,
    items: &TokenStream,
) -> TokenStream {
    let (generics, arguments, bounds) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #generics #of for #ident #arguments #bounds {
            #items
        }
    }
}

/// The generics with the bound that the field of a newtype needs.
pub(crate) fn bounded(input: &DeriveInput, ty: &Type, bound: &TokenStream) -> Generics {
    let mut generics = input.generics.clone();
    if is_generic(&input.generics, ty) {
        let bound = quote_spanned! { at(ty) => #ty: #bound };
        if let Ok(bound) = syn::parse2(bound) {
            generics.make_where_clause().predicates.push(bound);
        }
    }
    generics
}

fn enum_impl(input: &DeriveInput, variants: &Variants<'_>) -> TokenStream {
    let Variants { krate, idents, texts, other } = variants;
    let unknown = format!("the text is not a variant of `{}`", input.ident);
    let rest = written_before(other.as_ref());
    let known = quote! { #krate::edm::ValueRef::String(__text) };
    let is_known = quote! { ::core::matches!(&**__text, #(#texts)|*) };
    let written = quote! {
        let __text = match self {
            #(Self::#idents => #texts,)*
            #rest
        };
        ::core::result::Result::Ok(::core::option::Option::Some(
            #krate::edm::ValueRef::String(::std::borrow::Cow::Borrowed(__text)),
        ))
    };
    let read = if let Some(other) = other {
        let Other { ident: variant, ty } = other;
        let read = from_other(krate, other);
        quote_spanned! { at(ty) =>
            if let #krate::edm::ValueRef::String(__text) = &__value {
                match &**__text {
                    #(#texts => return ::core::result::Result::Ok(Self::#idents),)*
                    _ => {}
                }
            }
            #read(__value).map(Self::#variant)
        }
    } else {
        quote! {
            match __value {
                #krate::edm::ValueRef::String(__text) => match &*__text {
                    #(#texts => ::core::result::Result::Ok(Self::#idents),)*
                    _ => ::core::result::Result::Err(
                        #krate::entity::PropertyError::new(#unknown),
                    ),
                },
                __value => ::core::result::Result::Err(#krate::entity::PropertyError::wrong_type(
                    #krate::edm::Type::String,
                    __value.edm_type(),
                )),
            }
        }
    };
    let of = Enum { krate, other: other.as_ref(), known, is_known, written, read };
    of.implementation(input, &Ident::new("String", input.ident.span()))
}

fn number_impl(input: &DeriveInput, numbers: &Numbers<'_>) -> TokenStream {
    let Numbers { krate, idents, values, repr, other } = numbers;
    let unknown = format!("the number is not a variant of `{}`", input.ident);
    let number = if repr == "Int32" {
        quote! { i32 }
    } else {
        quote! { i64 }
    };
    let numbers: Vec<_> = values
        .iter()
        .map(|number| {
            let literal = Literal::i64_unsuffixed(number.checked_abs().unwrap_or(i64::MAX));
            match number {
                // No literal without a sign is its absolute value.
                &i64::MIN => quote! { ::core::primitive::i64::MIN },
                number if *number < 0 => quote! { -#literal },
                _ => quote! { #literal },
            }
        })
        .collect();
    let rest = written_before(other.as_ref());
    let known = quote! { #krate::edm::ValueRef::#repr(__number) };
    let is_known = quote! { ::core::matches!(*__number, #(#numbers)|*) };
    let written = quote! {
        let __number = match self {
            #(Self::#idents => #numbers,)*
            #rest
        };
        ::core::result::Result::Ok(::core::option::Option::Some(
            #krate::edm::ValueRef::#repr(__number),
        ))
    };
    let otherwise = if let Some(other) = other {
        let (variant, read) = (other.ident, from_other(krate, other));
        quote_spanned! { at(other.ty) => #read(__value).map(Self::#variant) }
    } else {
        quote! {
            ::core::result::Result::Err(#krate::entity::PropertyError::new(#unknown))
        }
    };
    // An equal number of another type is accepted, as for any integer field.
    let read_number = quote! {
        <::core::primitive::#number as #krate::Property>::from_value
    };
    let read = if other.is_some() {
        quote! {
            match #read_number(__value.clone()) {
                #(::core::result::Result::Ok(#numbers) => ::core::result::Result::Ok(Self::#idents),)*
                _ => #otherwise,
            }
        }
    } else {
        quote! {
            match #read_number(__value)? {
                #(#numbers => ::core::result::Result::Ok(Self::#idents),)*
                _ => #otherwise,
            }
        }
    };
    let of = Enum { krate, other: other.as_ref(), known, is_known, written, read };
    of.implementation(input, repr)
}

/// The unreachable match arm of the `other` variant, which is written before the match.
fn written_before(other: Option<&Other<'_>>) -> Option<TokenStream> {
    let variant = other?.ident;
    Some(quote! { Self::#variant(_) => ::core::unreachable!("it was written before"), })
}

fn from_other(krate: &Path, other: &Other<'_>) -> TokenStream {
    let ty = other.ty;
    quote_spanned! { at(ty) => <#ty as #krate::Property>::from_value }
}

/// The common parts of the implementations for enums.
struct Enum<'a> {
    krate: &'a Path,
    other: Option<&'a Other<'a>>,
    /// The pattern of a value that may belong to a variant.
    known: TokenStream,
    /// Whether the value bound by the pattern belongs to a variant.
    is_known: TokenStream,
    /// The code that writes a variant.
    written: TokenStream,
    /// The code that reads `__value`.
    read: TokenStream,
}

impl Enum<'_> {
    fn implementation(self, input: &DeriveInput, stored: &Ident) -> TokenStream {
        let Self { krate, other, known, is_known, written, read } = self;
        let ident = &input.ident;
        // The stored type is unknown for an enum whose other values may have another type.
        let stored = quote! { ::core::option::Option::Some(#krate::edm::Type::#stored) };
        let stored = other.map_or_else(
            || stored.clone(),
            |Other { ty, .. }| {
                quote_spanned! { at(ty) =>
                    match (#stored, <#ty as #krate::Property>::TYPE) {
                        (
                            ::core::option::Option::Some(__own),
                            ::core::option::Option::Some(__other),
                        ) if __own as ::core::primitive::u8 == __other as ::core::primitive::u8 => #stored,
                        _ => ::core::option::Option::None,
                    }
                }
            },
        );
        let write_other = other.map(|Other { ident, ty }| {
            let what = format!(
                "`{}::{ident}` contains the value of another variant, and would be read as it",
                input.ident
            );
            quote_spanned! { at(ty) =>
                if let Self::#ident(__other) = self {
                    let __value = <#ty as #krate::Property>::to_value(__other)?;
                    return match &__value {
                        ::core::option::Option::Some(#known) if #is_known => {
                            ::core::result::Result::Err(#krate::entity::PropertyError::new(#what))
                        }
                        _ => ::core::result::Result::Ok(__value),
                    };
                }
            }
        });
        quote! {
            #[automatically_derived]
            impl #krate::Property for #ident {
                const TYPE: ::core::option::Option<#krate::edm::Type> = #stored;

                fn to_value(&self) -> ::core::result::Result<
                    ::core::option::Option<#krate::edm::ValueRef<'_>>,
                    #krate::entity::PropertyError,
                > {
                    #write_other
                    #written
                }

                fn from_value(
                    __value: #krate::edm::ValueRef<'_>,
                ) -> ::core::result::Result<Self, #krate::entity::PropertyError> {
                    #read
                }
            }
        }
    }
}
