//! Compression of files: none, gzip or Zstandard.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip at its usual level, 6, which all tools read.
    Gzip,
    /// Zstandard at its usual level, 3, with a checksum. Needs the feature `zstd`.
    Zstd,
}

impl Compression {
    /// The end of the names of such files: empty, `.gz` or `.zst`.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }

    /// The compression that the end of a name says.
    ///
    /// ```
    /// use rowkey_transfer::Compression;
    ///
    /// assert_eq!(Compression::of_name("orders.jsonl.gz"), Compression::Gzip);
    /// assert_eq!(Compression::of_name("orders.jsonl"), Compression::None);
    /// ```
    pub fn of_name(name: &str) -> Self {
        let named = [Self::Gzip, Self::Zstd].into_iter();
        named.into_iter().find(|known| name.ends_with(known.extension())).unwrap_or_default()
    }
}

/// Compresses what is written. Without [`finish`](Self::finish) the file is not whole.
///
/// ```
/// use std::io::{BufReader, Read, Write};
///
/// use rowkey_transfer::{Compression, Compressor, Decompressor};
///
/// let mut out = Compressor::new(Vec::new(), Compression::Gzip)?;
/// out.write_all(b"orders")?;
/// let file = out.finish()?;
/// let mut text = String::new();
/// Decompressor::new(&file[..], Compression::Gzip)?.read_to_string(&mut text)?;
/// assert_eq!(text, "orders");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Compressor<W: Write>(Out<W>);

enum Out<W: Write> {
    None(W),
    Gzip(GzEncoder<W>),
    #[cfg(feature = "zstd")]
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compressor<W> {
    /// Compresses to `out`.
    ///
    /// Fails for [`Compression::Zstd`] without the feature `zstd`.
    pub fn new(out: W, compression: Compression) -> Result<Self> {
        Ok(Self(match compression {
            Compression::None => Out::None(out),
            Compression::Gzip => Out::Gzip(GzEncoder::new(out, flate2::Compression::default())),
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
                encoder.include_checksum(true)?;
                Out::Zstd(encoder)
            }
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => return Err(no_zstd()),
        }))
    }

    /// Writes the end of the compressed data, and returns what was written to.
    pub fn finish(self) -> Result<W> {
        let mut out = match self.0 {
            Out::None(out) => out,
            Out::Gzip(encoder) => encoder.finish()?,
            #[cfg(feature = "zstd")]
            Out::Zstd(encoder) => encoder.finish()?,
        };
        out.flush()?;
        Ok(out)
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Out::None(out) => out.write(bytes),
            Out::Gzip(encoder) => encoder.write(bytes),
            #[cfg(feature = "zstd")]
            Out::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Does nothing for compressed data, which a flush would make larger.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Out::None(out) => out.flush(),
            Out::Gzip(_) => Ok(()),
            #[cfg(feature = "zstd")]
            Out::Zstd(_) => Ok(()),
        }
    }
}

impl<W: Write> fmt::Debug for Compressor<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            Out::None(_) => "None",
            Out::Gzip(_) => "Gzip",
            #[cfg(feature = "zstd")]
            Out::Zstd(_) => "Zstd",
        };
        f.debug_tuple("Compressor").field(&name).finish()
    }
}

/// Reads compressed data. Several compressed files one after the other are read as one.
///
/// Zstandard with a window of more than 64 MiB, as `zstd --long=31` makes it, is an error: it needs that much memory.
pub struct Decompressor<R: BufRead>(In<R>);

enum In<R: BufRead> {
    None(R),
    Gzip(BufReader<MultiGzDecoder<R>>),
    #[cfg(feature = "zstd")]
    Zstd(BufReader<zstd::Decoder<'static, Source<R>>>),
}

impl<R: BufRead> Decompressor<R> {
    /// Reads `input`.
    ///
    /// Fails for [`Compression::Zstd`] without the feature `zstd`.
    pub fn new(input: R, compression: Compression) -> Result<Self> {
        Ok(Self(match compression {
            Compression::None => In::None(input),
            Compression::Gzip => In::Gzip(BufReader::new(MultiGzDecoder::new(input))),
            #[cfg(feature = "zstd")]
            Compression::Zstd => {
                let mut decoder = zstd::Decoder::with_buffer(Source(input))?;
                // 64 MiB.
                decoder.window_log_max(26)?;
                In::Zstd(BufReader::new(decoder))
            }
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd => return Err(no_zstd()),
        }))
    }

    /// What is read from.
    pub(crate) fn get_mut(&mut self) -> &mut R {
        match &mut self.0 {
            In::None(input) => input,
            In::Gzip(decoder) => decoder.get_mut().get_mut(),
            #[cfg(feature = "zstd")]
            In::Zstd(decoder) => &mut decoder.get_mut().get_mut().0,
        }
    }
}

impl<R: BufRead> Read for Decompressor<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Decompressor<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.0 {
            In::None(input) => input.fill_buf(),
            In::Gzip(decoder) => decoder.fill_buf(),
            #[cfg(feature = "zstd")]
            In::Zstd(decoder) => decoder.fill_buf().map_err(damaged),
        }
    }

    fn consume(&mut self, count: usize) {
        match &mut self.0 {
            In::None(input) => input.consume(count),
            In::Gzip(decoder) => decoder.consume(count),
            #[cfg(feature = "zstd")]
            In::Zstd(decoder) => decoder.consume(count),
        }
    }
}

impl<R: BufRead> fmt::Debug for Decompressor<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.0 {
            In::None(_) => "None",
            In::Gzip(_) => "Gzip",
            #[cfg(feature = "zstd")]
            In::Zstd(_) => "Zstd",
        };
        f.debug_tuple("Decompressor").field(&name).finish()
    }
}

/// What compressed data is read from. Errors of the library have no kind of their own, so those of the source are marked.
#[cfg(feature = "zstd")]
struct Source<R>(R);

#[cfg(feature = "zstd")]
impl<R: Read> Read for Source<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(marked)
    }
}

#[cfg(feature = "zstd")]
impl<R: BufRead> BufRead for Source<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf().map_err(marked)
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }
}

/// An error of the source.
#[cfg(feature = "zstd")]
#[derive(Debug)]
struct Marked(io::Error);

#[cfg(feature = "zstd")]
impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(feature = "zstd")]
impl std::error::Error for Marked {}

#[cfg(feature = "zstd")]
fn marked(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Other => io::Error::other(Marked(error)),
        _ => error,
    }
}

/// The error of the source, or that the data is damaged.
#[cfg(feature = "zstd")]
fn damaged(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::Other {
        return error;
    }
    match error.downcast::<Marked>() {
        Ok(Marked(error)) => error,
        Err(error) => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

#[cfg(not(feature = "zstd"))]
fn no_zstd() -> crate::error::Error {
    let what =
        "Zstandard is not built in; build rowkey-transfer with its feature `zstd`, or use gzip";
    crate::error::Error::new(crate::error::ErrorKind::Unsupported, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    const ALL: &[Compression] = if cfg!(feature = "zstd") {
        &[Compression::None, Compression::Gzip, Compression::Zstd]
    } else {
        &[Compression::None, Compression::Gzip]
    };

    fn compress(text: &[u8], compression: Compression) -> Vec<u8> {
        let mut out = Compressor::new(Vec::new(), compression).unwrap();
        out.write_all(text).unwrap();
        out.flush().unwrap();
        out.finish().unwrap()
    }

    fn decompress(file: &[u8], compression: Compression) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        Decompressor::new(file, compression)?.read_to_end(&mut text)?;
        Ok(text)
    }

    #[test]
    fn data_comes_back_also_from_files_one_after_the_other() {
        let text: Vec<u8> = (0..100_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for compression in ALL {
            let file = compress(&text, *compression);
            assert_eq!(file.len() < text.len() / 2, *compression != Compression::None);
            assert_eq!(decompress(&file, *compression).unwrap(), text);
            let twice = decompress(&[&file[..], &file[..]].concat(), *compression).unwrap();
            assert_eq!(twice, [&text[..], &text[..]].concat());
            assert_eq!(decompress(&compress(b"", *compression), *compression).unwrap(), b"");
        }
    }

    #[test]
    fn damaged_data_is_an_error() {
        for compression in ALL.iter().filter(|each| **each != Compression::None) {
            let file = compress(&vec![7; 10_000], *compression);
            for length in 1..file.len() {
                let error = decompress(&file[..length], *compression).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Truncated, "{compression:?} {length}");
            }
            let mut flipped = file.clone();
            let last = flipped.len() - 2;
            flipped[last] ^= 1;
            let error = decompress(&flipped, *compression).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{compression:?} {error}");
        }
    }

    #[test]
    fn a_failed_connection_is_no_damaged_file() {
        struct Failing;

        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("connection reset"))
            }
        }

        for compression in ALL {
            let file = compress(&vec![7; 10_000], *compression);
            let input = BufReader::new(Read::chain(&file[..file.len() / 2], Failing));
            let mut text = Vec::new();
            let error = Decompressor::new(input, *compression).unwrap().read_to_end(&mut text);
            let error = crate::error::Error::from(error.unwrap_err());
            assert_eq!(error.kind(), ErrorKind::Io, "{compression:?} {error}");
        }
    }

    #[test]
    fn names_say_how_files_are_compressed() {
        for compression in [Compression::None, Compression::Gzip, Compression::Zstd] {
            let name = format!("a.jsonl{}", compression.extension());
            assert_eq!(Compression::of_name(&name), compression);
            let json = serde_json::to_string(&compression).unwrap();
            assert_eq!(serde_json::from_str::<Compression>(&json).unwrap(), compression);
        }
    }
}
