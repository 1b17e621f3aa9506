//! Searches for blobs by their tags, over an account or in one container.

use super::account::Blobs;
use crate::op::blob::FindByTags;
use crate::op::marker::Marker;
use crate::op::views::FoundView;

impl Blobs {
    /// A page of at most `room` blobs whose tags match, by container and name, and where the next
    /// page starts. `only` is the container to search.
    pub(crate) fn find<'a>(
        &'a self,
        only: Option<&'a str>,
        options: &'a FindByTags,
        room: usize,
    ) -> (Vec<FoundView<'a>>, Option<Marker>) {
        let marker = options.marker.as_ref();
        let from = marker.and_then(|marker| marker.name.split_once('/')).unwrap_or_default();
        let mut matching = self
            .containers_from(only.unwrap_or(from.0))
            .take_while(|(name, _)| only.is_none_or(|only| only == *name))
            .flat_map(|(container, holder)| {
                let blobs = holder.tagged().map(move |(name, tags)| (container, name, tags));
                blobs.filter(move |(container, name, _)| (*container, *name) >= from)
            })
            .filter(|(container, _, tags)| options.filter.matches(tags, container))
            .map(|(container, name, tags)| FoundView { container, name, tags });
        let page: Vec<_> = matching.by_ref().take(room).collect();
        let next = matching.next();
        let next = next.map(|next| Marker {
            name: format!("{}/{}", next.container, next.name),
            snapshot: None,
        });
        (page, next)
    }
}
