//! The bodies of Put Block List and Get Block List.
//!
//! Reference: [Put Block List](https://learn.microsoft.com/rest/api/storageservices/put-block-list).

use rowkey_wire::blob::BlockSource;
use rowkey_wire::limits::MAX_BLOCKS;
use rowkey_wire::xml::{Element, Writer, XmlError};

/// Parses the body of Put Block List.
pub(crate) fn parse(body: &[u8]) -> Result<Vec<(BlockSource, String)>, XmlError> {
    let mut blocks = Vec::new();
    let root = Element::read_children(body, "BlockList", |child| {
        let sources = [BlockSource::Committed, BlockSource::Latest, BlockSource::Uncommitted];
        let source = sources.into_iter().find(|source| source.element() == child.name);
        let source = source.ok_or(XmlError::Unexpected("BlockList"))?;
        if blocks.len() == MAX_BLOCKS {
            return Err(XmlError::TooMany { element: source.element(), limit: MAX_BLOCKS });
        }
        blocks.push((source, child.text.trim_ascii().to_owned()));
        Ok(())
    })?;
    if !root.text.trim_ascii().is_empty() {
        return Err(XmlError::Unexpected("BlockList"));
    }
    Ok(blocks)
}

/// The response to Get Block List. Lists that were not requested are `None`.
pub(crate) fn render<'a, C, U>(committed: Option<C>, uncommitted: Option<U>) -> String
where
    C: ExactSizeIterator<Item = (&'a str, u64)>,
    U: ExactSizeIterator<Item = (&'a str, u64)>,
{
    let mut writer = Writer::response();
    writer.start("BlockList");
    if let Some(blocks) = committed {
        write_blocks(&mut writer, "CommittedBlocks", blocks);
    }
    if let Some(blocks) = uncommitted {
        write_blocks(&mut writer, "UncommittedBlocks", blocks);
    }
    writer.end("BlockList");
    writer.finish()
}

fn write_blocks<'a>(
    writer: &mut Writer,
    name: &str,
    blocks: impl ExactSizeIterator<Item = (&'a str, u64)>,
) {
    if blocks.len() == 0 {
        return writer.empty(name);
    }
    writer.start(name);
    for (id, size) in blocks {
        writer.start("Block");
        writer.leaf("Name", id);
        writer.leaf("Size", &size.to_string());
        writer.end("Block");
    }
    writer.end(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `test_block_blob.test_put_block_list_invalid_block_id`
    const REQUEST: &str = "<?xml version='1.0' encoding='utf-8'?>\n<BlockList><Latest>MQ==</Latest><Latest>Mg==</Latest><Latest>NA==</Latest></BlockList>";
    /// `test_storage_blob.test_get_block_list_committed_blocks`
    const RESPONSE: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><CommittedBlocks><Block><Name>MQ==</Name><Size>3</Size></Block><Block><Name>Mg==</Name><Size>3</Size></Block><Block><Name>Mw==</Name><Size>3</Size></Block></CommittedBlocks><UncommittedBlocks /></BlockList>";
    /// `test_block_blob.test_get_block_list_uncommitted_blocks`
    const UNCOMMITTED: &str = "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList><UncommittedBlocks><Block><Name>MQ==</Name><Size>3</Size></Block></UncommittedBlocks></BlockList>";

    #[test]
    fn a_recorded_request_parses() {
        let read = parse(REQUEST.as_bytes()).unwrap();
        assert_eq!(read, ["MQ==", "Mg==", "NA=="].map(|id| (BlockSource::Latest, id.to_owned())));
    }

    #[test]
    fn the_response_matches_a_recording() {
        let blocks = [("MQ==", 3), ("Mg==", 3), ("Mw==", 3)];
        let none: [(&str, u64); 0] = [];
        assert_eq!(render(Some(blocks.into_iter()), Some(none.into_iter())), RESPONSE);
        let one = [("MQ==", 3)];
        assert_eq!(render(None::<std::array::IntoIter<_, 0>>, Some(one.into_iter())), UNCOMMITTED);
    }

    #[test]
    fn malformed_documents_are_rejected() {
        assert_eq!(parse(b"<List/>"), Err(XmlError::Missing("BlockList")));
        assert_eq!(parse(b"<BlockList/>"), Ok(vec![]));
        for body in ["<BlockList>x</BlockList>", "<BlockList><Other>MQ==</Other></BlockList>"] {
            assert_eq!(parse(body.as_bytes()), Err(XmlError::Unexpected("BlockList")));
        }
    }
}
