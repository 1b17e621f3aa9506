//! Fields of type `BlobRef`: references to blobs that the program uploads.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};

use super::Kind;
use crate::model::{Field, Keys, Model};
use crate::role::Role;
use crate::types::option_of;

/// The references; their role says which ones they are.
#[derive(Default)]
pub(crate) struct References;

impl Kind for References {
    fn requires_store(&self, model: &Model<'_>) -> Option<(&'static str, Span)> {
        fields(model).next().map(|(field, _)| ("a reference to a blob", field.ident.span()))
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let names: Vec<_> = fields(model).map(|(_, name)| name).collect();
        (!names.is_empty()).then(|| quote! { references: &[#(#names),*] })
    }

    fn methods(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let krate = &model.krate;
        let each = format_ident!("__each", span = Span::mixed_site());
        let calls = fields(model).map(|(field, name)| {
            let ident = field.ident;
            if option_of(field.ty).is_some() {
                quote! {
                    if let ::core::option::Option::Some(__reference) = &self.#ident {
                        #each(#name, __reference);
                    }
                }
            } else {
                quote! { #each(#name, &self.#ident); }
            }
        });
        let calls: Vec<_> = calls.collect();
        (!calls.is_empty()).then(|| {
            quote! {
                fn references<'__e>(
                    &'__e self,
                    #each: &mut dyn ::core::ops::FnMut(&'static str, &'__e #krate::BlobRef),
                ) {
                    #(#calls)*
                }
            }
        })
    }
}

/// The references, each with the property of its address, in field order.
fn fields<'m, 'a>(model: &'m Model<'a>) -> impl Iterator<Item = (&'m Field<'a>, &'m str)> {
    model.fields.iter().filter_map(|field| match &field.role {
        Role::Reference([name, ..]) => Some((field, name.as_str())),
        _ => None,
    })
}
