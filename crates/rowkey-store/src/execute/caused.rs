//! The declarations that cause a request, by whose names meters list it.

use std::collections::BTreeSet;

use rowkey_client::internals::declared;

/// Runs a future whose requests these declarations share. Their names are joined by `+`.
pub(super) fn caused_by<'n, F: Future, N: IntoIterator<Item = &'n str>>(
    names: N,
    requests: F,
) -> impl Future<Output = F::Output> + use<F, N> {
    let names: BTreeSet<_> = names.into_iter().collect();
    let names = names.into_iter().collect::<Vec<_>>().join("+");
    declared(names, requests)
}
