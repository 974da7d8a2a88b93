//! What a version of a dataset consists of, and the transactions that led to it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance_table::format::IndexMetadata;
use lance_table::system_index::is_system_index;
use serde::Serialize;
use uuid::Uuid;

use crate::dataset::{has_fragment_reuse, stored_indices, unwritable, usable_indices};
use crate::error::{Kind, Outcome};
use crate::fragment::FragmentJson;

#[derive(Serialize)]
pub struct Description {
    uri: String,
    version: u64,
    timestamp_millis: i64,
    storage_version: String,
    stable_row_ids: bool,
    reader_flags: u64,
    writer_flags: u64,
    unwritable: Option<String>,
    config: BTreeMap<String, String>,
    table_metadata: BTreeMap<String, String>,
    fields: Vec<FieldJson>,
    fragments: Vec<FragmentJson>,
    indices: Vec<IndexJson>,
    fragment_reuse_index: bool,
}

#[derive(Serialize)]
struct FieldJson {
    id: i32,
    name: String,
    #[serde(rename = "type")]
    logical_type: String,
    nullable: bool,
    top_level: bool,
    blob: bool,
}

#[derive(Serialize)]
struct IndexJson {
    name: String,
    uuid: String,
    fields: Vec<i32>,
    #[serde(rename = "type")]
    index_type: String,
    vector: bool,
    system: bool,
    remappable: bool,
    usable: bool,
    fragments: Option<Vec<u32>>,
    dataset_version: u64,
}

#[derive(Serialize)]
pub struct Transactions {
    missing: u64,
    transactions: Vec<TransactionJson>,
}

#[derive(Serialize)]
struct TransactionJson {
    version: u64,
    timestamp_millis: i64,
    operation: String,
    read_version: u64,
    uuid: String,
    properties: BTreeMap<String, String>,
}

pub async fn describe(dataset: &Arc<Dataset>) -> Outcome<Description> {
    let manifest = dataset.manifest();
    let stored = stored_indices(dataset).await?;
    let usable = usable_indices(dataset).await?;
    let usable: HashSet<Uuid> = usable.iter().map(|index| index.uuid).collect();
    let types = index_types(dataset).await;
    let indices = stored
        .iter()
        .map(|index| IndexJson {
            name: index.name.clone(),
            uuid: index.uuid.to_string(),
            fields: index.fields.clone(),
            index_type: types
                .get(&index.name)
                .cloned()
                .unwrap_or_else(|| type_from_details(index)),
            vector: is_vector(index),
            system: is_system_index(index),
            remappable: is_kept(index) && usable.contains(&index.uuid),
            usable: usable.contains(&index.uuid),
            fragments: index.fragment_bitmap.as_ref().map(|bitmap| {
                (bitmap & dataset.fragment_bitmap().as_ref())
                    .iter()
                    .collect()
            }),
            dataset_version: index.dataset_version,
        })
        .collect();
    let mut fragments = Vec::with_capacity(dataset.fragments().len());
    for fragment in dataset.fragments().iter() {
        fragments.push(FragmentJson::describe(dataset, fragment).await?);
    }
    Ok(Description {
        uri: dataset.uri().to_string(),
        version: manifest.version,
        timestamp_millis: manifest.timestamp().timestamp_millis(),
        storage_version: manifest
            .data_storage_format
            .lance_file_format()
            .to_manifest_string()
            .to_string(),
        stable_row_ids: manifest.uses_stable_row_ids(),
        reader_flags: manifest.reader_feature_flags,
        writer_flags: manifest.writer_feature_flags,
        unwritable: unwritable(dataset, &stored),
        config: sorted(&manifest.config),
        table_metadata: sorted(&manifest.table_metadata),
        fields: manifest
            .schema
            .fields
            .iter()
            .map(|field| FieldJson {
                id: field.id,
                name: field.name.clone(),
                logical_type: field.logical_type.to_string(),
                nullable: field.nullable,
                top_level: true,
                blob: field.is_blob(),
            })
            .collect(),
        fragments,
        indices,
        fragment_reuse_index: has_fragment_reuse(dataset, &stored),
    })
}

fn sorted(map: &HashMap<String, String>) -> BTreeMap<String, String> {
    map.iter().map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// Names of the index types by index name, as Lance calls them. Empty where one of the indexes is
/// too old to be described: then the details have to do.
async fn index_types(dataset: &Dataset) -> HashMap<String, String> {
    match dataset.describe_indices(None).await {
        Ok(descriptions) => descriptions
            .iter()
            .map(|index| (index.name().to_string(), index.index_type().to_string()))
            .collect(),
        Err(_) => HashMap::new(),
    }
}

/// The name of an index's details message, without the package and "IndexDetails".
pub fn type_from_details(index: &IndexMetadata) -> String {
    index
        .index_details
        .as_ref()
        .and_then(|details| details.type_url.rsplit(['.', '/']).next())
        .map(|name| name.trim_end_matches("IndexDetails"))
        .filter(|name| !name.is_empty())
        .unwrap_or("unknown")
        .to_string()
}

pub fn is_vector(index: &IndexMetadata) -> bool {
    type_from_details(index) == "Vector"
}

pub fn is_zone_map(index: &IndexMetadata) -> bool {
    type_from_details(index) == "ZoneMap"
}

/// Whether a rewrite keeps the index (remapped, or unchanged where it stores stable row ids). The
/// others lose their coverage of what is rewritten and have to be built for it anew: their classes
/// in Lance answer `can_remap` with no.
pub fn is_kept(index: &IndexMetadata) -> bool {
    !is_system_index(index)
        && index.covering_fields.is_empty()
        && !matches!(
            type_from_details(index).as_str(),
            "ZoneMap" | "BloomFilter" | "FM" | "RTree"
        )
}

/// Whether the index only loses its coverage of what is rewritten, and can be brought to cover it
/// anew.
pub fn is_rebuilt(dataset: &Dataset, index: &IndexMetadata) -> bool {
    let by_address = dataset.manifest().uses_stable_row_ids()
        && index.results_are_row_addrs()
        && !index.supports_eager_remap();
    !is_system_index(index) && index.covering_fields.is_empty() && (!is_kept(index) || by_address)
}

/// At most this many versions are read at a time.
const CONCURRENT_READS: usize = 16;

pub async fn transactions(dataset: &Dataset, from: u64, to: u64) -> Outcome<Transactions> {
    let mut versions: Vec<u64> = dataset
        .version_refs()
        .await?
        .iter()
        .map(|version| version.version)
        .collect();
    let latest = versions.last().copied().unwrap_or(0);
    let from = from.max(1);
    let to = to.min(latest);
    versions.retain(|version| (from..=to).contains(version));
    let wanted = if from > to { 0 } else { to - from + 1 };

    let read: Vec<Option<TransactionJson>> = futures::stream::iter(versions)
        .map(|version| async move {
            let read = match dataset.read_version_transaction(version).await {
                Ok(read) => read,
                // Another process cleaned it up in the meantime.
                Err(error) if crate::error::kind_of(&error) == Kind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            Ok(read.transaction.map(|transaction| TransactionJson {
                version,
                timestamp_millis: read.timestamp.timestamp_millis(),
                operation: transaction.operation.to_string(),
                read_version: transaction.read_version,
                uuid: transaction.uuid,
                properties: transaction
                    .transaction_properties
                    .map(|properties| sorted(&properties))
                    .unwrap_or_default(),
            }))
        })
        .buffered(CONCURRENT_READS)
        .try_collect()
        .await?;
    let transactions: Vec<TransactionJson> = read.into_iter().flatten().collect();
    Ok(Transactions {
        missing: wanted - transactions.len() as u64,
        transactions,
    })
}
