//! The pages of a column, whose sizes are checked before memory is used for them.
//!
//! The Parquet reader allocates what the header of a page, of a dictionary or of a list of lengths says, and compares it with
//! the data afterwards. A few damaged bytes would ask for many gigabytes, and a program that does not get them is aborted.

use std::io::{self, Read};
use std::sync::Arc;

use ::parquet::basic::{Encoding, Type as Physical};
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::metadata::ColumnChunkMetaData;
use ::parquet::file::reader::ChunkReader;
use ::parquet::file::serialized_reader::SerializedPageReader;

use super::thrift::Header;
use crate::error::{Error, ErrorKind};

/// The most bytes of a page. Writers begin another one after 1 MiB, most of them after whole batches of rows.
const MAX_PAGE: u64 = 128 << 20;
/// The most values of a dictionary, of 32 bytes in memory. Most writers give up dictionaries of more than 1 MiB.
const MAX_ENTRIES: u64 = 1 << 22;

/// The pages of one column of a row group.
pub(super) struct Pages<R: ChunkReader> {
    inner: SerializedPageReader<R>,
    input: Arc<R>,
    /// Where the next page begins, and how many bytes the column has from there on.
    offset: u64,
    left: u64,
    /// The fewest bytes of a value in a dictionary.
    width: u64,
    has_nulls: bool,
}

impl<R: ChunkReader> Pages<R> {
    pub(super) fn new(
        input: &Arc<R>,
        column: &ColumnChunkMetaData,
        rows: usize,
    ) -> ParquetResult<Self> {
        let (offset, left) = column.byte_range();
        let width = match column.column_type() {
            // A length.
            Physical::BYTE_ARRAY | Physical::INT32 | Physical::FLOAT => 4,
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => 12,
            Physical::FIXED_LEN_BYTE_ARRAY => {
                u64::try_from(column.column_descr().type_length()).unwrap_or_default()
            }
            Physical::BOOLEAN => 1,
        };
        let inner = SerializedPageReader::new(Arc::clone(input), column, rows, None)?;
        let has_nulls = column.column_descr().max_def_level() > 0;
        Ok(Self { inner, input: Arc::clone(input), offset, left, width, has_nulls })
    }

    /// Checks the header of the next page.
    fn check(&mut self) -> ParquetResult<()> {
        while self.left > 0 {
            let input = self.input.get_read(self.offset)?.take(self.left);
            let header = Header::read(input).map_err(failed)?;
            let size = header.length.saturating_add(header.compressed);
            if size > self.left {
                return Err(failed(io::ErrorKind::UnexpectedEof.into()));
            }
            self.offset = self.offset.saturating_add(size);
            self.left = self.left.saturating_sub(size);
            if header.uncompressed > MAX_PAGE || header.entries > MAX_ENTRIES {
                let what = "it has a page of more than 128 MiB, or a dictionary of more than 4,194,304 values; write the \
                            file with smaller pages";
                return Err(ParquetError::External(Box::new(Error::new(ErrorKind::TooLong, what))));
            }
            if header.entries.saturating_mul(self.width) > header.uncompressed {
                return Err(ParquetError::General("a dictionary is larger than its page".into()));
            }
            if !header.is_index {
                break;
            }
        }
        Ok(())
    }

    /// Checks the lists of lengths in a page.
    fn check_lists(&self, page: &Page) -> ParquetResult<()> {
        let (levels, values) = match page {
            Page::DataPage { buf, num_values, def_level_encoding, .. } => {
                let levels = match (self.has_nulls, def_level_encoding) {
                    (false, _) => Some(0),
                    (true, Encoding::RLE) => buf.first_chunk().and_then(|length| {
                        usize::try_from(u32::from_le_bytes(*length)).ok()?.checked_add(4)
                    }),
                    (true, _) => usize::try_from(num_values.div_ceil(8)).ok(),
                };
                (levels, *num_values)
            }
            Page::DataPageV2 { def_levels_byte_len, rep_levels_byte_len, num_values, .. } => {
                let levels = def_levels_byte_len.checked_add(*rep_levels_byte_len);
                (levels.and_then(|levels| usize::try_from(levels).ok()), *num_values)
            }
            Page::DictionaryPage { .. } => return Ok(()),
        };
        let lists = match page.encoding() {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
            // Of the prefixes that a value shares with the one before, and of the rest.
            Encoding::DELTA_BYTE_ARRAY => 2,
            _ => return Ok(()),
        };
        let mut data = levels.and_then(|levels| page.buffer().get(levels..));
        for _ in 0..lists {
            data = data
                .and_then(|data| list_end(data, u64::from(values)).and_then(|end| data.get(end..)));
        }
        match data {
            Some(_) => Ok(()),
            None => Err(ParquetError::General("a list of lengths is damaged".into())),
        }
    }
}

impl<R: ChunkReader> PageReader for Pages<R> {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        self.check()?;
        let page = self.inner.get_next_page()?;
        if let Some(page) = &page {
            self.check_lists(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.inner.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.check()?;
        self.inner.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.inner.at_record_boundary()
    }
}

impl<R: ChunkReader> Iterator for Pages<R> {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn failed(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Where a list of lengths ends, which is packed as differences (`DELTA_BINARY_PACKED`); `None` if it has more than `most`
/// or is damaged.
fn list_end(data: &[u8], most: u64) -> Option<usize> {
    let mut at = 0;
    let mut number = || {
        let mut sum = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte: u8 = *data.get(at)?;
            at += 1;
            sum |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or_default();
            if byte < 0x80 {
                return Some(sum);
            }
        }
        None
    };
    let (block, pieces, count, _first) = (number()?, number()?, number()?, number()?);
    let in_piece = usize::try_from(block.checked_div(pieces)?).ok()?;
    let pieces = usize::try_from(pieces).ok()?;
    let mut left = usize::try_from(count).ok().filter(|_| count <= most)?.saturating_sub(1);
    while left > 0 {
        // The least difference.
        while *data.get(at)? >= 0x80 {
            at += 1;
        }
        at += 1;
        let widths = data.get(at..at.checked_add(pieces)?)?;
        at += pieces;
        for width in widths {
            // Pieces behind the last value have no bytes.
            if left > 0 {
                at = at.checked_add(usize::from(*width).checked_mul(in_piece)? / 8)?;
                left = left.saturating_sub(in_piece);
            }
        }
    }
    Some(at)
}
