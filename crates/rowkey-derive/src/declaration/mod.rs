//! What `#[entity(..)]` declares besides keys and properties.
//!
//! Each kind of declaration has a file here that parses its attributes, checks them, and generates its part of the
//! constant `DECLARED`, of the methods of `Entity` and of the constructors. It implements [`Kind`]; the rest of the
//! derive knows no kind by name and asks [`Declarations`]. A new kind adds its file and a field of `Declarations`.
//!
//! - on the type: `index` (also `unique`), `list`, `wide` (also `parts`), `older` (`from = V1`)
//! - on a field: `encrypted`, `blob` and `reference`, `expiry`
//! - `rows`: what the kinds with rows of their own have in common · `mark`: the attributes of fields

mod blob;
mod encrypted;
mod expiry;
mod index;
mod list;
mod mark;
mod older;
mod reference;
pub(crate) mod rows;
mod wide;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::{Result, Type};

use crate::model::{Keys, Model};
use crate::role::Given;
use crate::stub::{Constructor, Raw, Stub};
use crate::template::{Part, Template};

pub(crate) use blob::pointer as blob_property;
pub(crate) use mark::{Marks, Word};
use rows::Rows;

/// The declarations of one kind in one type. They are parsed first, and checked by `resolve`.
pub(crate) trait Kind {
    /// The attributes of the type that this kind reads.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a type may have several, `index(..), index(..)`, each with a name and constructors.
    fn is_repeated(&self) -> bool {
        false
    }

    /// Parses one of `words`.
    fn parse(&mut self, word: &str, meta: &ParseNestedMeta<'_>) -> Result<()> {
        let _ = word;
        Err(meta.error("this attribute belongs on a field"))
    }

    /// The attributes of fields that this kind reads.
    fn marks(&self) -> &'static [Word] {
        &[]
    }

    /// Checks the attributes of one field.
    fn check_field(&self, field: &Given<'_>) -> Result<()> {
        let _ = field;
        Ok(())
    }

    /// Resolves the templates among `fields`, and checks them beside the rows of the kinds before it.
    fn resolve(
        &mut self,
        of: (&Model<'_>, &Keys),
        fields: &[String],
        before: &[Rows],
    ) -> Result<()> {
        let _ = (of, fields, before);
        Ok(())
    }

    /// Checks a type with `store` when all of it is known. The rows are those of all kinds.
    fn check(&self, model: &Model<'_>, keys: &Keys, rows: &[Rows]) -> Result<()> {
        let _ = (model, keys, rows);
        Ok(())
    }

    /// What the type cannot have without `store`, for the error, and where it is declared.
    fn requires_store(&self, model: &Model<'_>) -> Option<(&'static str, Span)> {
        let _ = model;
        None
    }

    /// The rows that a store keeps for the declarations of this kind.
    fn rows(&self) -> Vec<Rows> {
        Vec::new()
    }

    /// The templates of the rows, whose parts must have formats that their types support.
    fn templates(&self) -> Vec<&Template> {
        Vec::new()
    }

    /// The templates of the PartitionKey and RowKey of rows in other partitions of which each insert writes one.
    fn elsewhere(&self) -> Vec<(&Template, &Template)> {
        Vec::new()
    }

    /// The properties that a row has for this kind besides those of the fields.
    fn properties(&self, model: &Model<'_>) -> Vec<String> {
        let _ = model;
        Vec::new()
    }

    /// Its field of the constant `DECLARED`, `name: value`, unless the type declares nothing of this kind.
    fn constant(&self, model: &Model<'_>, keys: &Keys) -> Option<TokenStream>;

    /// The name of each declaration, and its text, which programs of other versions compare.
    fn texts(&self, model: &Model<'_>) -> Vec<(String, String)> {
        let _ = model;
        Vec::new()
    }

    /// Its methods of `Entity`.
    fn methods(&self, model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
        let _ = (model, keys);
        None
    }

    /// The constructors of the addresses of its rows.
    fn constructors(&self, model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
        let _ = (model, keys);
        None
    }

    /// Items beside the implementations: checks that only the compiler can make.
    fn checks(&self, model: &Model<'_>) -> Option<TokenStream> {
        let _ = model;
        None
    }

    /// The constructors of a type whose derive fails, from an attribute as it is written.
    fn stub<'a>(&self, written: &Raw, stub: &Stub<'a>) -> Vec<Constructor<'a>> {
        let _ = (written, stub);
        Vec::new()
    }
}

/// All declarations of a type.
#[derive(Default)]
pub(crate) struct Declarations {
    older: older::Older,
    indexes: index::Indexes,
    lists: list::Lists,
    encrypted: encrypted::Encrypted,
    blobs: blob::Blobs,
    references: reference::References,
    wide: wide::Wide,
    expiry: expiry::Expiry,
}

impl Declarations {
    /// The kinds, in the order in which their checks report errors.
    fn kinds(&self) -> [&dyn Kind; 8] {
        let Self { older, indexes, lists, encrypted, blobs, references, wide, expiry } = self;
        [older, indexes, lists, encrypted, blobs, references, expiry, wide]
    }

    fn kinds_mut(&mut self) -> [&mut dyn Kind; 8] {
        let Self { older, indexes, lists, encrypted, blobs, references, wide, expiry } = self;
        [older, indexes, lists, encrypted, blobs, references, expiry, wide]
    }

    /// The attributes of a type that declare something.
    pub(crate) fn words() -> Vec<&'static str> {
        Self::default().kinds().iter().flat_map(|kind| kind.words()).copied().collect()
    }

    /// Whether a type may have this attribute several times.
    pub(crate) fn is_repeated(word: &str) -> bool {
        let of = Self::default();
        of.kinds().iter().any(|kind| kind.is_repeated() && kind.words().contains(&word))
    }

    /// The attributes of a field that declare something.
    pub(crate) fn marks() -> Vec<&'static Word> {
        Self::default().kinds().iter().flat_map(|kind| kind.marks()).collect()
    }

    /// Parses an attribute of the type. Returns whether a kind has it.
    pub(crate) fn parse(&mut self, word: &str, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        match self.kinds_mut().into_iter().find(|kind| kind.words().contains(&word)) {
            Some(kind) => kind.parse(word, meta).map(|()| true),
            None => Ok(false),
        }
    }

    /// Checks the attributes of one field.
    pub(crate) fn check_field(field: &Given<'_>) -> Result<()> {
        Self::default().kinds().iter().try_for_each(|kind| kind.check_field(field))
    }

    /// Resolves the templates among `fields`.
    pub(crate) fn resolve(
        &mut self,
        model: &Model<'_>,
        keys: &Keys,
        fields: &[String],
    ) -> Result<()> {
        let mut before = Vec::new();
        for kind in self.kinds_mut() {
            kind.resolve((model, keys), fields, &before)?;
            before.extend(kind.rows());
        }
        Ok(())
    }

    /// The most rows that an entity takes.
    pub(crate) fn rows_of_an_entity(&self) -> Result<usize> {
        self.wide.rows()
    }

    /// The type of the version before.
    pub(crate) fn older(&self) -> Option<&Type> {
        self.older.from.as_ref()
    }

    /// Refuses declarations that require a store.
    pub(crate) fn check_without_store(&self, model: &Model<'_>) -> Result<()> {
        self.older.check_version(model, false)?;
        let first = self.kinds().iter().find_map(|kind| kind.requires_store(model));
        first.map_or(Ok(()), |(what, span)| {
            Err(syn::Error::new(span, format!("{what} requires a store: #[entity(store, ..)]")))
        })
    }

    /// Checks the declarations of a type with a store.
    pub(crate) fn check(&self, model: &Model<'_>, keys: &Keys) -> Result<()> {
        let rows = self.rows();
        self.kinds().iter().try_for_each(|kind| kind.check(model, keys, &rows))
    }

    /// The rows that a store keeps for the declarations.
    pub(crate) fn rows(&self) -> Vec<Rows> {
        self.kinds().iter().flat_map(|kind| kind.rows()).collect()
    }

    /// The parts of all templates.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Part> {
        let templates = self.kinds().into_iter().flat_map(Kind::templates);
        templates.collect::<Vec<_>>().into_iter().flat_map(Template::parts)
    }

    /// The keys of the rows in other partitions of which each insert writes one.
    pub(crate) fn elsewhere(&self) -> Vec<(&Template, &Template)> {
        self.kinds().into_iter().flat_map(Kind::elsewhere).collect()
    }

    /// The properties that a row has besides those of the fields.
    pub(crate) fn properties(model: &Model<'_>) -> Vec<String> {
        Self::default().kinds().iter().flat_map(|kind| kind.properties(model)).collect()
    }

    /// `const DECLARED`, unless nothing is declared.
    pub(crate) fn constant(&self, model: &Model<'_>, keys: &Keys) -> Option<TokenStream> {
        let krate = &model.krate;
        let fields = self.kinds().into_iter().filter_map(|kind| kind.constant(model, keys));
        let mut fields: Vec<_> = fields.collect();
        let texts = self.kinds().into_iter().flat_map(|kind| kind.texts(model));
        let texts: Vec<_> = texts.map(|(name, text)| quote! { (#name, #text) }).collect();
        if !texts.is_empty() {
            fields.push(quote! { texts: &[#(#texts),*] });
        }
        (!fields.is_empty()).then(|| {
            quote! {
                const DECLARED: #krate::entity::Declarations = #krate::entity::Declarations {
                    #(#fields,)*
                    ..#krate::entity::Declarations::NONE
                };
            }
        })
    }

    /// The methods of `Entity`.
    pub(crate) fn methods(&self, model: &Model<'_>, keys: &Keys) -> TokenStream {
        self.kinds().iter().filter_map(|kind| kind.methods(model, keys)).collect()
    }

    /// The constructors of addresses.
    pub(crate) fn constructors(&self, model: &Model<'_>, keys: &Keys) -> TokenStream {
        self.kinds().iter().filter_map(|kind| kind.constructors(model, keys)).collect()
    }

    /// Items beside the implementations.
    pub(crate) fn checks(&self, model: &Model<'_>) -> TokenStream {
        self.kinds().iter().filter_map(|kind| kind.checks(model)).collect()
    }

    /// The constructors of a type whose derive fails.
    pub(crate) fn stub<'a>(written: &Raw, stub: &Stub<'a>) -> Vec<Constructor<'a>> {
        let of = Self::default();
        let kind = of.kinds().into_iter().find(|kind| kind.words().contains(&&*written.word));
        kind.map(|kind| kind.stub(written, stub)).unwrap_or_default()
    }
}
