//! A warning for keys that only grow or only fall, so that all inserts go to one end of the table or partition.
//!
//! One server takes the writes of a range of partitions. With a time or a number in order as the first part of the
//! PartitionKey, every insert goes to the last range (or, if descending, to the first); with one constant PartitionKey,
//! to one end of one partition. The service's load balancing does not help, because the next insert goes there, too.
//! The design guide calls it the prepend/append anti-pattern.
//!
//! It is a warning and not an error, because it is correct at a small rate. A derive on stable Rust has one way to
//! warn: it uses an item that it declares deprecated, whose note is the message.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::Type;

use crate::model::{Keys, Model};
use crate::notation::Notation;
use crate::template::{Part, Template};
use crate::types::is_named;

/// The types of instants and days, and of the ids of the log tail, recognized by their spelling.
const TIMES: [&str; 4] = ["DateTime", "NaiveDate", "NaiveDateTime", "EntryId"];
/// The types of numbers that count for years. A smaller one begins again, as the day of a month does, and what order the
/// texts of a field have is not known.
const NUMBERS: [&str; 4] = ["i32", "i64", "u32", "u64"];
/// The last words of the names of numbers that count time or inserts.
const COUNTERS: [&str; 7] = ["date", "day", "seq", "sequence", "ticks", "time", "timestamp"];
/// The last words of the names of parts that spread the writes.
const SPREADING: [&str; 2] = ["bucket", "shard"];

/// The warnings of the entity's own keys and of its indexes in other partitions.
pub(crate) fn warnings(model: &Model<'_>, keys: &Keys) -> TokenStream {
    if keys.append_ok {
        return TokenStream::new();
    }
    let own = (&keys.partition, &keys.row, "inserts");
    let indexes = keys.declarations.elsewhere();
    let indexes = indexes.into_iter().map(|(partition, row)| (partition, row, "copies"));
    let all = std::iter::once(own).chain(indexes);
    all.filter_map(|(partition, row, what)| warning(model, partition, row, what)).collect()
}

fn warning(
    model: &Model<'_>,
    partition: &Template,
    row: &Template,
    what: &str,
) -> Option<TokenStream> {
    if partition.parts().any(spreads) {
        return None;
    }
    let (template, part, place) = match partition.parts().next() {
        Some(first) => (partition, first, "PartitionKey"),
        None => (row, row.parts().next()?, "RowKey"),
    };
    if !is_growing(model, part) {
        return None;
    }
    let (field, falls) = (&part.field, part.format.descending || is_log_tail(model, part));
    let (verb, end) = if falls { ("falls", "first") } else { ("grows", "last") };
    let (of, cure) = if place == "RowKey" {
        (
            format!("all {what} go to the {end} rows of one partition"),
            "put what spreads the writes into the PartitionKey, such as a device or a tenant",
        )
    } else {
        (
            format!("all {what} go to the {end} partition"),
            "begin with a part that spreads the writes, such as a device or a tenant, or add \
             `{part:bucket(8)}`",
        )
    };
    let note = format!(
        "the {place} begins with `{{{field}}}`, which only {verb}: {of}, and one server takes about \
         2,000 entities per second; {cure}; if the rate is small, write `#[entity(append_ok)]`"
    );
    // The span is that of the program's own text: the compiler does not warn of what another crate's macro wrote.
    let used = quote_spanned! { template.literal.span() => keys_in_one_order };
    Some(quote! {
        const _: () = {
            #[deprecated(note = #note)]
            #[allow(non_upper_case_globals)]
            const keys_in_one_order: () = ();
            #used
        };
    })
}

/// Whether the writes of one value of the part before are spread.
fn spreads(part: &Part) -> bool {
    part.bucket.is_some() || SPREADING.contains(&last_word(&part.field))
}

/// Whether new values are greater than those before, or with `desc` less.
fn is_growing(model: &Model<'_>, part: &Part) -> bool {
    let ty = model.fields[part.index].ty;
    match part.format.notation {
        Notation::Iso { .. } | Notation::Unix { .. } | Notation::Date | Notation::CompactDate => {
            true
        }
        _ if is_named(ty, &TIMES) => true,
        _ => is_named(ty, &NUMBERS) && COUNTERS.contains(&last_word(&part.field)),
    }
}

/// Whether the type is the id of the log tail, whose text is inverted ticks.
fn is_log_tail(model: &Model<'_>, part: &Part) -> bool {
    let ty: &Type = model.fields[part.index].ty;
    is_named(ty, &["EntryId"])
}

fn last_word(field: &str) -> &str {
    field.rsplit('_').next().unwrap_or(field)
}
