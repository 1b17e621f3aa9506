//! A scan's ranges of keys, as the "files" of a file scan.
//!
//! A cluster divides the work of a stage among its tasks by the files of a file scan: it runs a leaf of any other kind whole in every
//! task, and counts its rows as often. So a scan of a table is a file scan, and a range of keys is a file.

use std::sync::Arc;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::execution::object_store::ObjectStoreUrl;

use crate::keys::Span;

/// A range of keys that one stream reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) span: Span,
}

/// The file of a range. Its name shows no keys.
fn file(number: usize, span: Span) -> PartitionedFile {
    PartitionedFile::new(format!("range-{number}"), 1).with_extension(Arc::new(Range { span }))
}

/// At most `groups` groups of ranges, each of which one stream reads, in order.
pub(crate) fn file_groups(spans: Vec<Span>, groups: usize) -> Vec<FileGroup> {
    let each = spans.len().div_ceil(groups.max(1)).max(1);
    let files: Vec<_> =
        spans.into_iter().enumerate().map(|(number, span)| file(number, span)).collect();
    files.chunks(each).map(|files| FileGroup::new(files.to_vec())).collect()
}

/// The object store of the files: one that every session has. No file is ever read from it.
pub(crate) fn object_store_url() -> ObjectStoreUrl {
    ObjectStoreUrl::local_filesystem()
}
