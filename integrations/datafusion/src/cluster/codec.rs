//! Plans as messages: scans and writes of tables, and the rest by another codec.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::Schema;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::from_proto::{
    parse_protobuf_file_scan_config, parse_table_schema_from_proto,
};
use datafusion_proto::physical_plan::to_proto::serialize_file_scan_config;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalExprNode;
use datafusion_proto::protobuf::physical_expr_node::ExprType;
use prost::Message as _;
use rowkey::{Filter, StorageAccount, Table};

use super::messages::{self, Box2, Kind, Node, Place, Scan, Told, Total, Write};
use super::pruning::Linked;
use super::unresolved;
use crate::columns::{Mismatch, Rows};
use crate::scan::{EntitySource, Range, Read};
use crate::sink::{Target, TotalExec, WriteExec, WriteMode};

/// Before the messages of this crate. The last byte is the version: it changes with the messages.
const MARK: &[u8] = b"\0rowkey\x01";

/// Scans and writes of tables as messages, for the client, the scheduler and the executors of a cluster.
///
/// The messages have the names of accounts and tables, the ranges of keys and the conditions. They have no credential: an executor finds
/// accounts by name with [`resolve`](super::resolve). What is not of this crate is the other codec's.
///
/// [The module](super) shows it between the other steps.
pub struct TableCodec {
    rest: Arc<dyn PhysicalExtensionCodec>,
    /// Accounts by name, with which nothing can be sent.
    accounts: Mutex<HashMap<String, StorageAccount>>,
}

impl TableCodec {
    /// The codec, beside the one of the cluster.
    pub fn new(rest: Arc<dyn PhysicalExtensionCodec>) -> Self {
        Self { rest, accounts: Mutex::default() }
    }

    fn table(&self, place: Option<Place>) -> Result<Table> {
        let Place { account, table } = place.ok_or_else(|| broken("a table"))?;
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.get(&account) {
            return Ok(known.table(&table));
        }
        let unresolved = unresolved(&account)?;
        let table = unresolved.table(&table);
        accounts.insert(account, unresolved);
        Ok(table)
    }

    fn encode_scan(
        &self,
        exec: &DataSourceExec,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Option<Result<Scan>> {
        let (config, source) = exec.downcast_to_file_source::<EntitySource>()?;
        let scan = || {
            let Read { check, filter, rows, mismatch, is_whole, .. } = &source.read;
            let files = config.file_groups.iter().flat_map(FileGroup::iter);
            let range = |file: &datafusion::datasource::listing::PartitionedFile| {
                file.extension::<Arc<Range>>().map(|range| Box2::of(&range.span))
            };
            let ranges = files.map(range).collect::<Option<Vec<_>>>();
            let told = source.linked().iter().map(|one| {
                Ok(Told {
                    expression: Some(converter.physical_expr_to_proto(&one.told, self)?),
                    between: u32::try_from(one.between).unwrap_or(u32::MAX),
                })
            });
            // The reason would quote a value.
            let text = |filter: &Filter| {
                filter.to_odata().map_err(|_| {
                    DataFusionError::Plan(format!(
                        "a condition on the table {} cannot be sent to it; compare its columns with values that they can have",
                        source.table.name()
                    ))
                })
            };
            Ok(Scan {
                files: Some(serialize_file_scan_config(config, self, converter)?),
                place: Some(place(&source.table)),
                ranges: ranges.ok_or_else(|| {
                    internal_datafusion_err!("a file of a table scan has no range of keys")
                })?,
                check: messages::of_keys(check),
                filter: filter.as_ref().map(text).transpose()?,
                rows: Some(messages::of_rows(rows)),
                misfits_are_null: *mismatch == Mismatch::Null,
                is_whole: *is_whole,
                limit: config.limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX)),
                told: told.collect::<Result<_>>()?,
            })
        };
        Some(scan())
    }

    fn decode_scan(
        &self,
        scan: Scan,
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = scan.files.ok_or_else(|| broken("files"))?;
        let columns = parse_table_schema_from_proto(&files)?;
        let filter = scan.filter.map(|text| Filter::raw(&text));
        let read = Read {
            check: messages::keys(scan.check),
            filter: filter.transpose().map_err(|_| broken("a filter"))?,
            rows: Arc::new(scan.rows.map_or(Rows::ALL, messages::rows)),
            mismatch: if scan.misfits_are_null { Mismatch::Null } else { Mismatch::Fail },
            // It decides at the client alone.
            is_sampled: false,
            is_whole: scan.is_whole,
        };
        let context = PhysicalPlanDecodeContext::new(context, self);
        let told = scan.told.into_iter().map(|told| {
            let expression = told.expression.ok_or_else(|| broken("what a join tells"))?;
            let Some(ExprType::DynamicFilter(filter)) = &expression.expr_type else {
                return Err(broken("what a join tells"));
            };
            let parse = |node: &PhysicalExprNode| {
                converter.proto_to_physical_expr(node, columns.file_schema(), &context)
            };
            Ok(Linked {
                keys: filter.children.iter().map(parse).collect::<Result<_>>()?,
                told: parse(&expression)?,
                between: usize::try_from(told.between).unwrap_or(usize::MAX),
            })
        });
        let told = told.collect::<Result<_>>()?;
        let source =
            EntitySource::new(&self.table(scan.place)?, columns.file_schema(), read).linking(told);
        let config =
            parse_protobuf_file_scan_config(&files, &context, converter, Arc::new(source))?;
        let mut ranges = scan.ranges.into_iter();
        let mut groups = Vec::with_capacity(config.file_groups.len());
        for group in &config.file_groups {
            let mut files = Vec::with_capacity(group.len());
            for file in group.iter() {
                let span = ranges.next().ok_or_else(|| broken("a range of each file"))?.span();
                files.push(file.clone().with_extension(Arc::new(Range { span })));
            }
            groups.push(FileGroup::new(files));
        }
        let limit = scan.limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let config =
            FileScanConfigBuilder::from(config).with_file_groups(groups).with_limit(limit).build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn decode_write(
        &self,
        write: Write,
        input: Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema: Schema = (&write.schema.ok_or_else(|| broken("columns"))?).try_into()?;
        let target = Target {
            table: self.table(write.place)?,
            schema: Arc::new(schema),
            rows: Arc::new(write.rows.map_or(Rows::ALL, messages::rows)),
            mode: if write.replaces { WriteMode::Upsert } else { WriteMode::Insert },
            most_rejects: write.most_rejects,
        };
        Ok(Arc::new(WriteExec::new(input, target, write.is_sorted)?))
    }
}

fn place(table: &Table) -> Place {
    Place { account: table.account().name().to_owned(), table: table.name().to_owned() }
}

fn broken(what: &str) -> DataFusionError {
    internal_datafusion_err!(
        "the message of a table's plan has not {what}; run the same version of rowkey-sql as client, scheduler and executors"
    )
}

fn encode_write(write: &WriteExec) -> Result<Write> {
    let target = write.target();
    Ok(Write {
        place: Some(place(&target.table)),
        schema: Some(target.schema.as_ref().try_into()?),
        rows: Some(messages::of_rows(&target.rows)),
        replaces: target.mode == WriteMode::Upsert,
        most_rejects: target.most_rejects,
        is_sorted: write.is_sorted(),
    })
}

impl PhysicalExtensionCodec for TableCodec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let scan = node
            .downcast_ref::<DataSourceExec>()
            .and_then(|exec| self.encode_scan(exec, converter));
        let kind = if let Some(scan) = scan {
            Kind::Scan(Box::new(scan?))
        } else if let Some(write) = node.downcast_ref::<WriteExec>() {
            Kind::Write(Box::new(encode_write(write)?))
        } else if let Some(total) = node.downcast_ref::<TotalExec>() {
            Kind::Total(Total {
                table: total.table().to_owned(),
                most_rejects: total.most_rejects(),
            })
        } else {
            return self.rest.try_encode(node, buffer, converter);
        };
        buffer.extend_from_slice(MARK);
        Node { kind: Some(kind) }
            .encode(buffer)
            .map_err(|error| internal_datafusion_err!("a message has no room: {error}"))
    }

    fn try_decode(
        &self,
        buffer: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(message) = buffer.strip_prefix(MARK) else {
            return self.rest.try_decode(buffer, inputs, context, converter);
        };
        let node = Node::decode(message).map_err(|_| broken("a known form"))?;
        let input = || inputs.first().cloned().ok_or_else(|| broken("an input"));
        match node.kind.ok_or_else(|| broken("a known node"))? {
            Kind::Scan(scan) => self.decode_scan(*scan, context, converter),
            Kind::Write(write) => self.decode_write(*write, input()?),
            Kind::Total(Total { table, most_rejects }) => {
                Ok(Arc::new(TotalExec::new(input()?, table, most_rejects)))
            }
        }
    }

    fn try_decode_udf(&self, name: &str, buffer: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.rest.try_decode_udf(name, buffer)
    }

    fn try_encode_udf(&self, node: &ScalarUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.rest.try_encode_udf(node, buffer)
    }

    fn try_decode_higher_order_function(
        &self,
        name: &str,
        buffer: &[u8],
    ) -> Result<Arc<HigherOrderUDF>> {
        self.rest.try_decode_higher_order_function(name, buffer)
    }

    fn try_encode_higher_order_function(
        &self,
        node: &HigherOrderUDF,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        self.rest.try_encode_higher_order_function(node, buffer)
    }

    fn try_decode_udaf(&self, name: &str, buffer: &[u8]) -> Result<Arc<AggregateUDF>> {
        self.rest.try_decode_udaf(name, buffer)
    }

    fn try_encode_udaf(&self, node: &AggregateUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.rest.try_encode_udaf(node, buffer)
    }

    fn try_decode_udwf(&self, name: &str, buffer: &[u8]) -> Result<Arc<WindowUDF>> {
        self.rest.try_decode_udwf(name, buffer)
    }

    fn try_encode_udwf(&self, node: &WindowUDF, buffer: &mut Vec<u8>) -> Result<()> {
        self.rest.try_encode_udwf(node, buffer)
    }
}

impl fmt::Debug for TableCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableCodec").field("rest", &self.rest).finish_non_exhaustive()
    }
}
