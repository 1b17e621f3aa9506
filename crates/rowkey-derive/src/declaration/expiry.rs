//! `expiry`: the field with the time from which on an entity is expired.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Error, Result};

use super::rows::Rows;
use super::{Kind, Word};
use crate::model::{Field, Keys, Model};
use crate::role::Given;
use crate::types::at;

const NAME: &str = "expiry";

/// The expiry; a mark of its field says which one it is.
#[derive(Default)]
pub(crate) struct Expiry;

impl Kind for Expiry {
    fn marks(&self) -> &'static [Word] {
        const EXPIRY: Word = Word {
            entities_only: Some("projections are read without a store"),
            ..Word::flag(NAME)
        };
        &[EXPIRY]
    }

    fn check_field(&self, field: &Given<'_>) -> Result<()> {
        if field.marks.span(NAME).is_none() {
            return Ok(());
        }
        let why = "is the expiry, which a store compares as it is stored by default";
        field.alone(&[NAME, "rename"], why)
    }

    /// Checks that an entity has one expiry, which the service can compare.
    fn check(&self, model: &Model<'_>, _: &Keys, _: &[Rows]) -> Result<()> {
        let mut fields = fields(model);
        let Some((first, span)) = fields.next() else { return Ok(()) };
        if let Some((_, span)) = fields.next() {
            let what = format!("duplicate `expiry`: `{}` is the expiry already", first.ident);
            return Err(Error::new(span, what));
        }
        let unfit = [
            (model.rows > 1, "`wide`: its property may be in a further row"),
            (model.compat.is_some(), "`compat`, which may store it as another type"),
        ];
        match unfit.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, why)) => {
                Err(Error::new(span, format!("`expiry` cannot be combined with {why}")))
            }
            None => Ok(()),
        }
    }

    fn requires_store(&self, model: &Model<'_>) -> Option<(&'static str, Span)> {
        fields(model).next().map(|(_, span)| ("an expiry", span))
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let (field, _) = fields(model).next()?;
        let name = field.role.names().first()?;
        Some(quote! { expiry: ::core::option::Option::Some(#name) })
    }

    fn methods(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let (field, _) = fields(model).next()?;
        let (krate, ident, ty) = (&model.krate, field.ident, field.ty);
        let expires = quote_spanned! { at(ty) =>
            <#ty as #krate::entity::derive::Expiry>::expires_at(&self.#ident)
        };
        Some(quote! {
            fn expires_at(&self) -> ::core::option::Option<#krate::edm::DateTime> {
                #expires
            }
        })
    }
}

/// The fields with the attribute, and where they have it.
fn fields<'m, 'a>(model: &'m Model<'a>) -> impl Iterator<Item = (&'m Field<'a>, Span)> {
    model.fields.iter().filter_map(|field| Some((field, field.marks.span(NAME)?)))
}
