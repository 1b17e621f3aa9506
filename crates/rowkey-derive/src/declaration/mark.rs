//! The attributes of fields that declare something: `encrypt`, `threshold = 1024`.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned as _;
use syn::{LitInt, Result};

/// An attribute that a kind of declaration reads from fields.
pub(crate) struct Word {
    pub(crate) name: &'static str,
    /// Whether it has a number, `threshold = 1024`.
    pub(crate) is_number: bool,
    /// The reason why a projection cannot have it; `None` if it can.
    pub(crate) entities_only: Option<&'static str>,
}

impl Word {
    /// An attribute without a value.
    pub(crate) const fn flag(name: &'static str) -> Self {
        Self { name, is_number: false, entities_only: None }
    }
}

/// The attributes of one field that declare something.
#[derive(Default)]
pub(crate) struct Marks(Vec<Mark>);

struct Mark {
    name: &'static str,
    /// The place of the number, or of the name if there is no number.
    span: Span,
    number: Option<LitInt>,
}

impl Marks {
    /// Parses one; `is_projection` tells whether the field is of a projection.
    pub(crate) fn parse(
        &mut self,
        word: &'static Word,
        meta: &ParseNestedMeta<'_>,
        is_projection: bool,
    ) -> Result<()> {
        if let Some(why) = word.entities_only.filter(|_| is_projection) {
            return Err(meta.error(format!("`{}` is only valid in entities: {why}", word.name)));
        }
        let number = word.is_number.then(|| meta.value()?.parse::<LitInt>()).transpose()?;
        let span = number.as_ref().map_or_else(|| meta.path.span(), LitInt::span);
        self.0.push(Mark { name: word.name, span, number });
        Ok(())
    }

    /// Where the field has this attribute.
    pub(crate) fn span(&self, name: &str) -> Option<Span> {
        self.0.iter().find(|mark| mark.name == name).map(|mark| mark.span)
    }

    /// The number of this attribute.
    pub(crate) fn number(&self, name: &str) -> Option<&LitInt> {
        self.0.iter().find(|mark| mark.name == name)?.number.as_ref()
    }

    /// The names of all of them.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|mark| mark.name)
    }
}
