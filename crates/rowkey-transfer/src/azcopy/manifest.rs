//! The manifest of an AzCopy backup, and the names of its files.

use rowkey_entity::edm::DateTime;
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// The manifest of an AzCopy backup. The [module](super) has an example of its JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct Manifest {
    version: u32,
    payload_format: String,
    /// A CRC-64 of all entities, which this library neither checks nor computes; 0 if it wrote the manifest.
    #[serde(default)]
    pub checksum: u64,
    /// The name of the account that the table was in.
    #[serde(default)]
    pub account_name: String,
    /// The name of the table.
    #[serde(default)]
    pub table_name: String,
    /// When the export started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<DateTime>,
    /// The size from which AzCopy began another file, in MB.
    #[serde(default)]
    pub split_size: u64,
    /// How many data files there are; an empty table has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_data_files: Option<u64>,
}

/// A data file, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataFile {
    /// The whole name.
    pub name: String,
    /// The number of the range of partition keys, from 0.
    pub range: u32,
    /// The number of the file in the range, from 0.
    pub part: u32,
}

impl Manifest {
    /// The manifest of data files that an [`Encoder`](super::Encoder) wrote.
    ///
    /// ```
    /// use rowkey_transfer::azcopy::Manifest;
    ///
    /// let started = "2018-05-28T03:06:11.6482709Z".parse()?;
    /// let manifest = Manifest::new("myaccount", "orders", started, 1);
    /// assert_eq!(Manifest::from_json(manifest.to_json().as_bytes())?, manifest);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        account: impl Into<String>,
        table: impl Into<String>,
        started: DateTime,
        data_files: u64,
    ) -> Self {
        Self {
            version: 2,
            payload_format: "Json".to_owned(),
            checksum: 0,
            account_name: account.into(),
            table_name: table.into(),
            timestamp: Some(started),
            split_size: 200_000,
            total_data_files: Some(data_files),
        }
    }

    /// Writes the manifest in one line, as AzCopy does.
    pub fn to_json(&self) -> String {
        // All members are text and numbers.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a manifest.
    ///
    /// Fails for a newer version than 2, and for files that are not JSON.
    pub fn from_json(json: &[u8]) -> Result<Self> {
        let json = json.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(json);
        let manifest: Self = serde_json::from_slice(json).map_err(|error| {
            let (kind, what) = if error.is_eof() {
                (ErrorKind::Truncated, "the manifest ends too early; fetch it again")
            } else {
                (ErrorKind::Malformed, "it is not the manifest of an AzCopy backup of a table")
            };
            Error::new(kind, what).at_line(error.line() as u64, error.column() as u64)
        })?;
        if !(1..=2).contains(&manifest.version) {
            let what =
                format!("the backup has version {}; versions 1 and 2 are read", manifest.version);
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        if !manifest.payload_format.eq_ignore_ascii_case("json") {
            let what =
                "the data files are not JSON; AzCopy's CSV has no types that could be restored";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        Ok(manifest)
    }

    /// Picks the data files of this manifest from the names in its folder, in their order.
    ///
    /// `name` is that of the manifest itself, such as `myaccount_orders_20140903T051850.8128447Z.manifest`, with which
    /// the names of its files begin.
    ///
    /// Fails if one is missing: if there are fewer or more than the manifest counts, or if the numbers of the files have
    /// a gap.
    ///
    /// ```
    /// use rowkey_transfer::azcopy::Manifest;
    ///
    /// let json = br#"{"Version":2,"PayloadFormat":"Json","Checksum":1,"TableName":"orders","TotalDataFiles":2}"#;
    /// let manifest = Manifest::from_json(json)?;
    /// let folder = ["a_orders.manifest", "a_orders_0_1_0AB9AC20.json", "a_orders_0_0_C3040FE8.json", "notes.txt"];
    /// let files = manifest.data_files("a_orders.manifest", folder)?;
    /// assert_eq!(files[0].name, "a_orders_0_0_C3040FE8.json");
    /// # Ok::<(), rowkey_transfer::Error>(())
    /// ```
    pub fn data_files<N: AsRef<str>>(
        &self,
        name: &str,
        folder: impl IntoIterator<Item = N>,
    ) -> Result<Vec<DataFile>> {
        let stem = name.strip_suffix(".manifest").unwrap_or(name);
        let mut files: Vec<DataFile> =
            folder.into_iter().filter_map(|name| DataFile::of(stem, name.as_ref())).collect();
        files.sort_by_key(|file| (file.range, file.part));
        if let Some(listed) = self.total_data_files
            && listed != files.len() as u64
        {
            let what = format!(
                "the manifest counts {listed} data files, and there are {} whose names begin with its own; copy all of \
                 them to one folder",
                files.len()
            );
            return Err(Error::new(ErrorKind::Mismatch, what));
        }
        if let Some(first) = files.first()
            && first.part != 0
        {
            let what =
                format!("a data file is missing before {}; copy it to the folder", first.name);
            return Err(Error::new(ErrorKind::Mismatch, what));
        }
        for pair in files.windows(2) {
            let (one, next) = ((pair[0].range, pair[0].part), (pair[1].range, pair[1].part));
            if one == next {
                let what = format!("{} and {} are the same part", pair[0].name, pair[1].name);
                return Err(Error::new(ErrorKind::Duplicate, what));
            }
            // A range without entities may have no file.
            let follows = next == (one.0, one.1.saturating_add(1)) || one.0 < next.0 && next.1 == 0;
            if !follows {
                let what = format!(
                    "a data file is missing between {} and {}; copy it to the folder",
                    pair[0].name, pair[1].name
                );
                return Err(Error::new(ErrorKind::Mismatch, what));
            }
        }
        Ok(files)
    }
}

impl DataFile {
    /// The file with this name, if the name begins with that of the manifest.
    fn of(stem: &str, name: &str) -> Option<Self> {
        let rest = name.strip_prefix(stem)?.strip_prefix('_')?;
        let (rest, extension) = rest.rsplit_once('.')?;
        if !extension.eq_ignore_ascii_case("json") {
            return None;
        }
        let mut pieces = rest.rsplit('_');
        let crc = pieces.next()?;
        let is_crc = !crc.is_empty() && crc.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut number = || pieces.next().map_or(Some(0), |text| text.parse().ok());
        let (part, range) = (number()?, number()?);
        (is_crc && pieces.next().is_none()).then(|| Self { name: name.to_owned(), range, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in issue 129 of azure-storage-net-data-movement.
    const PUBLISHED: &str = concat!(
        r#"{"Version":2,"PayloadFormat":"Json","Checksum":15564613245429458971,"AccountName":"arenaxstorage","#,
        r#""TableName":"Leaderboard","Timestamp":"2018-05-28T03:06:11.6482709Z","SplitSize":200000,"TotalDataFiles":1}"#
    );

    #[test]
    fn the_published_manifest_is_read_and_written() {
        let manifest = Manifest::from_json(PUBLISHED.as_bytes()).unwrap();
        assert_eq!(manifest.table_name, "Leaderboard");
        assert_eq!(manifest.total_data_files, Some(1));
        assert_eq!(manifest.to_json(), PUBLISHED);
        let started = manifest.timestamp.unwrap();
        // The manifest of the empty table in the same issue had 191 bytes.
        let empty = Manifest::new("arenaxstorage", "LeaderboardDaily", started, 0);
        assert_eq!(empty.to_json().len(), 191);
    }

    #[test]
    fn other_manifests_are_refused() {
        for (from, to, kind) in [
            ("\"Version\":2", "\"Version\":3", ErrorKind::Unsupported),
            ("\"Version\":2", "\"Version\":0", ErrorKind::Unsupported),
            ("\"Json\"", "\"Csv\"", ErrorKind::Unsupported),
            ("\"Leaderboard\"", "[\"secret\"]", ErrorKind::Malformed),
            ("\"PayloadFormat\"", "\"Other\"", ErrorKind::Malformed),
        ] {
            let changed = PUBLISHED.replacen(from, to, 1);
            let error = Manifest::from_json(changed.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.to_string().contains("secret"));
        }
        for length in 0..PUBLISHED.len() {
            let error = Manifest::from_json(&PUBLISHED.as_bytes()[..length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated);
        }
    }

    #[test]
    fn the_first_file_of_the_first_range_may_not_be_missing() {
        let json = br#"{"Version":1,"PayloadFormat":"Json"}"#;
        let manifest = Manifest::from_json(json).unwrap();
        let error = manifest.data_files("a.manifest", ["a_0_1_A.json", "a_0_2_B.json"]);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Mismatch);
        assert_eq!(manifest.data_files("a.manifest", ["a_3_0_A.json"]).unwrap().len(), 1);
    }

    #[test]
    fn files_are_those_that_begin_with_the_name_of_the_manifest() {
        let stem = "a_t_20140903T051850.8128447Z";
        let manifest = format!("{stem}.manifest");
        let of = |count, ends: &[&str]| {
            let folder: Vec<_> = ends.iter().map(|end| format!("{stem}{end}")).collect();
            let manifest_of = Manifest::new("a", "t", DateTime::MIN, count);
            let files = manifest_of.data_files(&manifest, folder);
            files.map(|files| files.iter().map(|file| (file.range, file.part)).collect::<Vec<_>>())
        };
        assert_eq!(of(1, &["_C3040FE8.json", ".manifest"]).unwrap(), [(0, 0)]);
        assert_eq!(of(1, &["_0_C3040FE8C3040FE8.JSON"]).unwrap(), [(0, 0)]);
        let split = ["_0_1_A.json", "_2_0_B.json", "_0_0_C.json", "_0_0_C.csv", "_0_0_0_C.json"];
        assert_eq!(of(3, &split).unwrap(), [(0, 0), (0, 1), (2, 0)]);
        assert_eq!(of(0, &[]).unwrap(), []);
        assert_eq!(of(0, &["_x.json", "b_0_0_C.json", "_0_0_.json"]).unwrap(), []);
        for (count, ends, kind) in [
            (2, &["_0_0_A.json"][..], ErrorKind::Mismatch),
            (1, &["_0_0_A.json", "_0_1_B.json"], ErrorKind::Mismatch),
            (2, &["_0_0_A.json", "_0_2_B.json"], ErrorKind::Mismatch),
            (2, &["_0_0_A.json", "_1_1_B.json"], ErrorKind::Mismatch),
            (2, &["_0_0_A.json", "_0_0_B.json"], ErrorKind::Duplicate),
        ] {
            assert_eq!(of(count, ends).unwrap_err().kind(), kind, "{ends:?}");
        }
    }
}
