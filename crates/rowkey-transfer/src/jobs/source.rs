//! What a table is filled from: a backup, a backup of AzCopy, or one file.

use std::fs::File;
use std::path::Path;

use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use rowkey_entity::DynamicEntity;

use super::decode::{Failure, stream_of};
use super::export::MANIFEST;
use super::location::{Location, blocking};
use crate::azcopy;
use crate::backup::{BackupFile, FileDecoder, Manifest};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Format, Rows, ended};
use crate::row::Row;

/// The end of the names of AzCopy's manifests.
const AZCOPY: &str = ".manifest";

/// The rows of a backup, of a backup of AzCopy, or of one file. The [module](super) has an example.
#[derive(Debug)]
pub struct Source {
    location: Location,
    files: Vec<Part>,
    table: Option<String>,
}

/// A file of a source.
#[derive(Clone, Debug)]
struct Part {
    name: String,
    format: Format,
    compression: Compression,
    /// What the manifest of a backup says of it.
    listed: Option<BackupFile>,
}

impl Source {
    /// Reads the manifest in a location: `manifest.json` of a [backup](crate::backup), or one that AzCopy wrote, whose name
    /// ends with `.manifest`.
    ///
    /// Fails if there is none or more than one, and if files that an AzCopy manifest counts are missing. Blobs: costs two
    /// requests, or three for AzCopy's.
    pub async fn open(location: &Location) -> Result<Self> {
        if let Some(json) = location.read(MANIFEST).await? {
            let manifest = Manifest::from_json(&json).map_err(|error| error.in_file(MANIFEST))?;
            let files = manifest.files.into_iter().map(|listed| Part {
                name: listed.name.clone(),
                format: Format::JsonLines,
                compression: listed.compression,
                listed: Some(listed),
            });
            let (files, table) = (files.collect(), Some(manifest.table));
            return Ok(Self { location: location.clone(), files, table });
        }
        let names = location.names().await?;
        let mut manifests = names.iter().filter(|name| name.ends_with(AZCOPY));
        let what = match (manifests.next(), manifests.next()) {
            (Some(name), None) => {
                let json = location.read(name).await?.unwrap_or_default();
                return Self::azcopy(location, name, &json, &names)
                    .map_err(|error| error.in_file(&**name));
            }
            (None, _) => {
                "there is no manifest, neither manifest.json nor one of AzCopy; name a file, or the folder of a whole backup"
            }
            (Some(_), Some(_)) => {
                "there are several manifests of AzCopy; put each with its files into a folder of its own"
            }
        };
        Err(Error::new(ErrorKind::Mismatch, what).in_file(location.to_string()))
    }

    fn azcopy(location: &Location, name: &str, json: &[u8], names: &[String]) -> Result<Self> {
        let manifest = azcopy::Manifest::from_json(json)?;
        let files = manifest.data_files(name, names)?.into_iter().map(|file| Part {
            name: file.name,
            format: Format::AzCopy,
            compression: Compression::None,
            listed: None,
        });
        let table = Some(manifest.table_name).filter(|name| !name.is_empty());
        Ok(Self { location: location.clone(), files: files.collect(), table })
    }

    /// The rows of one file.
    pub fn file(path: &Path, format: Format, compression: Compression) -> Self {
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let part = Part { name, format, compression, listed: None };
        Self { location: Location::folder(folder), files: vec![part], table: None }
    }

    /// The name of the table, if a manifest says it.
    pub fn table(&self) -> Option<&str> {
        self.table.as_deref()
    }

    /// How many rows there are, if a manifest says it.
    pub fn rows(&self) -> Option<u64> {
        self.files.iter().map(|file| file.listed.as_ref().map(|listed| listed.rows)).sum()
    }

    /// Reads all files to their ends, and returns how many rows they have.
    ///
    /// Fails for the first file that is missing or damaged or, in a backup, differs from its entry in the manifest. Call it before
    /// an import, which would notice the damage only after rows before it are written.
    pub async fn verify(&self) -> Result<u64> {
        let mut all = 0;
        for part in &self.files {
            let rows = part.rows(&self.location).await?;
            let count = move || -> Result<u64> {
                rows.map(|row| row.map(drop)).try_fold(0, |rows, row| row.map(|()| rows + 1))
            };
            let counted = blocking(move || Ok(count())).await?;
            all += counted.map_err(|error| error.in_file(&*part.name))?;
        }
        Ok(all)
    }

    /// The rows of all files. The first error is the last item.
    pub fn stream(self) -> impl Stream<Item = Result<Row>> + Send + 'static {
        let Self { location, files, .. } = self;
        let files = stream::iter(files).then(move |part| {
            let location = location.clone();
            async move {
                let rows = part.rows(&location).await?;
                let name = part.name;
                Ok::<_, Error>(
                    stream_of(rows).map_err(move |error: Error| error.in_file(name.clone())),
                )
            }
        });
        files.try_flatten()
    }

    /// The entities of all files, for a job that stores them, and what tells whether reading them failed: pass the job to
    /// [`Failure::or`].
    pub fn entities(self) -> (impl Stream<Item = DynamicEntity> + Send + 'static, Failure) {
        Failure::of_stream(self.stream())
    }
}

impl Part {
    async fn rows(&self, location: &Location) -> Result<Rows> {
        let file = location.open(&self.name).await?;
        let part = self.clone();
        // Some formats have a head that is read here.
        let rows = blocking(move || Ok(part.decode(file))).await?;
        rows.map_err(|error| error.in_file(&*self.name))
    }

    fn decode(&self, file: File) -> Result<Rows> {
        match &self.listed {
            Some(listed) => Ok(ended(FileDecoder::new(file, listed)?)),
            None => self.format.read(file, self.compression),
        }
    }
}
