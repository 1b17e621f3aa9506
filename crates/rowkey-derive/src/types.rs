//! Syntactic checks of field types, and the spans of the code generated for them.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::spanned::Spanned as _;
use syn::{Error, GenericArgument, Generics, PathArguments, Result, Type};

/// The `T` of `Option<T>`, recognized by its spelling.
pub(crate) fn option_of(ty: &Type) -> Option<&Type> {
    argument_of(ty, "Option")
}

/// The `T` of `Vec<T>` or `Option<Vec<T>>`, recognized by its spelling.
pub(crate) fn vec_of(ty: &Type) -> Option<&Type> {
    argument_of(option_of(ty).unwrap_or(ty), "Vec")
}

/// Whether a type is `BlobRef` or an `Option` of it, recognized by its spelling.
pub(crate) fn is_reference(ty: &Type) -> bool {
    is_named(ty, &["BlobRef"])
}

/// Whether a type, or the `T` of an `Option<T>`, has one of these names, recognized by its spelling.
pub(crate) fn is_named(ty: &Type, names: &[&str]) -> bool {
    match option_of(ty).unwrap_or(ty) {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .is_some_and(|last| names.iter().any(|name| last.ident == name)),
        Type::Group(group) => is_named(&group.elem, names),
        _ => false,
    }
}

fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let path = match ty {
        Type::Path(path) => path,
        // A type that a `macro_rules!` macro received as `$t:ty`.
        Type::Group(group) => return argument_of(&group.elem, name),
        _ => return None,
    };
    let last = path.path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) if arguments.args.len() == 1 => Some(inner),
        _ => None,
    }
}

/// The span for code about a type, so that an error about a missing trait points at the type. Names in that
/// code resolve as in the rest of it, for example `self` in a macro.
pub(crate) fn at(ty: &Type) -> Span {
    Span::call_site().located_at(ty.span())
}

/// Refuses generic parameters.
pub(crate) fn refuse_generics(generics: &Generics, derive: &str) -> Result<()> {
    if generics.params.is_empty() {
        return Ok(());
    }
    Err(Error::new_spanned(generics, format!("`{derive}` does not support generic parameters")))
}

/// Refuses lifetimes, because decoded values borrow nothing.
pub(crate) fn refuse_lifetimes(generics: &Generics, derive: &str) -> Result<()> {
    let Some(lifetime) = generics.lifetimes().next() else { return Ok(()) };
    let what = format!(
        "`{derive}` does not support lifetime parameters: entities own their data; use `String` or \
         `Cow<'static, str>`"
    );
    Err(Error::new_spanned(lifetime, what))
}

/// Whether a type names one of the type parameters.
pub(crate) fn is_generic(generics: &Generics, ty: &Type) -> bool {
    fn names(generics: &Generics, tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => generics.type_params().any(|param| param.ident == ident),
            TokenTree::Group(group) => names(generics, group.stream()),
            TokenTree::Literal(_) | TokenTree::Punct(_) => false,
        })
    }
    generics.type_params().next().is_some() && names(generics, ty.to_token_stream())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_option_is_recognized() {
        let inner = |text: &str| {
            let ty: Type = syn::parse_str(text).unwrap();
            option_of(&ty).map(|inner| quote::quote!(#inner).to_string())
        };
        assert_eq!(inner("Option<i32>").as_deref(), Some("i32"));
        assert_eq!(inner("::core::option::Option<Vec<u8>>").as_deref(), Some("Vec < u8 >"));
        assert_eq!(inner("Vec<u8>"), None);
        assert_eq!(inner("Option"), None);
    }
}
