//! `#[derive(Entity, Projection, Property, KeyPart)]` for the `rowkey` crate, which re-exports them.
//!
//! - [`attrs`]: what the attributes say · [`names`]: names made of names, and "did you mean"
//! - [`template`]: `"id_{id:6}"` · [`model`]: a struct and what becomes of each field
//! - [`entity`], [`keys`], [`property`], [`key_part`]: the code that is written
//!
//! All paths in that code are absolute (`::core::..`, `::rowkey::..`) and all calls name their
//! trait, because it is compiled where the user's names are in scope: a type called `Result` or a
//! trait with a method `into_arg` must not change what it means. Its local variables have names of
//! their own for the same reason.

mod attrs;
mod entity;
mod key_part;
mod keys;
mod model;
mod names;
mod property;
mod shape;
mod template;

use proc_macro::TokenStream;
use syn::DeriveInput;

/// Makes a struct an entity: how its keys are written and read, and its properties.
#[proc_macro_derive(Entity, attributes(entity))]
pub fn derive_entity(input: TokenStream) -> TokenStream {
    expand(input, entity::entity)
}

/// Makes a struct readable from entities: some of their properties, to fetch less.
#[proc_macro_derive(Projection, attributes(entity))]
pub fn derive_projection(input: TokenStream) -> TokenStream {
    expand(input, entity::projection)
}

/// Makes a newtype or an enum without fields storable in a property.
#[proc_macro_derive(Property, attributes(property))]
pub fn derive_property(input: TokenStream) -> TokenStream {
    expand(input, property::derive)
}

/// Makes a newtype or an enum without fields usable in a key template.
#[proc_macro_derive(KeyPart, attributes(key_part))]
pub fn derive_key_part(input: TokenStream) -> TokenStream {
    expand(input, key_part::derive)
}

fn expand(
    input: TokenStream,
    derive: fn(&DeriveInput) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    syn::parse(input)
        .and_then(|input| derive(&input))
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
