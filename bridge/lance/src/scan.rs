//! Reading live rows of fragments in physical order.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{Field as ArrowField, Schema as ArrowSchema};
use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::dataset::scanner::Scanner;
use lance_arrow::ARROW_EXT_NAME_KEY;
use lance_core::datatypes::{BlobHandling, BlobKind, Field, Projection, Schema};
use lance_core::{
    ROW_ADDR_FIELD, ROW_CREATED_AT_VERSION_FIELD, ROW_ID_FIELD, ROW_LAST_UPDATED_AT_VERSION_FIELD,
};
use lance_datafusion::exec::{LanceExecutionOptions, execute_plan};
use lance_table::format::Fragment;
use serde::{Deserialize, Serialize};

use crate::dataset::{column, fragment, with_only};
use crate::error::{Failure, Outcome};
use crate::fragment::FragmentJson;
use crate::stream::BatchStream;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanRequest {
    #[serde(default)]
    fragments: Option<Vec<u64>>,
    #[serde(default)]
    new_fragment: Option<FragmentJson>,
    columns: Vec<String>,
    #[serde(default)]
    row_address: bool,
    #[serde(default)]
    row_id: bool,
    #[serde(default)]
    row_versions: bool,
    /// 0: Lance's default, for this and the next two.
    #[serde(default)]
    batch_rows: u64,
    #[serde(default)]
    batch_bytes: u64,
    #[serde(default)]
    io_buffer_bytes: u64,
}

#[derive(Serialize)]
pub struct Statistics {
    rows: u64,
    fragments_scanned: u64,
    rows_scanned: u64,
    bytes_read: u64,
    plan: String,
}

pub async fn scan(dataset: &Arc<Dataset>, request: ScanRequest) -> Outcome<BatchStream> {
    let identity = request.row_address || request.row_id || request.row_versions;
    let mut projection = columns_of(dataset, &request.columns)?;
    let mut dataset = dataset.clone();
    let fragments = match (request.fragments, request.new_fragment) {
        (Some(ids), None) => ids
            .into_iter()
            .map(|id| fragment(&dataset, id))
            .collect::<Outcome<Vec<_>>>()?,
        (None, Some(new)) => {
            if identity {
                return Err(Failure::invalid("a new fragment has no row identity yet"));
            }
            let mut new = new.into_new_fragment(
                dataset.schema(),
                dataset.manifest().data_storage_format.lance_file_format(),
            )?;
            // An id that none of this version's fragments has, lest a cache take it for one.
            new.id = dataset.manifest().max_fragment_id().map_or(0, |id| id + 1);
            if projection.fields.iter().any(Field::is_blob_v2) {
                dataset = Arc::new(with_only(&dataset, new.clone()).await?);
            }
            vec![new]
        }
        _ => {
            return Err(Failure::invalid(
                "a scan takes either \"fragments\" or \"new_fragment\"",
            ));
        }
    };
    if request.row_versions && !dataset.manifest().uses_stable_row_ids() {
        return Err(Failure::invalid(
            "only datasets with stable row ids have row versions",
        ));
    }

    refuse_external_blobs(&dataset, &fragments, &projection).await?;
    for (wanted, field) in [
        (request.row_address, &*ROW_ADDR_FIELD),
        (request.row_id, &*ROW_ID_FIELD),
        (request.row_versions, &*ROW_CREATED_AT_VERSION_FIELD),
        (request.row_versions, &*ROW_LAST_UPDATED_AT_VERSION_FIELD),
    ] {
        if wanted {
            projection.fields.push(Field::try_from(field)?);
        }
    }
    if projection.fields.is_empty() {
        return Err(Failure::invalid("a scan of no columns"));
    }

    let mut scanner = plain_scanner(&dataset, fragments);
    scanner.blob_handling(BlobHandling::AllBinary);
    scanner.project_with_schema(&projection)?;
    if request.batch_rows > 0 {
        scanner.batch_size(request.batch_rows as usize);
    }
    if request.batch_bytes > 0 {
        scanner.batch_size_bytes(request.batch_bytes);
    }
    if request.io_buffer_bytes > 0 {
        scanner.io_buffer_size(request.io_buffer_bytes);
        scanner.materialization_readahead_bytes(request.io_buffer_bytes);
    }
    // The plan's own stream: the scanner's would turn stored JSON into text and back.
    let plan = scanner.create_plan().await?;
    let options = LanceExecutionOptions {
        batch_size: (request.batch_rows > 0).then_some(request.batch_rows as usize),
        skip_logging: true,
        ..Default::default()
    };
    let stream = execute_plan(plan, options)?;
    let schema = stream.schema();
    let batches =
        stream.map(|batch| batch.map_err(|error| Failure::from(lance::Error::from(error))));
    BatchStream::spawn(schema, batches)
}

/// The whole schema as scans of all columns give it.
pub fn schema(dataset: &Arc<Dataset>) -> ArrowSchema {
    let all = Projection::full(dataset.clone())
        .with_blob_handling(BlobHandling::AllBinary)
        .to_arrow_schema();
    let fields: Vec<ArrowField> = all
        .fields()
        .iter()
        .zip(&dataset.schema().fields)
        .map(|(field, stored)| {
            let mut field = field.as_ref().clone();
            if stored.is_blob_v2() {
                // The mark of the stored form: what is given are plain bytes.
                let mut metadata = field.metadata().clone();
                metadata.remove(ARROW_EXT_NAME_KEY);
                field.set_metadata(metadata);
            }
            field
        })
        .collect();
    ArrowSchema::new_with_metadata(fields, all.metadata)
}

fn columns_of(dataset: &Dataset, names: &[String]) -> Outcome<Schema> {
    let mut seen = HashSet::new();
    let mut fields = Vec::with_capacity(names.len());
    for name in names {
        if !seen.insert(name) {
            return Err(Failure::invalid(format!("column {name:?} twice")));
        }
        fields.push(column(dataset, name)?.clone());
    }
    Ok(Schema {
        fields,
        metadata: dataset.schema().metadata.clone(),
    })
}

fn plain_scanner(dataset: &Arc<Dataset>, fragments: Vec<Fragment>) -> Scanner {
    let mut scanner = Scanner::new(dataset.clone());
    scanner
        .with_fragments(fragments)
        .scan_in_order(true)
        .use_scalar_index(false)
        .use_stats(false);
    scanner
}

/// Blobs that are references to objects elsewhere would come back as copies of them: refused, as
/// is what this library cannot write back at all.
async fn refuse_external_blobs(
    dataset: &Arc<Dataset>,
    fragments: &[Fragment],
    projection: &Schema,
) -> Outcome<()> {
    let blobs: Vec<Field> = projection
        .fields
        .iter()
        .filter(|field| field.is_blob_v2())
        .cloned()
        .collect();
    if blobs.is_empty() {
        return Ok(());
    }
    let mut scanner = plain_scanner(dataset, fragments.to_vec());
    scanner.blob_handling(BlobHandling::BlobsDescriptions);
    scanner.project_with_schema(&Schema {
        fields: blobs,
        metadata: projection.metadata.clone(),
    })?;
    let mut batches = scanner.try_into_stream().await?;
    while let Some(batch) = batches.try_next().await? {
        if let Some(name) = external_blob(&batch) {
            return Err(Failure::not_supported(format!(
                "column {name} holds references to objects outside of the dataset, which cannot be moved yet: write the \
                 rows with external_blob_mode=\"ingest\" instead"
            )));
        }
    }
    Ok(())
}

/// The first column of blob descriptions that has an external one.
fn external_blob(batch: &RecordBatch) -> Option<String> {
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let Some(kinds) = array
            .as_struct_opt()
            .and_then(|descriptions| descriptions.column_by_name("kind"))
            .and_then(|kinds| kinds.as_primitive_opt::<UInt8Type>())
        else {
            continue;
        };
        let external = (0..kinds.len()).any(|row| {
            array.is_valid(row)
                && kinds.is_valid(row)
                && matches!(BlobKind::try_from(kinds.value(row)), Ok(BlobKind::External))
        });
        if external {
            return Some(field.name().clone());
        }
    }
    None
}

/// Runs a filter over the whole version, with Lance's own choice of indexes.
pub async fn statistics(dataset: &Arc<Dataset>, filter: &str) -> Outcome<Statistics> {
    let counts = Arc::new(Mutex::new((0, 0, 0)));
    let mut scanner = Scanner::new(dataset.clone());
    scanner.filter(filter)?;
    let seen = counts.clone();
    scanner.scan_stats_callback(Arc::new(move |summary| {
        let count = |name: &str| summary.all_counts.get(name).copied().unwrap_or(0) as u64;
        if let Ok(mut seen) = seen.lock() {
            *seen = (
                count("fragments_scanned"),
                count("rows_scanned"),
                summary.bytes_read as u64,
            );
        }
    }));
    let plan = scanner.explain_plan(false).await?;
    let mut batches = scanner.try_into_stream().await?;
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        rows += batch.num_rows() as u64;
    }
    drop(batches);
    let (fragments_scanned, rows_scanned, bytes_read) = *counts
        .lock()
        .map_err(|_| Failure::internal("scan statistics lost"))?;
    Ok(Statistics {
        rows,
        fragments_scanned,
        rows_scanned,
        bytes_read,
        plan,
    })
}
