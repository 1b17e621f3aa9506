//! Totals in a run of `verify` or `repair`: each total of a declaration over several entities is checked once.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rowkey_client::Result;
use rowkey_patterns::job::{Report, Verdict};

use super::examine::note_failure;
use crate::declaring::Declaration;
use crate::row::Keys;

/// The most totals that a run remembers. If there are more, some are checked again.
const MAX_TOTALS: usize = 4096;

/// The totals that a run has checked, by declaration and target.
#[derive(Default)]
pub(super) struct Totals(Mutex<Checked>);

type Checked = HashSet<(String, String)>;

/// The totals of one page. They count as checked only when the whole page has been checked: a page that failed is
/// examined again,
/// and its first report is lost.
pub(super) struct OnPage<'r> {
    run: &'r Totals,
    page: Totals,
}

impl Totals {
    /// Begins a page.
    pub(super) fn page(&self) -> OnPage<'_> {
        OnPage { run: self, page: Self::default() }
    }

    fn checked(&self) -> MutexGuard<'_, Checked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnPage<'_> {
    /// Ends a page that was examined.
    pub(super) fn keep(self) {
        let mut run = self.run.checked();
        if run.len() >= MAX_TOTALS {
            run.clear();
        }
        run.extend(std::mem::take(&mut *self.page.checked()));
    }

    /// Checks the totals of these targets of a declaration, except those that the run has checked. `keys`
    /// are those of the row that led to them.
    pub(super) async fn examine<E>(
        &self,
        declaration: &dyn Declaration<E>,
        addresses: &[String],
        keys: &Keys,
        repairs: bool,
        report: &mut Report,
    ) -> Result<()> {
        for address in addresses {
            if !self.is_new(declaration.name(), address) {
                continue;
            }
            let part = format!("totals of {}", declaration.name());
            match declaration.examine_total(address, repairs).await {
                Ok(Verdict::Right) => {}
                Ok(verdict) => {
                    report.note(Some(&part), verdict, 1);
                    if repairs && verdict != Verdict::Skipped {
                        report.repaired(Some(&part), 1);
                    }
                }
                Err(error) => note_failure(error, keys, report)?,
            }
        }
        Ok(())
    }

    /// Notes a target; returns whether it was not noted before.
    fn is_new(&self, declaration: &str, address: &str) -> bool {
        let target = (declaration.to_owned(), address.to_owned());
        !self.run.checked().contains(&target) && self.page.checked().insert(target)
    }
}
