//! `#[derive(EntitySet)]`: an enum of the entity types stored in one table.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Fields, Path, Result, Token, Type, Variant, parenthesized};

use crate::attrs::{self, Container};
use crate::model::{combine, discriminator};
use crate::types::{at, refuse_generics};

/// The enum and its attributes.
struct Set<'a> {
    krate: Path,
    ident: &'a Ident,
    /// The property that holds the kind of each type.
    discriminator: String,
    variants: Vec<Member<'a>>,
    unknown: Option<(&'a Ident, &'a Type)>,
}

/// A variant with its type and the older versions of the type.
struct Member<'a> {
    ident: &'a Ident,
    ty: &'a Type,
    older: Vec<Type>,
}

/// The attributes of a variant.
#[derive(Default)]
struct Attributes {
    older: Vec<Type>,
    unknown: Option<Span>,
}

pub(crate) fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let set = Set::parse(input)?;
    let Set { krate, ident, .. } = &set;
    let (decode, checks) = (decode(&set), checks(&set));
    let out = format_ident!("__out", span = Span::mixed_site());
    let delegate = |method: TokenStream| {
        let types = set.variants.iter().map(|member| (member.ident, member.ty)).chain(set.unknown);
        let arms = types.map(|(variant, ty)| {
            let entity = quote_spanned! { at(ty) => <#ty as #krate::Entity> };
            quote! { Self::#variant(__entity) => #entity::#method(__entity, #out), }
        });
        quote! { match self { #(#arms)* } }
    };
    let partition_key = delegate(quote! { partition_key });
    let row_key = delegate(quote! { row_key });
    let encode = delegate(quote! { encode });
    let types = set.types();
    let encode_stored = encode_stored(&set, &out);
    Ok(quote! {
        #decode
        #[automatically_derived]
        impl #krate::Entity for #ident {
            const ROWS: #krate::Rows = #krate::Rows::All;
            const COPIES: &'static [&'static [#krate::index::Index]] =
                &[#(<#types as #krate::Projection>::DECLARED.indexes),*];

            fn partition_key(&self, #out: &mut #krate::key::KeyWriter) {
                #partition_key
            }

            fn row_key(&self, #out: &mut #krate::key::KeyWriter) {
                #row_key
            }

            fn encode(&self, #out: &mut #krate::entity::RowWriter) {
                #encode
            }

            #encode_stored
        }
        #checks
    })
}

/// Writes a row with the type of the stored version.
fn encode_stored(set: &Set<'_>, out: &Ident) -> TokenStream {
    let Set { krate, discriminator, .. } = set;
    let row = format_ident!("__row", span = Span::mixed_site());
    let older = set.variants.iter().flat_map(|member| &member.older).map(|old| {
        quote_spanned! { at(old) =>
            if __tag.is::<#old>() {
                return <#old as #krate::Entity>::encode_stored(
                    &<#old as #krate::Projection>::decode(#row)?,
                    #row,
                    #out,
                );
            }
        }
    });
    let types = set.variants.iter().map(|member| (member.ident, member.ty)).chain(set.unknown);
    let arms = types.map(|(variant, ty)| {
        let entity = quote_spanned! { at(ty) => <#ty as #krate::Entity> };
        quote! { Self::#variant(__entity) => #entity::encode_stored(__entity, #row, #out), }
    });
    let tag = set.variants.iter().any(|member| !member.older.is_empty()).then(|| {
        quote! {
            let __tag = #krate::entity::derive::Tag::read(
                #row,
                #discriminator,
                <Self as #krate::Entity>::COPIES,
            )?;
        }
    });
    quote! {
        fn encode_stored(
            &self,
            #row: &#krate::entity::RowReader<'_>,
            #out: &mut #krate::entity::RowWriter,
        ) -> ::core::result::Result<(), #krate::DecodeError> {
            #tag
            #(#older)*
            match self { #(#arms)* }
        }
    }
}

/// Determines the type of a row, and reads the row as that type.
fn decode(set: &Set<'_>) -> TokenStream {
    let Set { krate, ident, discriminator, variants, .. } = set;
    let row = format_ident!("__row", span = Span::mixed_site());
    let arms = variants.iter().map(|Member { ident, ty, older }| {
        let newest = quote_spanned! { at(ty) =>
            if __tag.is::<#ty>() {
                return <#ty as #krate::Projection>::decode(#row).map(Self::#ident);
            }
        };
        let older = older.iter().map(|old| {
            quote_spanned! { at(old) =>
                if __tag.is::<#old>() {
                    return #krate::entity::derive::upgraded::<#old, #ty>(#row).map(Self::#ident);
                }
            }
        });
        quote! { #newest #(#older)* }
    });
    let unknown = if let Some((variant, ty)) = set.unknown {
        quote_spanned! { at(ty) =>
            <#ty as #krate::Projection>::decode(#row).map(Self::#variant)
        }
    } else {
        let (name, types) = (ident.to_string(), variants.iter().map(|member| member.ty));
        quote! {
            ::core::result::Result::Err(
                __tag.unknown(#name, &[#(<#types as #krate::Entity>::ROWS),*]),
            )
        }
    };
    quote! {
        #[automatically_derived]
        impl #krate::Projection for #ident {
            const COLUMNS: ::core::option::Option<&'static [&'static str]> =
                ::core::option::Option::None;

            fn decode(
                #row: &#krate::entity::RowReader<'_>,
            ) -> ::core::result::Result<Self, #krate::DecodeError> {
                let __tag = #krate::entity::derive::Tag::read(
                    #row,
                    #discriminator,
                    <Self as #krate::Entity>::COPIES,
                )?;
                #(#arms)*
                #unknown
            }
        }
    }
}

/// The type of a row must not depend on the order of variants: constants that fail to compile if two types
/// could claim one row, or if an older version is not older.
fn checks(set: &Set<'_>) -> TokenStream {
    let krate = &set.krate;
    let all: Vec<&Type> = set.types().collect();
    let discriminator = &set.discriminator;
    let told = all.iter().map(|ty| {
        let what = format!(
            "`{}` and the set store the kind in different properties: set `discriminator = \
             \"{discriminator}\"` on both",
            shown(ty)
        );
        quote_spanned! { at(ty) =>
            const _: () =
                ::core::assert!(#krate::entity::derive::is_told_by::<#ty>(#discriminator), "{}", #what);
        }
    });
    let pairs = all.iter().enumerate().flat_map(|(i, a)| all[..i].iter().map(move |b| (*b, *a)));
    let apart = pairs.map(|(a, b)| {
        let (name, other) = (shown(a), shown(b));
        let no_kind = format!(
            "rows of `{name}` and `{other}` cannot be distinguished: give their row templates \
             different literal prefixes, both types a `kind`, or versions of one type a `version`"
        );
        let same = format!(
            "rows of `{name}` and `{other}` cannot be distinguished: their row templates have no \
             different literal prefixes, and their `kind` and `version` are equal"
        );
        quote_spanned! { at(b) =>
            const _: () = match #krate::entity::derive::clash::<#a, #b>(#no_kind, #same) {
                ::core::option::Option::None => {}
                ::core::option::Option::Some(__what) => ::core::panic!("{}", __what),
            };
        }
    });
    let older = set.variants.iter().flat_map(|member| {
        let newest = member.ty;
        member.older.iter().map(move |old| {
            let what = format!(
                "`{}` is not older than `{}`: its `version` must be smaller (the default is 1)",
                shown(old),
                shown(newest)
            );
            quote_spanned! { at(old) =>
                const _: () = ::core::assert!(
                    <#old as #krate::Entity>::VERSION
                        < <#newest as #krate::Entity>::VERSION,
                    "{}",
                    #what
                );
            }
        })
    });
    let opened = all.iter().map(|ty| {
        let what = format!(
            "`{}` has encrypted fields or is wide, and an entity set cannot read its rows: read \
             and write the type through its store",
            shown(ty)
        );
        quote_spanned! { at(ty) =>
            const _: () = ::core::assert!(
                !<#ty as #krate::Projection>::DECLARED.is_opened(),
                "{}",
                #what
            );
        }
    });
    quote! { #(#older)* #(#opened)* #(#told)* #(#apart)* }
}

fn shown(ty: &Type) -> String {
    quote!(#ty).to_string().replace(' ', "")
}

impl<'a> Set<'a> {
    fn parse(input: &'a DeriveInput) -> Result<Self> {
        refuse_generics(&input.generics, "EntitySet")?;
        let container = Container::parse(input, "entity_set", &["discriminator"], false)?;
        let Data::Enum(data) = &input.data else {
            let what = "`EntitySet` requires an enum with a variant for each entity type: \
                        `Employee(Employee)`";
            return Err(Error::new(input.ident.span(), what));
        };
        let mut this = Self {
            krate: container.krate,
            ident: &input.ident,
            discriminator: discriminator(container.discriminator.as_ref())?,
            variants: Vec::new(),
            unknown: None,
        };
        let mut errors = None;
        for variant in &data.variants {
            if let Err(error) = this.add(variant) {
                combine(&mut errors, error);
            }
        }
        if this.variants.is_empty() && errors.is_none() {
            let what = "an entity set requires at least one entity type: `Employee(Employee)`";
            errors = Some(Error::new(input.ident.span(), what));
        }
        errors.map_or(Ok(this), Err)
    }

    /// The types, each followed by its older versions.
    fn types(&self) -> impl Iterator<Item = &Type> {
        self.variants.iter().flat_map(|member| std::iter::once(member.ty).chain(&member.older))
    }

    fn add(&mut self, variant: &'a Variant) -> Result<()> {
        let ident = &variant.ident;
        let Attributes { older, unknown } = Attributes::parse(variant)?;
        let field = match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => &fields.unnamed[0],
            _ => {
                let what = format!("a variant must contain one entity: `{ident}({ident})`");
                return Err(Error::new(ident.span(), what));
            }
        };
        attrs::refuse(&field.attrs, "entity_set", "the field of a variant; put it on the variant")?;
        match unknown {
            None => self.variants.push(Member { ident, ty: &field.ty, older }),
            Some(span) if !older.is_empty() => {
                let what = "`unknown` and `older` are mutually exclusive";
                return Err(Error::new(span, what));
            }
            Some(span) => {
                if let Some((other, _)) = self.unknown {
                    let what = format!("duplicate `unknown`: `{other}` already has it");
                    return Err(Error::new(span, what));
                }
                self.unknown = Some((ident, &field.ty));
            }
        }
        Ok(())
    }
}

impl Attributes {
    fn parse(variant: &Variant) -> Result<Self> {
        let mut this = Self::default();
        attrs::visit(&variant.attrs, "entity_set", &["older", "unknown"], |name, meta| {
            if name == "unknown" {
                this.unknown = Some(meta.path.span());
                return Ok(());
            }
            let types;
            parenthesized!(types in meta.input);
            this.older =
                Punctuated::<Type, Token![,]>::parse_terminated(&types)?.into_iter().collect();
            if this.older.is_empty() {
                return Err(meta.error("`older` requires the types of older versions: `older(V1)`"));
            }
            Ok(())
        })?;
        Ok(this)
    }
}
