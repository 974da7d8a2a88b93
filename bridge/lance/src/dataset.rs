//! Opening and creating datasets, and what all the other modules need to know about one.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatchIterator;
use arrow_schema::{Schema as ArrowSchema, SchemaRef};
use futures::FutureExt;
use lance::dataset::builder::DatasetBuilder;
use lance::dataset::transaction::{Operation, Transaction, TransactionBuilder};
use lance::dataset::{CommitBuilder, InsertBuilder, WriteMode, WriteParams};
use lance::index::DatasetIndexExt;
use lance::session::Session;
use lance::{Dataset, datatypes::Field};
use lance_file::version::{ConcreteFileVersion, LanceFileVersion};
use lance_io::object_store::{
    ObjectStore, ObjectStoreParams, ObjectStoreRegistry, StorageOptionsAccessor,
};
use lance_table::feature_flags::{
    FLAG_FRAGMENT_REUSE_INDEX, ensure_can_write_manifest, managed_blobs_enabled,
};
use lance_table::format::{Fragment, IndexMetadata, Manifest};
use lance_table::io::commit::commit_handler_from_url;
use lance_table::io::manifest::read_manifest_indexes;
use lance_table::system_index::frag_reuse::FRAG_REUSE_INDEX_NAME;
use object_store::path::Path;
use roaring::RoaringBitmap;
use serde::Deserialize;
use uuid::Uuid;

use crate::border;
use crate::error::{Failure, Kind, Outcome};

/// The string maps of requests: storage options, configuration, transaction properties.
pub type StringMap = HashMap<String, String>;

/// Upper bounds of the caches of one open dataset, in bytes. Lance's own defaults are made for
/// servers (7 GiB) and no caller could account for them.
const METADATA_CACHE: usize = 128 << 20;
const INDEX_CACHE: usize = 256 << 20;

/// One version of one dataset: what a handle of the C ABI stands for.
pub struct DatasetHandle {
    pub dataset: Arc<Dataset>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CreateRequest {
    /// "2.0", "2.1", …; Lance's default when left out.
    storage_version: Option<String>,
    stable_row_ids: Option<bool>,
    config: StringMap,
}

/// Caches of its own for each open dataset: they are keyed by version numbers, which a dataset that
/// is dropped and made anew would share. The stores and their connections are the process's.
fn session() -> Arc<Session> {
    static STORES: OnceLock<Arc<ObjectStoreRegistry>> = OnceLock::new();
    let stores = STORES.get_or_init(Default::default).clone();
    Arc::new(Session::new(INDEX_CACHE, METADATA_CACHE, stores))
}

fn store_params(options: StringMap) -> Option<ObjectStoreParams> {
    (!options.is_empty()).then(|| ObjectStoreParams {
        storage_options_accessor: Some(Arc::new(StorageOptionsAccessor::with_static_options(
            options,
        ))),
        ..Default::default()
    })
}

fn builder(uri: &str, options: &StringMap) -> DatasetBuilder {
    let builder = DatasetBuilder::from_uri(uri).with_session(session());
    if options.is_empty() {
        return builder;
    }
    builder.with_storage_options(options.clone())
}

/// The feature of this crate that each scheme of a URI needs, and whether it was built with it.
const STORES: [(&str, &str, bool); 5] = [
    ("s3", "aws", cfg!(feature = "aws")),
    ("s3+ddb", "aws", cfg!(feature = "aws")),
    ("gs", "gcp", cfg!(feature = "gcp")),
    ("az", "azure", cfg!(feature = "azure")),
    ("abfss", "azure", cfg!(feature = "azure")),
];

/// Refuses a URI whose object store was left out of this library, with what to do about it.
fn require_store(uri: &str) -> Outcome<()> {
    let scheme = uri.split_once("://").map(|(scheme, _)| scheme);
    let store = STORES.iter().find(|(name, ..)| Some(*name) == scheme);
    if let Some((name, feature, false)) = store {
        let mut features: Vec<&str> = STORES
            .iter()
            .filter(|(_, known, built)| *built || known == feature)
            .map(|(_, known, _)| *known)
            .collect();
        features.dedup();
        return Err(Failure::not_supported(format!(
            "the bridge to Lance was built without the object store of {name}://; build it with \
             `make THALWEG_LANCE_FEATURES={} bridge`",
            features.join(",")
        )));
    }
    Ok(())
}

/// Opens the version, or the latest one for 0. INVALID where what stands there is damaged.
pub async fn open(uri: &str, options: StringMap, version: u64) -> Outcome<Dataset> {
    if uri.is_empty() {
        return Err(Failure::invalid("the dataset's path is empty"));
    }
    require_store(uri)?;
    // Lance would try again for seconds.
    if std::path::Path::new(uri.strip_prefix("file://").unwrap_or(uri)).is_file() {
        return Err(Failure::invalid("a file, not the folder of a dataset"));
    }
    let mut opening = builder(uri, &options);
    if version != 0 {
        opening = opening.with_version(version);
    }
    // Lance relies on the lengths that a manifest states.
    let opened = AssertUnwindSafe(Box::pin(opening.load())).catch_unwind();
    let failure = match opened.await {
        Ok(Ok(dataset)) => {
            let stated = dataset.manifest().version;
            if stated == dataset.manifest_location().version {
                return Ok(dataset);
            }
            Failure::invalid(format!("it states to be version {stated}"))
        }
        Ok(Err(error)) => Failure::from(error),
        Err(payload) => border::panicked(payload.as_ref()),
    };
    if matches!(failure.kind, Kind::Io | Kind::Internal | Kind::Invalid)
        && let Some(name) = manifest_in_storage(builder(uri, &options), version).await
    {
        let why = match failure.kind {
            Kind::Internal => "it cannot be parsed",
            _ => failure.message.as_str(),
        };
        return Err(Failure::invalid(format!(
            "the manifest _versions/{name} is damaged: {why}"
        )));
    }
    Err(failure)
}

/// The name of a version's manifest where storage gives its bytes: then a failure to read it is not
/// the storage's.
async fn manifest_in_storage(builder: DatasetBuilder, version: u64) -> Option<String> {
    let (store, base, handler) = builder.build_object_store().await.ok()?;
    let location = if version == 0 {
        handler.resolve_latest_location(&base, &store).await
    } else {
        let inner = store.inner.as_ref();
        handler
            .resolve_version_location(&base, version, inner)
            .await
    };
    let path = location.ok()?.path;
    let given = store.size(&path).await.ok()? == 0 || store.read_one_all(&path).await.is_ok();
    given.then(|| path.filename().unwrap_or_default().to_string())
}

/// Creates an empty dataset.
pub async fn create(
    uri: &str,
    options: StringMap,
    schema: ArrowSchema,
    request: CreateRequest,
) -> Outcome<Dataset> {
    require_store(uri)?;
    let storage_version = request
        .storage_version
        .map(|text| {
            text.parse::<LanceFileVersion>()
                .map_err(|error| Failure::from(error).context("storage_version"))
        })
        .transpose()?;
    if storage_version.map(LanceFileVersion::resolve) == Some(ConcreteFileVersion::V1) {
        return Err(Failure::not_supported(
            "datasets of the legacy storage version cannot be written",
        ));
    }
    let stable_row_ids = request.stable_row_ids.unwrap_or(false);
    let session = session();
    let params = WriteParams {
        mode: WriteMode::Create,
        data_storage_version: storage_version,
        enable_stable_row_ids: stable_row_ids,
        store_params: store_params(options),
        session: Some(session.clone()),
        ..Default::default()
    };
    let schema: SchemaRef = Arc::new(schema);
    let nothing = RecordBatchIterator::new(std::iter::empty(), schema);
    let insert = InsertBuilder::new(uri).with_params(&params);
    let mut transaction = Box::pin(insert.execute_uncommitted_stream(nothing)).await?;
    if let Operation::Overwrite {
        config_upsert_values,
        ..
    } = &mut transaction.operation
        && !request.config.is_empty()
    {
        config_upsert_values
            .get_or_insert_default()
            .extend(request.config);
    }
    // No retries: a dataset that another process created in between is not overwritten.
    let mut commit = CommitBuilder::new(uri)
        .use_stable_row_ids(stable_row_ids)
        .with_session(session)
        .with_timeout(None)
        .with_max_retries(0);
    if let Some(version) = storage_version {
        commit = commit.with_storage_format(version);
    }
    if let Some(params) = params.store_params.clone() {
        commit = commit.with_store_params(params);
    }
    Ok(Box::pin(commit.execute(transaction)).await?)
}

/// A view of the dataset in which this fragment, of no version yet, is the only one. The blobs of a
/// row are looked up by the fragment's id.
pub async fn with_only(dataset: &Dataset, fragment: Fragment) -> Outcome<Dataset> {
    let known = dataset.manifest();
    let mut manifest =
        Manifest::new_from_previous(known, known.schema.clone(), Arc::new(vec![fragment]));
    manifest.version = known.version;
    manifest.reader_feature_flags = known.reader_feature_flags;
    manifest.writer_feature_flags = known.writer_feature_flags;
    let store_params = dataset.store_params().cloned();
    let commit_handler = commit_handler_from_url(dataset.uri(), &store_params).await?;
    let view = DatasetBuilder::load_by_uri(
        session(),
        Some(manifest),
        None,
        dataset.uri().to_string(),
        None,
        primary_store(dataset).await?,
        root(dataset),
        commit_handler,
        store_params,
        None,
    );
    Ok(Box::pin(view).await?)
}

/// A handle at the latest version now in storage.
pub async fn latest(dataset: &Dataset) -> Outcome<Dataset> {
    let mut latest = dataset.clone();
    latest.checkout_latest().await?;
    Ok(latest)
}

/// A transaction read at `read_version`.
pub fn transaction(read_version: u64, operation: Operation, properties: StringMap) -> Transaction {
    TransactionBuilder::new(read_version, operation)
        .transaction_properties((!properties.is_empty()).then(|| Arc::new(properties)))
        .build()
}

/// Commits; `retries` is the number of attempts against other writers (None: Lance's default).
pub async fn commit(
    dataset: &Arc<Dataset>,
    transaction: Transaction,
    retries: Option<u32>,
) -> Outcome<Dataset> {
    // Without a time limit: one that strikes leaves open whether the commit happened.
    let mut builder = CommitBuilder::new(dataset.clone()).with_timeout(None);
    if let Some(retries) = retries {
        builder = builder.with_max_retries(retries);
    }
    Ok(Box::pin(builder.execute(transaction)).await?)
}

/// Commits indexes that were built for it, and removes their files where that certainly failed.
pub async fn commit_indices(
    dataset: &Dataset,
    built: Vec<Uuid>,
    commit: impl Future<Output = Outcome<Dataset>>,
) -> Outcome<Dataset> {
    match commit.await {
        Err(failure) if failure.kind != Kind::Unknown => {
            discard_indices(dataset, built, failure).await
        }
        outcome => outcome,
    }
}

/// The failure that indexes were built in vain for, once their files are removed.
pub async fn discard_indices<T>(
    dataset: &Dataset,
    built: Vec<Uuid>,
    failure: Failure,
) -> Outcome<T> {
    drop_files(dataset, built).await;
    Err(failure)
}

/// Removes the files of indexes that no version names. What is left over is in nobody's way.
pub async fn drop_files(dataset: &Dataset, built: Vec<Uuid>) {
    if let Ok(store) = primary_store(dataset).await {
        for uuid in built {
            let folder = dataset.indices_dir().join(uuid.to_string());
            let _ = store.remove_dir_all(folder).await;
        }
    }
}

/// All indexes of the manifest as it stores them, also those that this build cannot read and
/// with the fragments that are gone still in their bitmaps.
pub async fn stored_indices(dataset: &Dataset) -> Outcome<Vec<IndexMetadata>> {
    let store = primary_store(dataset).await?;
    Ok(read_manifest_indexes(&store, dataset.manifest_location(), dataset.manifest()).await?)
}

/// Whether the dataset has a fragment-reuse index, or ever had a tagged one.
pub fn has_fragment_reuse(dataset: &Dataset, stored: &[IndexMetadata]) -> bool {
    let flags = dataset.manifest().reader_feature_flags | dataset.manifest().writer_feature_flags;
    flags & FLAG_FRAGMENT_REUSE_INDEX != 0
        || stored
            .iter()
            .any(|index| index.name == FRAG_REUSE_INDEX_NAME)
}

/// Why this library cannot write the dataset; None when it can.
pub fn unwritable(dataset: &Dataset, stored: &[IndexMetadata]) -> Option<String> {
    let manifest = dataset.manifest();
    if let Err(error) = ensure_can_write_manifest(manifest) {
        return Some(Failure::from(error).message);
    }
    if manifest.data_storage_format.lance_file_format() == ConcreteFileVersion::V1 {
        return Some(
            "its storage version is the legacy one (0.1): copy the rows into a new dataset"
                .to_string(),
        );
    }
    if has_fragment_reuse(dataset, stored) {
        return Some(
            "it has a fragment-reuse index (compaction with deferred index remapping): let Lance bring its indexes up to \
             date (optimize_indices), then drop the index __lance_frag_reuse"
                .to_string(),
        );
    }
    if !matches!(managed_blobs_enabled(&manifest.schema), Ok(false)) || manifest.has_managed_blobs()
    {
        return Some(
            "it stores managed blobs (lance.blob.managed), which cannot be moved yet: copy the rows into a dataset without"
                .to_string(),
        );
    }
    manifest.schema.fields.iter().find_map(|field| {
        nested_blob(field).then(|| {
            format!(
                "column {} has blobs inside of it, which cannot be moved yet: make them a column of their own",
                field.name
            )
        })
    })
}

fn nested_blob(field: &Field) -> bool {
    // A blob's own parts are children as well.
    !field.is_blob()
        && field
            .children
            .iter()
            .any(|child| child.is_blob() || nested_blob(child))
}

/// Fails with NOT_SUPPORTED where [`unwritable`] gives a reason.
pub async fn require_writable(dataset: &Dataset) -> Outcome<Vec<IndexMetadata>> {
    let stored = stored_indices(dataset).await?;
    match unwritable(dataset, &stored) {
        Some(reason) => Err(Failure::not_supported(format!(
            "the dataset cannot be written: {reason}"
        ))),
        None => Ok(stored),
    }
}

/// The usable ones among the dataset's indexes, by uuid.
pub async fn usable_indices(dataset: &Dataset) -> Outcome<Arc<Vec<IndexMetadata>>> {
    Ok(dataset.load_indices().await?)
}

pub async fn usable_ids(dataset: &Dataset) -> Outcome<HashSet<Uuid>> {
    let usable = usable_indices(dataset).await?;
    Ok(usable.iter().map(|index| index.uuid).collect())
}

pub async fn primary_store(dataset: &Dataset) -> Outcome<Arc<ObjectStore>> {
    Ok(dataset.object_store(None).await?)
}

/// The dataset's root in its store.
pub fn root(dataset: &Dataset) -> Path {
    dataset.branch_location().path
}

/// A path relative to the root as one of the store. Parts "." and ".." and absolute paths are
/// refused.
pub fn inside(dataset: &Dataset, relative: &str) -> Outcome<Path> {
    if relative.is_empty() || relative.starts_with('/') {
        return Err(Failure::invalid(format!(
            "not a path inside of the dataset: {relative:?}"
        )));
    }
    let relative = Path::parse(relative)?;
    Ok(root(dataset).parts().chain(relative.parts()).collect())
}

/// A fragment of this version; NOT_FOUND otherwise.
pub fn fragment(dataset: &Dataset, id: u64) -> Outcome<Fragment> {
    dataset
        .fragments()
        .iter()
        .find(|fragment| fragment.id == id)
        .cloned()
        .ok_or_else(|| {
            Failure::not_found(format!(
                "version {} has no fragment {id}",
                dataset.manifest().version
            ))
        })
}

/// Ids of fragments of this version as a bitmap; NOT_FOUND otherwise.
pub fn fragment_ids(dataset: &Dataset, ids: &[u64]) -> Outcome<RoaringBitmap> {
    ids.iter()
        .map(|id| Ok(fragment(dataset, *id)?.id as u32))
        .collect()
}

/// A top-level column; NOT_FOUND otherwise.
pub fn column<'a>(dataset: &'a Dataset, name: &str) -> Outcome<&'a Field> {
    dataset
        .schema()
        .fields
        .iter()
        .find(|field| field.name == name)
        .ok_or_else(|| Failure::not_found(format!("the dataset has no top-level column {name:?}")))
}
