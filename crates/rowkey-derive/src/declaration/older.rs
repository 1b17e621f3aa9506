//! `from = V1`: the type of the version before, whose entities are converted when they are read.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::{Error, Result, Type};

use super::Kind;
use super::rows::Rows;
use crate::model::{Keys, Model};
use crate::types::at;

/// The older version.
#[derive(Default)]
pub(crate) struct Older {
    pub(super) from: Option<Type>,
}

impl Older {
    /// The version of the type, and the type of the version before.
    fn versions(&self, model: &Model<'_>) -> Option<(i32, &Type)> {
        model.version.zip(self.from.as_ref())
    }

    pub(super) fn check_version(&self, model: &Model<'_>, is_of_store: bool) -> Result<()> {
        match &self.from {
            Some(from) if !is_of_store || model.version.is_none_or(|version| version < 2) => {
                let what = "`from` requires `store` and a `version` of at least 2: #[entity(store, version \
                            = 2, from = V1)]";
                Err(Error::new_spanned(from, what))
            }
            _ => Ok(()),
        }
    }
}

impl Kind for Older {
    fn words(&self) -> &'static [&'static str] {
        &["from"]
    }

    fn parse(&mut self, _: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        self.from = Some(meta.value()?.parse()?);
        Ok(())
    }

    fn check(&self, model: &Model<'_>, _: &Keys, _: &[Rows]) -> Result<()> {
        self.check_version(model, true)
    }

    fn constant(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let (krate, (_, from)) = (&model.krate, self.versions(model)?);
        Some(quote_spanned! { at(from) => older: #krate::entity::OlderRows::of::<#from>() })
    }

    fn methods(&self, model: &Model<'_>, _: &Keys) -> Option<TokenStream> {
        let (krate, (version, from)) = (&model.krate, self.versions(model)?);
        let row = format_ident!("__row", span = Span::mixed_site());
        let out = format_ident!("__out", span = Span::mixed_site());
        let is_older = quote_spanned! { at(from) =>
            #row.of_type(::core::option::Option::None, ::core::option::Option::Some(#version), true)?
        };
        Some(quote_spanned! { at(from) =>
            fn older(
                #row: &#krate::entity::RowReader<'_>,
            ) -> ::core::result::Result<
                ::core::option::Option<#krate::entity::Older>,
                #krate::DecodeError,
            > {
                const {
                    ::core::assert!(
                        <#from as #krate::Entity>::VERSION < #version,
                        "`from` must name a type with a smaller `version`"
                    );
                    ::core::assert!(
                        <#from as #krate::Projection>::DECLARED.encrypted.is_empty()
                            || !<Self as #krate::Projection>::DECLARED.encrypted.is_empty(),
                        "the older version has encrypted fields: keep at least one"
                    );
                }
                if #is_older {
                    #krate::entity::Older::of::<#from>(#row).map(::core::option::Option::Some)
                } else {
                    ::core::result::Result::Ok(::core::option::Option::None)
                }
            }

            fn encrypted(version: i32) -> &'static [&'static str] {
                if version < #version {
                    <#from as #krate::Entity>::encrypted(version)
                } else {
                    <Self as #krate::Projection>::DECLARED.encrypted
                }
            }

            fn encode_stored(
                &self,
                #row: &#krate::entity::RowReader<'_>,
                #out: &mut #krate::entity::RowWriter,
            ) -> ::core::result::Result<(), #krate::DecodeError> {
                if #is_older {
                    return <#from as #krate::Entity>::encode_stored(
                        &<#from as #krate::Projection>::decode(#row)?,
                        #row,
                        #out,
                    );
                }
                #krate::Entity::encode(self, #out);
                ::core::result::Result::Ok(())
            }
        })
    }

    fn checks(&self, model: &Model<'_>) -> Option<TokenStream> {
        let (krate, ident) = (&model.krate, model.ident);
        let from = self.from.as_ref().filter(|_| model.generics.params.is_empty())?;
        let check = quote_spanned! { at(from) =>
            const _: () = ::core::assert!(
                #krate::entity::OlderRows::keeps_blobs::<#from, #ident>(),
                "the older version has a field in a blob that this version does not: keep it, under the name of its \
                 property"
            );
        };
        Some(quote! { #check })
    }
}
