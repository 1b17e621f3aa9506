//! Backups of AzCopy 7.3 and earlier, the last versions with tables: a manifest, and files of OData JSON.
//!
//! # What is known
//!
//! - The data files "follow the payload format for minimal metadata": a value whose type JSON does not express has a
//!   member `Name@odata.type` beside it. Their names are `<account>_<table>_<timestamp>_<volume index>_<CRC>.json`, where
//!   the volume index is a range of partition keys (0 without `/PKRS`) and the number of the file in it, as in
//!   `myaccount_mytable_20140903T051850.8128447Z_0_1_0AB9AC20.json`. Without `/Manifest` the manifest is
//!   `<account>_<table>_<timestamp>.manifest`. Source: "Transfer data with the AzCopy Command-Line Utility" in the Azure
//!   documentation of 2015 to 2018 (`MicrosoftDocs/azure-docs`, `articles/storage/storage-use-azcopy.md`).
//! - The manifest is one JSON object. This one, written by AzCopy 6.1, is in
//!   [issue 129 of azure-storage-net-data-movement](https://github.com/Azure/azure-storage-net-data-movement/issues/129):
//!
//!   ```json
//!   {"Version":2,"PayloadFormat":"Json","Checksum":15564613245429458971,"AccountName":"arenaxstorage","TableName":"Leaderboard","Timestamp":"2018-05-28T03:06:11.6482709Z","SplitSize":200000,"TotalDataFiles":1}
//!   ```
//!
//!   The manifest of an empty table in that issue has 191 bytes, which is this form with the checksum 0 and no data
//!   files.
//! - The end of a file's name is a CRC-64 of its entities, and `Checksum` combines those of all files, as an answer on
//!   Stack Overflow (57591599) says. AzCopy refuses a renamed file.
//!
//! # What is assumed
//!
//! - No public source shows a whole data file. The [`Decoder`] reads each form that "minimal metadata" can mean: a page
//!   of the service (an object with the list `value`), a list, or entities one after the other, also several of these in
//!   a file.
//! - The polynomial and the input of the CRC are not public. So checksums are not compared; [`Manifest::data_files`]
//!   checks that no file is missing, and damaged JSON is an error. For the same reason AzCopy itself refuses files that
//!   the [`Encoder`] wrote: they are for other programs that read this format.
//! - Manifests of version 1 had at least the members `Version` and `PayloadFormat`; others are optional here.
//!
//! AzCopy's CSV (`/PayloadFormat:CSV`, with a `.schema.csv`) is not read. AzCopy could not import it either.

mod data;
mod manifest;

pub use data::{Decoder, Encoder};
pub use manifest::{DataFile, Manifest};
