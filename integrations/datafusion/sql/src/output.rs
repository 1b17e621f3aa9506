//! Rows as tables for reading, and as CSV, JSON lines and Parquet for programs. All but tables stream.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Arc;

use comfy_table::{Table, presets};
use datafusion::arrow::array::{Array, ArrayRef, Float64Array, StringArray};
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{
    Encoder, EncoderFactory, EncoderOptions, LineDelimited, NullableEncoder, Writer as JsonWriter,
    WriterBuilder as JsonBuilder,
};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, ZstdLevel};
use datafusion::parquet::file::properties::WriterProperties;
use futures::TryStreamExt as _;

use crate::args::Form;
use crate::error::{Error, Result};

/// Longer texts are cut in tables; the other forms have them whole.
const MAX_CELL: usize = 60;
/// The most rows in one table. Further ones get another table, so that memory does not grow.
const MAX_ROWS: usize = 1_000;

/// Fails if two columns have one name and the form can have only one of them.
pub(crate) fn check(form: Form, schema: &Schema) -> Result<()> {
    let fields = schema.fields();
    let twice = fields.iter().enumerate().find_map(|(at, field)| {
        let is_same = |other: &&FieldRef| other.name() == field.name();
        fields.iter().skip(at + 1).find(is_same)
    });
    match (twice, form) {
        (Some(field), Form::Json | Form::Parquet) => Err(Error::usage(format!(
            "two columns have the name {}, of which readers of {form:?} see one; name one otherwise: SELECT .. AS ..",
            field.name()
        ))),
        _ => Ok(()),
    }
}

/// Writes rows as they come.
pub(crate) async fn write(form: Form, mut rows: SendableRecordBatchStream) -> Result<()> {
    let mut writer = Writer::new(form, &rows.schema())?;
    while let Some(batch) = rows.try_next().await? {
        writer.write(&batch)?;
    }
    writer.finish()
}

/// Writes one batch.
pub(crate) fn batch(form: Form, batch: &RecordBatch) -> Result<()> {
    let mut writer = Writer::new(form, &batch.schema())?;
    writer.write(batch)?;
    writer.finish()
}

enum Writer {
    /// Waits for the rows of a table.
    Table {
        schema: SchemaRef,
        waiting: Vec<RecordBatch>,
        is_begun: bool,
    },
    Csv(Box<csv::Writer<BufWriter<Stdout>>>),
    Json(JsonWriter<BufWriter<Stdout>, LineDelimited>),
    Parquet(Box<ArrowWriter<BufWriter<Stdout>>>),
}

impl Writer {
    fn new(form: Form, schema: &SchemaRef) -> Result<Self> {
        let out = BufWriter::new(io::stdout());
        Ok(match form {
            Form::Table => {
                Self::Table { schema: Arc::clone(schema), waiting: Vec::new(), is_begun: false }
            }
            Form::Csv => {
                let mut writer = csv::WriterBuilder::new().with_header(true).build(out);
                // The header of a result without rows.
                writer.write(&RecordBatch::new_empty(flat_schema(schema))).map_err(failed)?;
                Self::Csv(Box::new(writer))
            }
            Form::Json => Self::Json(
                JsonBuilder::new()
                    .with_explicit_nulls(true)
                    .with_encoder_factory(Arc::new(NotFinite))
                    .build(out),
            ),
            Form::Parquet => {
                let level = ZstdLevel::try_new(1).map_err(DataFusionError::from)?;
                let properties =
                    WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let writer = ArrowWriter::try_new(out, Arc::clone(schema), Some(properties));
                Self::Parquet(Box::new(writer.map_err(DataFusionError::from)?))
            }
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Table { waiting, is_begun, .. } => {
                let mut batch = batch.clone();
                loop {
                    let count: usize = waiting.iter().map(RecordBatch::num_rows).sum();
                    let fits = (MAX_ROWS - count).min(batch.num_rows());
                    waiting.push(batch.slice(0, fits));
                    if count + fits < MAX_ROWS {
                        return Ok(());
                    }
                    table(waiting)?;
                    (*is_begun, batch) = (true, batch.slice(fits, batch.num_rows() - fits));
                    waiting.clear();
                }
            }
            Self::Csv(writer) => writer.write(&flat(batch)?).map_err(failed),
            Self::Json(writer) => writer.write(batch).map_err(failed),
            Self::Parquet(writer) => Ok(writer.write(batch).map_err(DataFusionError::from)?),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Table { schema, mut waiting, is_begun } => {
                waiting.retain(|batch| batch.num_rows() > 0);
                if waiting.is_empty() {
                    if is_begun || schema.fields().is_empty() {
                        return Ok(());
                    }
                    waiting.push(RecordBatch::new_empty(schema));
                }
                table(&waiting)
            }
            Self::Csv(writer) => Ok(writer.into_inner().flush()?),
            Self::Json(mut writer) => {
                writer.finish().map_err(failed)?;
                Ok(writer.into_inner().flush()?)
            }
            Self::Parquet(writer) => {
                let mut out = writer.into_inner().map_err(DataFusionError::from)?;
                Ok(out.flush()?)
            }
        }
    }
}

/// Writes NaN and the infinities as text, as the service does: JSON has no such numbers, and null is something else.
#[derive(Debug)]
struct NotFinite;

impl EncoderFactory for NotFinite {
    fn make_default_encoder<'a>(
        &self,
        _: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> std::result::Result<Option<NullableEncoder<'a>>, ArrowError> {
        let Some(doubles) = array.as_any().downcast_ref::<Float64Array>() else { return Ok(None) };
        Ok(Some(NullableEncoder::new(Box::new(Doubles(doubles)), doubles.nulls().cloned())))
    }
}

struct Doubles<'a>(&'a Float64Array);

impl Encoder for Doubles<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        let value = self.0.value(index);
        let text = match value {
            _ if value.is_nan() => "\"NaN\"".to_owned(),
            f64::INFINITY => "\"Infinity\"".to_owned(),
            f64::NEG_INFINITY => "\"-Infinity\"".to_owned(),
            // The shortest text that is the same number, with a point or an exponent.
            _ => format!("{value:?}"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

fn failed(error: ArrowError) -> Error {
    // The writer of CSV has texts alone.
    if matches!(&error, ArrowError::CsvError(text) if text.contains("Broken pipe")) {
        return io::Error::from(io::ErrorKind::BrokenPipe).into();
    }
    DataFusionError::from(error).into()
}

/// The columns of CSV, in which lists and structures are text.
fn flat_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type().is_nested() {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
        false => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn flat(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    if !schema.fields().iter().any(|field| field.data_type().is_nested()) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(|column| {
        if !column.data_type().is_nested() {
            return Ok(Arc::clone(column));
        }
        let options = FormatOptions::default();
        let text = ArrayFormatter::try_new(column.as_ref(), &options).map_err(failed)?;
        let cells =
            (0..column.len()).map(|row| column.is_valid(row).then(|| text.value(row).to_string()));
        Ok(Arc::new(cells.collect::<StringArray>()) as ArrayRef)
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(flat_schema(&schema), columns).map_err(failed)
}

fn table(batches: &[RecordBatch]) -> Result<()> {
    let Some(first) = batches.first() else { return Ok(()) };
    let schema = first.schema();
    let mut shown = Table::new();
    shown.load_preset(presets::UTF8_FULL_CONDENSED);
    shown.set_header(schema.fields().iter().map(|field| shortened(field.name())));
    let options = FormatOptions::default();
    for batch in batches {
        let columns =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(failed)?;
        for row in 0..batch.num_rows() {
            shown.add_row(columns.iter().zip(batch.columns()).map(|(column, values)| {
                let text = column.value(row).to_string();
                // An empty text is `""`, and NULL an empty cell.
                if text.is_empty() && values.is_valid(row) {
                    "\"\"".to_owned()
                } else {
                    shortened(&text)
                }
            }));
        }
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{shown}")?;
    Ok(())
}

/// A text without control characters, which could change the terminal, and of limited length.
fn shortened(text: &str) -> String {
    let mut cell = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == MAX_CELL {
            cell.push('…');
            break;
        }
        push(&mut cell, c);
    }
    cell
}

pub(crate) fn push(cell: &mut String, c: char) {
    if c.is_control() {
        cell.extend(c.escape_default());
    } else {
        cell.push(c);
    }
}
