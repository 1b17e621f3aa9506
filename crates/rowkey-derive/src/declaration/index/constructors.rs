//! The constructors of the addresses in an index: of one row, of all rows, and of those that begin with some values.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt as _;

use super::Index;
use crate::keys::{AddressFn, format, local_named};
use crate::model::{Keys, Model};
use crate::template::{Part, Piece};

/// The constructors of the addresses in each index.
pub(super) fn all(model: &Model<'_>, keys: &Keys, indexes: &[Index]) -> TokenStream {
    let items = indexes.iter().enumerate().map(|(position, index)| {
        let Index { name, row, many, .. } = index;
        let constructors = Constructors { model, keys, index, position };
        if index.claims {
            return constructors.key();
        }
        let parts: Vec<&Part> = row.parts().collect();
        // The end of the pieces that a constructor uses: the text after a part belongs to it.
        let end = |part: &Part| {
            let is =
                |piece: &Piece| matches!(piece, Piece::Part(other) if other.index == part.index);
            let at = row.pieces.iter().position(is).map_or(0, |at| at + 2);
            at.min(row.pieces.len())
        };
        let whole = if *many {
            let doc = "The rows of all entities with these values, in RowKey order.";
            constructors.range(name, row.pieces.len(), doc)
        } else {
            constructors.key()
        };
        let all = constructors.range(
            &format_ident!("{}_all", name.unraw(), span = name.span()),
            usize::from(!row.head().is_empty()),
            "All rows of the index in a partition, in index order.",
        );
        let under = parts.iter().take(parts.len().saturating_sub(1)).map(|last| {
            let field = model.fields[last.index].ident.unraw();
            let under = format_ident!("{}_under_{field}", name.unraw(), span = name.span());
            let doc = format!("The rows with these values, up to `{field}`, in index order.");
            constructors.range(&under, end(last), &doc)
        });
        quote! { #whole #all #(#under)* }
    });
    quote! { #(#items)* }
}

/// The common input of the constructors of one index.
struct Constructors<'a> {
    model: &'a Model<'a>,
    keys: &'a Keys,
    index: &'a Index,
    position: usize,
}

impl Constructors<'_> {
    /// The constructor of the address of one row.
    fn key(&self) -> TokenStream {
        let (krate, scope, row) = (&self.model.krate, self.scope(), &self.index.row);
        let doc = format!("The row of one entity in the index `{}`.", row.literal.value());
        let returns = quote! { #krate::index::IndexKey<Self, #scope> };
        self.item(&self.index.name, doc, returns, (&row.pieces, None))
    }

    /// A constructor of all rows that begin with the first `end` pieces of the template.
    fn range(&self, name: &Ident, end: usize, doc: &str) -> TokenStream {
        let Self { model, index, .. } = self;
        let (krate, scope) = (&model.krate, self.scope());
        let doc = format!("{doc} The index is `{}`.", index.row.literal.value());
        let (given, open) = index.row.pieces.split_at(end);
        let next = open.iter().find_map(|piece| match piece {
            Piece::Part(part) => Some(format(model, part)),
            Piece::Literal(_) => None,
        });
        self.item(name, doc, quote! { #krate::index::IndexRange<Self, #scope> }, (given, next))
    }

    /// A constructor with these pieces of the RowKey, and the format of the part after them.
    fn item(
        &self,
        name: &Ident,
        doc: String,
        returns: TokenStream,
        (row, next): (&[Piece], Option<TokenStream>),
    ) -> TokenStream {
        let Self { model, keys, index, position } = *self;
        let pieces = (index.partition_pieces(keys), row);
        let rk = local_named("row");
        let bucket = index.write_bucket(&quote! { &#rk });
        AddressFn { name, doc, returns, position, pieces, bucket, next }.item(model)
    }

    fn scope(&self) -> TokenStream {
        let krate = &self.model.krate;
        let scope = self.index.scope();
        quote! { #krate::index::#scope }
    }
}
