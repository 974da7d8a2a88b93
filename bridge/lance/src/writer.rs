//! Data files, one fragment each, under names that the caller chooses.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef};
use lance::Dataset;
use lance::blob::{BlobArrayBuilder, blob_field};
use lance::dataset::{DataFilePart, DataFileTarget};
use lance_arrow::json::{convert_json_columns, has_arrow_json_fields};
use lance_core::datatypes::Schema;
use lance_file::version::ConcreteFileVersion;
use lance_file::versions::create_writer;
use lance_file::writer::{FileWriter, FileWriterOptions};
use lance_io::local::to_local_path;
use lance_io::traits::Writer;
use lance_table::format::{DataFile, Fragment};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::border;
use crate::dataset::{inside, primary_store, require_writable};
use crate::error::{Failure, Outcome};
use crate::files::data_file_info;
use crate::fragment::{DATA_FOLDER, FragmentJson};
use crate::local_file::LocalFile;
use crate::scan;
use crate::seeds::Seeds;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriterRequest {
    name: String,
    /// Rows per batch that the caller means to give; nothing depends on it.
    #[serde(default)]
    #[allow(dead_code)]
    batch_rows_hint: u64,
    /// What the encoders hold back, all columns together; 0: Lance's 8 MiB a column.
    #[serde(default)]
    buffer_bytes: u64,
}

#[derive(Serialize)]
pub struct FinishedFile {
    fragment: FragmentJson,
    rows: u64,
    bytes: u64,
}

pub struct DataFileWriter {
    dataset: Arc<Dataset>,
    name: String,
    /// What batches are checked against, by name and type: the scan's view of the columns.
    expected: SchemaRef,
    rows: u64,
    sink: Option<Sink>,
}

enum Sink {
    File(Box<FileWriter>, Seeds),
    Parts(Parts),
}

/// A file with blob v2 columns. Only Lance's part files go through its handling of blobs: the rows
/// are written into one part, which is then assembled into the final file.
struct Parts {
    target: DataFileTarget,
    batches: Option<mpsc::Sender<lance::Result<RecordBatch>>>,
    task: Option<JoinHandle<lance::Result<DataFilePart>>>,
}

impl DataFileWriter {
    pub async fn open(dataset: &Arc<Dataset>, request: WriterRequest) -> Outcome<Self> {
        require_writable(dataset).await?;
        let name = request.name.as_str();
        let stem = name.strip_suffix(".lance").unwrap_or_default();
        if stem.is_empty() || stem.starts_with('.') || name.contains(['/', '\\']) {
            return Err(Failure::invalid(format!(
                "not a name for a data file: {name:?}"
            )));
        }
        let path = inside(dataset, &format!("{DATA_FOLDER}/{name}"))?;
        let store = primary_store(dataset).await?;
        if store.exists(&path).await? {
            return Err(Failure::invalid(format!("{path} exists already")));
        }
        let version = dataset.manifest().data_storage_format.lance_file_format();
        let schema = dataset.schema().clone();
        let sink = if schema.fields.iter().any(|field| field.is_blob_v2()) {
            Sink::Parts(Parts::open(dataset, name, version)?)
        } else {
            let output: Box<dyn Writer> = if store.has_direct_local_paths() {
                let file = LocalFile::create(PathBuf::from(to_local_path(&path)))
                    .map_err(|error| Failure::from(lance::Error::from(error)).context(&path))?;
                Box::new(file)
            } else {
                store.create(&path).await?
            };
            let options = FileWriterOptions {
                data_cache_bytes: (request.buffer_bytes > 0).then_some(request.buffer_bytes),
                ..Default::default()
            };
            let writer = create_writer(version, output, schema, options)?;
            Sink::File(Box::new(writer), Seeds::open(dataset).await?)
        };
        Ok(Self {
            expected: Arc::new(scan::schema(dataset)),
            dataset: dataset.clone(),
            name: name.to_string(),
            rows: 0,
            sink: Some(sink),
        })
    }

    pub fn path(&self) -> String {
        format!("{DATA_FOLDER}/{}", self.name)
    }

    pub async fn write(&mut self, batch: RecordBatch) -> Outcome<()> {
        if self.sink.is_none() {
            return Err(Failure::invalid(format!(
                "{} is finished already",
                self.path()
            )));
        }
        let batch = self.physical(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // A file whose write failed half-way is of no more use.
        let written = match &mut self.sink {
            Some(Sink::File(writer, seeds)) => write_batch(writer, seeds, &batch).await,
            Some(Sink::Parts(parts)) => parts.write(batch.clone()).await,
            None => Ok(()),
        };
        if let Err(failure) = written {
            self.discard().await;
            return Err(failure.context(self.path()));
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// The batch as Lance stores it: JSON text becomes JSONB, views become plain arrays, and bytes
    /// of blob v2 columns become blobs.
    fn physical(&self, batch: RecordBatch) -> Outcome<RecordBatch> {
        let given = batch.schema();
        let batch = if given
            .fields()
            .iter()
            .any(|field| has_arrow_json_fields(field))
        {
            convert_json_columns(&batch)?
        } else {
            batch
        };
        if batch.num_columns() != self.expected.fields().len() {
            return Err(Failure::invalid(format!(
                "a batch of {} columns for {} top-level columns",
                batch.num_columns(),
                self.expected.fields().len()
            )));
        }
        let mut fields = Vec::with_capacity(batch.num_columns());
        let mut columns = Vec::with_capacity(batch.num_columns());
        let schema = self.dataset.schema();
        let given = batch.schema();
        for ((index, expected), field) in self
            .expected
            .fields()
            .iter()
            .enumerate()
            .zip(&schema.fields)
        {
            if given.field(index).name() != expected.name() {
                return Err(Failure::invalid(format!(
                    "column {} of the batch is {:?}, not {:?}",
                    index + 1,
                    given.field(index).name(),
                    expected.name()
                )));
            }
            let column = without_view(batch.column(index))?;
            if field.is_blob_v2() {
                if let Some(bytes) = column.as_binary_opt::<i64>() {
                    fields.push(blob_field(expected.name(), expected.is_nullable()));
                    columns.push(blobs(bytes)?);
                    continue;
                }
                // A blob in its logical form, as Lance's users give it.
                if matches!(column.data_type(), DataType::Struct(_)) {
                    fields.push(blob_field_like(given.field(index), &column));
                    columns.push(column);
                    continue;
                }
            }
            if !column.data_type().equals_datatype(expected.data_type()) {
                return Err(Failure::invalid(format!(
                    "column {:?} of the batch is of type {}, not {}",
                    expected.name(),
                    column.data_type(),
                    expected.data_type()
                )));
            }
            fields.push(
                ArrowField::new(
                    expected.name(),
                    column.data_type().clone(),
                    expected.is_nullable(),
                )
                .with_metadata(expected.metadata().clone()),
            );
            columns.push(column);
        }
        Ok(RecordBatch::try_new(
            Arc::new(ArrowSchema::new(fields)),
            columns,
        )?)
    }

    /// Bytes that went to storage so far.
    pub async fn bytes(&mut self) -> Outcome<u64> {
        match &mut self.sink {
            Some(Sink::File(writer, _)) => Ok(writer.tell().await?),
            // A part does not say.
            Some(Sink::Parts(_)) | None => Ok(0),
        }
    }

    pub async fn finish(&mut self) -> Outcome<FinishedFile> {
        let path = self.path();
        let Some(sink) = self.sink.take() else {
            return Err(Failure::invalid(format!("{path} is finished already")));
        };
        if self.rows == 0 {
            self.sink = Some(sink);
            self.discard().await;
            return Err(Failure::invalid(format!("{path} has no rows")));
        }
        let finished = match sink {
            Sink::File(mut writer, seeds) => {
                finish_file(&self.dataset, &self.name, &mut writer, seeds).await
            }
            Sink::Parts(parts) => parts.finish(&self.dataset).await,
        };
        let file = finished.map_err(|failure| failure.context(&path))?;
        let info = data_file_info(&self.dataset, &path).await?;
        if info.rows != self.rows {
            return Err(Failure::internal(format!(
                "{path} has {} rows in storage, {} were written",
                info.rows, self.rows
            )));
        }
        let mut fragment = Fragment::new(0).with_physical_rows(self.rows as usize);
        fragment.files.push(file);
        Ok(FinishedFile {
            fragment: FragmentJson::describe(&self.dataset, &fragment).await?,
            rows: info.rows,
            bytes: info.bytes,
        })
    }

    /// Gives the unfinished file up and removes what is there of it.
    pub async fn discard(&mut self) {
        match self.sink.take() {
            // Dropping removes a local file and aborts an upload.
            Some(Sink::File(mut writer, _)) => writer.abort().await,
            Some(Sink::Parts(parts)) => parts.discard(&self.dataset).await,
            None => {}
        }
    }
}

async fn write_batch(
    writer: &mut FileWriter,
    seeds: &mut Seeds,
    batch: &RecordBatch,
) -> Outcome<()> {
    writer.write_batch(batch).await?;
    seeds.observe(batch)
}

async fn finish_file(
    dataset: &Dataset,
    name: &str,
    writer: &mut FileWriter,
    seeds: Seeds,
) -> Outcome<DataFile> {
    let (fields, columns) = writer
        .field_id_to_column_indices()
        .iter()
        .map(|(field, column)| (*field as i32, *column as i32))
        .unzip();
    seeds.embed(writer).await?;
    let summary = writer.finish().await?;
    Ok(DataFile::new(
        name,
        fields,
        columns,
        dataset.manifest().data_storage_format.lance_file_format(),
        NonZeroU64::new(summary.size_bytes),
        None,
    ))
}

impl Parts {
    fn open(dataset: &Arc<Dataset>, name: &str, version: ConcreteFileVersion) -> Outcome<Self> {
        let target = target_named(name, dataset.schema(), version)?;
        // Enough for one batch under way and one that waits.
        let (sender, mut batches) = mpsc::channel(1);
        let stream = futures::stream::poll_fn(move |context| batches.poll_recv(context));
        let (dataset, owned) = (dataset.clone(), target.clone());
        let task = border::runtime()?.spawn(async move {
            dataset
                .write_data_file_part(&owned, Some(1..u32::MAX), stream)
                .await
        });
        Ok(Self {
            target,
            batches: Some(sender),
            task: Some(task),
        })
    }

    async fn write(&mut self, batch: RecordBatch) -> Outcome<()> {
        let sent = match &self.batches {
            Some(batches) => batches.send(Ok(batch)).await.is_ok(),
            None => false,
        };
        if sent {
            return Ok(());
        }
        // The task ended early: it says why.
        match self.join().await {
            Err(failure) => Err(failure),
            Ok(_) => Err(Failure::internal("the file was closed too early")),
        }
    }

    async fn join(&mut self) -> Outcome<DataFilePart> {
        self.batches = None;
        let Some(task) = self.task.take() else {
            return Err(Failure::invalid("the file is closed"));
        };
        match task.await {
            Ok(part) => Ok(part?),
            Err(error) if error.is_panic() => Err(border::panicked(error.into_panic().as_ref())),
            Err(error) => Err(Failure::internal(error.to_string())),
        }
    }

    async fn finish(mut self, dataset: &Dataset) -> Outcome<DataFile> {
        let finished = match self.join().await {
            Ok(part) => dataset
                .concat_data_file_parts(&self.target, &[part])
                .await
                .map_err(Failure::from),
            Err(failure) => Err(failure),
        };
        match finished {
            Ok(file) => {
                // The parts are in the way of nobody; a failure to remove them is none of the write.
                let _ = self.target.finish(dataset).await;
                Ok(file)
            }
            Err(failure) => {
                self.discard(dataset).await;
                Err(failure)
            }
        }
    }

    async fn discard(mut self, dataset: &Dataset) {
        self.batches = None;
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
        let _ = self.target.cleanup(dataset).await;
    }
}

/// A target of the caller's name. Lance names targets itself, but restores any name from the form
/// in which they are stored.
fn target_named(
    name: &str,
    schema: &Schema,
    version: ConcreteFileVersion,
) -> Outcome<DataFileTarget> {
    let named = || -> Result<DataFileTarget, serde_json::Error> {
        let random = DataFileTarget::new(None, Arc::new(schema.clone()), version)
            .map_err(serde::ser::Error::custom)?;
        let mut stored = serde_json::to_value(&random)?;
        stored["file_name"] = name.into();
        serde_json::from_value(stored)
    };
    use serde::ser::Error;
    named()
        .map_err(|error| Failure::invalid(format!("{name}: {}", serde_json::Error::custom(error))))
}

fn without_view(column: &ArrayRef) -> Outcome<ArrayRef> {
    let plain = match column.data_type() {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        _ => return Ok(column.clone()),
    };
    Ok(arrow::compute::cast(column, &plain)?)
}

fn blobs(bytes: &arrow_array::LargeBinaryArray) -> Outcome<ArrayRef> {
    let mut builder = BlobArrayBuilder::new(bytes.len());
    for value in bytes {
        match value {
            None => builder.push_null()?,
            Some([]) => builder.push_empty()?,
            Some(value) => builder.push_bytes(value)?,
        }
    }
    Ok(builder.finish()?)
}

fn blob_field_like(given: &ArrowField, column: &ArrayRef) -> ArrowField {
    let metadata = blob_field(given.name(), given.is_nullable())
        .metadata()
        .clone();
    ArrowField::new(
        given.name(),
        column.data_type().clone(),
        given.is_nullable(),
    )
    .with_metadata(metadata)
}
