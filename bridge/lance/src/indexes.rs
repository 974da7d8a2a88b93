//! Zone maps, and bringing indexes to where a rewrite can take them along.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field as ArrowField, Schema as ArrowSchema};
use futures::StreamExt;
use lance::Dataset;
use lance::dataset::index::LanceIndexStoreExt;
use lance::dataset::transaction::Operation;
use lance::index::CreateIndexBuilder;
use lance::index::optimize::{IndexSegmentResult, commit_optimize_indices, plan_optimize_indices};
use lance::index::scalar::open_scalar_index;
use lance_core::datatypes::format_field_path;
use lance_index::IndexType;
use lance_index::metrics::NoOpMetricsCollector;
use lance_index::optimize::OptimizeOptions;
use lance_index::scalar::lance_format::LanceIndexStore;
use lance_index::scalar::{BuiltinIndexType, IndexStore, ScalarIndexParams};
use lance_table::format::{Fragment, IndexMetadata};
use lance_table::system_index::is_system_index;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dataset::{
    StringMap, column, commit, commit_indices, discard_indices, drop_files, fragment_ids,
    has_fragment_reuse, require_writable, stored_indices, transaction, usable_indices,
};
use crate::describe::{is_kept, is_rebuilt, is_zone_map, type_from_details};
use crate::error::{Failure, Kind, Outcome, kind_of};
use crate::rewrite::{damaged, require_movable};
use crate::stream::BatchStream;

/// What the names of the zone maps that this library makes begin with; the column follows.
const ZONE_MAP_PREFIX: &str = "thalweg_zonemap_";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneMapRequest {
    columns: Vec<String>,
    #[serde(default)]
    rows_per_zone: u64,
    #[serde(default)]
    properties: StringMap,
}

#[derive(Serialize)]
pub struct RefreshedZoneMaps {
    version: u64,
    created: Vec<String>,
    refreshed: BTreeSet<String>,
    /// Why, by the name of the index.
    failed: BTreeMap<String, String>,
    /// Columns whose zone map would lose rows, and is not there for that reason.
    withheld: BTreeSet<String>,
    /// Zone maps of other makers that do.
    losing: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnifyRequest {
    fragments: Vec<u64>,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    drop_deleted: bool,
    #[serde(default)]
    properties: StringMap,
}

#[derive(Serialize)]
pub struct Unified {
    version: u64,
    merged: BTreeSet<String>,
    unindexed_rows: u64,
    rebuilt: BTreeSet<String>,
    rebuilt_rows: u64,
}

/// Creates the missing zone maps and refreshes the others, and whatever else a rewrite cannot take
/// along, all in one commit.
pub async fn refresh_zone_maps(
    dataset: &Arc<Dataset>,
    request: ZoneMapRequest,
) -> Outcome<RefreshedZoneMaps> {
    let stored = require_writable(dataset).await?;
    let usable = usable_indices(dataset).await?;
    let mut missing = Vec::new();
    let mut stale = BTreeSet::new();
    let mut seen = HashSet::new();
    for name in &request.columns {
        let field = column(dataset, name)?;
        if !seen.insert(name) {
            continue;
        }
        let maps: Vec<&IndexMetadata> = usable
            .iter()
            .filter(|index| is_zone_map(index) && index.keyed_field() == Some(field.id))
            .collect();
        match maps.first() {
            None => missing.push(name.clone()),
            // One complete zone map is enough; of several incomplete ones the first is refreshed.
            Some(first) => {
                let names: BTreeSet<&str> = maps.iter().map(|map| map.name.as_str()).collect();
                let complete = names.iter().any(|name| is_complete(dataset, &maps, name));
                if !complete {
                    stale.insert(first.name.clone());
                }
            }
        }
    }
    // Zones of no rows are of no use, and an index without any cannot be refreshed later.
    if dataset.fragments().is_empty() {
        missing.clear();
        stale.clear();
    }

    let mut new_indices = Vec::new();
    let mut removed_indices = Vec::new();
    for name in &missing {
        new_indices.push(new_zone_map(dataset, &stored, name, request.rows_per_zone).await?);
    }
    let mut refreshed = BTreeSet::new();
    let mut failed = BTreeMap::new();
    let mut take = |results: Vec<IndexSegmentResult>| {
        for result in results {
            let replaced = |index: &&IndexMetadata| result.replaces.contains(&index.uuid);
            removed_indices.extend(stored.iter().filter(replaced).cloned());
            refreshed.insert(result.segment.name.clone());
            new_indices.push(result.segment);
        }
    };
    let of = |names: Vec<String>| OptimizeOptions::merge(1).index_names(names);
    if !stale.is_empty() {
        take(optimized(dataset, &of(stale.iter().cloned().collect())).await?);
    }
    // Each by itself: indexes of other makers, in whatever state, are not in the way of the keys'.
    for name in incomplete_others(dataset, &usable, &stale) {
        match optimized(dataset, &of(vec![name.clone()])).await {
            Ok(results) => take(results),
            Err(failure) => {
                failed.insert(name, failure.message);
            }
        }
    }
    let mut withheld = BTreeSet::new();
    let mut losing = BTreeSet::new();
    let mut in_vain = Vec::new();
    let ours = usable.iter().filter(|index| is_ours(index));
    let on_field = |index: &IndexMetadata| {
        let fields = &dataset.schema().fields;
        let found = fields
            .iter()
            .find(|field| index.keyed_field() == Some(field.id));
        found.map(|field| &field.name)
    };
    let checked: BTreeSet<&String> = seen.into_iter().chain(ours.filter_map(on_field)).collect();
    for column in checked {
        let removed: Vec<Uuid> = removed_indices.iter().map(|index| index.uuid).collect();
        let known = |index: &&IndexMetadata| !removed.contains(&index.uuid);
        let maps = usable.iter().filter(known).chain(&new_indices);
        for name in losing_rows(dataset, column, maps, &removed_indices).await? {
            if !name.starts_with(ZONE_MAP_PREFIX) {
                losing.insert(name);
                continue;
            }
            withheld.insert(column.clone());
            refreshed.remove(&name);
            let built = new_indices.extract_if(.., |index| index.name == name);
            in_vain.extend(built.map(|index| index.uuid));
            removed_indices.retain(|index| index.name != name);
            removed_indices.extend(stored.iter().filter(|index| index.name == name).cloned());
        }
    }
    drop_files(dataset, in_vain).await;
    let created = new_indices
        .iter()
        .filter(|index| !stored.iter().any(|known| known.name == index.name))
        .map(|index| index.name.clone())
        .collect();
    let mut done = RefreshedZoneMaps {
        version: dataset.manifest().version,
        created,
        refreshed,
        failed,
        withheld,
        losing,
    };
    if new_indices.is_empty() && removed_indices.is_empty() {
        return Ok(done);
    }
    let built = new_indices.iter().map(|index| index.uuid).collect();
    let operation = Operation::CreateIndex {
        new_indices,
        removed_indices,
    };
    let transaction = transaction(dataset.manifest().version, operation, request.properties);
    let committing = commit(dataset, transaction, None);
    let committed = commit_indices(dataset, built, committing).await?;
    done.version = committed.manifest().version;
    Ok(done)
}

fn is_ours(index: &IndexMetadata) -> bool {
    is_zone_map(index) && index.name.starts_with(ZONE_MAP_PREFIX)
}

/// Names of the zone maps on a column by which Lance 14 leaves rows out of answers. It orders NaN
/// above all numbers, and one with a sign below all of them, yet takes a zone of nothing but NaN for
/// one without values, and the least number of a zone for its lower bound.
async fn losing_rows(
    dataset: &Arc<Dataset>,
    name: &str,
    maps: impl Iterator<Item = &IndexMetadata>,
    replaced: &[IndexMetadata],
) -> Outcome<BTreeSet<String>> {
    let field = column(dataset, name)?;
    let mut losing = BTreeSet::new();
    if !field.data_type().is_floating() {
        return Ok(losing);
    }
    let schema = Arc::new(zone_schema(&field.data_type()));
    for map in maps.filter(|map| is_zone_map(map) && map.keyed_field() == Some(field.id)) {
        let Some(zones) = zones_of(dataset, map, &schema).await? else {
            continue;
        };
        let fragments = zones.column(0).as_primitive::<UInt64Type>();
        let nans = zones.column(6).as_primitive::<UInt64Type>();
        let with_nan = || (0..zones.num_rows()).filter(|row| nans.value(*row) > 0);
        let least = zones.column(3);
        if with_nan().any(|row| least.is_null(row)) {
            losing.insert(map.name.clone());
            continue;
        }
        // Fragments that it covered before were looked at then.
        let before = replaced
            .iter()
            .filter(|index| index.name == map.name)
            .filter_map(|index| index.fragment_bitmap.as_ref())
            .fold(RoaringBitmap::new(), |all, some| all | some);
        let suspect: BTreeSet<u64> = with_nan()
            .map(|row| fragments.value(row))
            .filter(|id| !before.contains(*id as u32))
            .collect();
        if holds_signed_nan(dataset, name, suspect).await? {
            losing.insert(map.name.clone());
        }
    }
    Ok(losing)
}

async fn holds_signed_nan(
    dataset: &Arc<Dataset>,
    column: &str,
    fragments: BTreeSet<u64>,
) -> Outcome<bool> {
    if fragments.is_empty() {
        return Ok(false);
    }
    let chosen = fragments
        .into_iter()
        .map(|id| crate::dataset::fragment(dataset, id))
        .collect::<Outcome<Vec<_>>>()?;
    let mut scan = dataset.scan();
    scan.with_fragments(chosen)
        .project(&[format_field_path(&[column])])?;
    let mut batches = Box::pin(scan.try_into_stream()).await?;
    while let Some(batch) = batches.next().await {
        let values = arrow::compute::cast(batch?.column(0), &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        if values
            .iter()
            .flatten()
            .any(|value| value.is_nan() && value.is_sign_negative())
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Names of the indexes, beside the zone maps of the keys, that a rewrite cannot take along and
/// that do not cover every live fragment.
fn incomplete_others(
    dataset: &Dataset,
    usable: &[IndexMetadata],
    stale: &BTreeSet<String>,
) -> BTreeSet<String> {
    if dataset.fragments().is_empty() {
        return BTreeSet::new();
    }
    let mut by_name: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
    for index in usable.iter().filter(|index| is_rebuilt(dataset, index)) {
        by_name.entry(&index.name).or_default().push(index);
    }
    by_name
        .retain(|name, segments| !stale.contains(*name) && !is_complete(dataset, segments, name));
    by_name.into_keys().map(str::to_string).collect()
}

/// Whether the segments of this name cover every live fragment.
fn is_complete(dataset: &Dataset, segments: &[&IndexMetadata], name: &str) -> bool {
    let covered = segments
        .iter()
        .filter(|index| index.name == name)
        .filter_map(|index| index.fragment_bitmap.as_ref())
        .fold(RoaringBitmap::new(), |all, some| all | some);
    dataset.fragment_bitmap().is_subset(&covered)
}

async fn new_zone_map(
    dataset: &Arc<Dataset>,
    stored: &[IndexMetadata],
    column: &str,
    rows_per_zone: u64,
) -> Outcome<IndexMetadata> {
    // With seeds, for every type: appends by other writers bring their zones along.
    let mut wishes = serde_json::json!({ "use_seeds": true });
    if rows_per_zone > 0 {
        wishes["rows_per_zone"] = rows_per_zone.into();
    }
    let params = ScalarIndexParams::for_builtin(BuiltinIndexType::ZoneMap).with_params(&wishes);
    let taken = |name: &str| stored.iter().any(|index| index.name == name);
    let mut name = format!("{ZONE_MAP_PREFIX}{column}");
    let mut count = 2;
    while taken(&name) {
        name = format!("{ZONE_MAP_PREFIX}{column}_{count}");
        count += 1;
    }
    let mut building = dataset.as_ref().clone();
    let path = format_field_path(&[column]);
    let columns = [path.as_str()];
    let builder = CreateIndexBuilder::new(&mut building, &columns, IndexType::ZoneMap, &params);
    create(builder.name(name), dataset).await
}

/// The new index, not committed; of a failed one nothing is left.
async fn create(mut builder: CreateIndexBuilder<'_>, dataset: &Dataset) -> Outcome<IndexMetadata> {
    let uuid = Uuid::new_v4();
    builder = builder.index_uuid(uuid);
    match Box::pin(builder.execute_uncommitted()).await {
        Ok(index) => Ok(index),
        Err(error) => discard_indices(dataset, vec![uuid], error.into()).await,
    }
}

/// The new segments of an optimization of indexes, and which ones they replace; not committed. Of a
/// failed one the segments that were complete are removed (the others go with Lance's cleanup).
async fn optimized(
    dataset: &Arc<Dataset>,
    options: &OptimizeOptions,
) -> Outcome<Vec<IndexSegmentResult>> {
    let plan = Box::pin(plan_optimize_indices(dataset, options)).await?;
    let mut built = Vec::with_capacity(plan.tasks.len());
    let mut results = Vec::with_capacity(plan.merges.len());
    let building = async {
        for task in &plan.tasks {
            built.extend(Box::pin(task.execute(dataset)).await?);
        }
        for merge in &plan.merges {
            results.extend(Box::pin(merge.execute(dataset, &built)).await?);
        }
        Ok(())
    };
    if let Err(failure) = building.await {
        let uuids = built.iter().chain(&results).map(|made| made.segment.uuid);
        return discard_indices(dataset, uuids.collect(), failure).await;
    }
    Ok(results)
}

/// Whether a segment may name rows of these fragments by stable row ids that were deleted after it
/// was written. As long as their fragments are there Lance leaves such rows out of an answer before it
/// counts the best; once the fragments are rewritten it finds them only afterwards, and gives too
/// few. A merge leaves them out for good, but for full texts: see [`holds_deleted_texts`].
fn holds_deleted(dataset: &Dataset, index: &IndexMetadata, wanted: &RoaringBitmap) -> bool {
    by_row_id(dataset, index) && deleted_from(dataset, index, wanted).next().is_some()
}

fn by_row_id(dataset: &Dataset, index: &IndexMetadata) -> bool {
    dataset.manifest().uses_stable_row_ids() && !index.supports_eager_remap()
}

/// Those of the fragments that the segment covers and that have deleted rows.
fn deleted_from<'a>(
    dataset: &'a Dataset,
    index: &'a IndexMetadata,
    wanted: &'a RoaringBitmap,
) -> impl Iterator<Item = &'a Fragment> {
    dataset.fragments().iter().filter(|fragment| {
        let id = fragment.id as u32;
        let covered = index
            .fragment_bitmap
            .as_ref()
            .is_none_or(|bitmap| bitmap.contains(id));
        wanted.contains(id) && covered && fragment.deletion_file.is_some()
    })
}

fn is_text(index: &IndexMetadata) -> bool {
    type_from_details(index) == "Inverted"
}

/// Whether a full-text segment may name deleted rows of these fragments. Lance 14 has no way to take
/// them out: a merge keeps them, and so does training it anew in place. A segment says of which
/// version its oldest rows are: what was deleted by then, it never had.
pub async fn holds_deleted_texts(
    dataset: &Dataset,
    index: &IndexMetadata,
    wanted: &RoaringBitmap,
) -> Outcome<bool> {
    if !is_text(index) || !holds_deleted(dataset, index, wanted) {
        return Ok(false);
    }
    let then = match dataset.checkout_version(index.dataset_version).await {
        Ok(then) => then,
        // Cleaned up since then.
        Err(error) if kind_of(&error) == Kind::NotFound => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let deletions = |fragment: &Fragment| {
        let file = fragment.deletion_file.as_ref();
        file.map(|file| (file.read_version, file.id))
    };
    let before: HashMap<u64, _> = then
        .fragments()
        .iter()
        .map(|fragment| (fragment.id, deletions(fragment)))
        .collect();
    Ok(deleted_from(dataset, index, wanted)
        .any(|fragment| before.get(&fragment.id) != Some(&deletions(fragment))))
}

/// Memory of the new full-text index before it is written out, in MiB.
const TEXT_BUILD_MIB: u64 = 512;

/// What a full-text segment was made with, as its own files say; the manifest leaves some of it out.
async fn text_parameters(dataset: &Dataset, index: &IndexMetadata) -> Outcome<serde_json::Value> {
    let column = text_path(dataset, index)?;
    let opened = open_scalar_index(dataset, &column, index, &NoOpMetricsCollector).await?;
    let params = opened.derive_index_params()?.params.unwrap_or_default();
    serde_json::from_str(&params)
        .map_err(|error| Failure::invalid(format!("its parameters are no JSON: {error}")))
}

/// The path by which Lance indexes the texts of a field: the items of lists have no names in it.
fn text_path(dataset: &Dataset, index: &IndexMetadata) -> Outcome<String> {
    let ancestry = index
        .keyed_field()
        .and_then(|id| dataset.schema().field_ancestry_by_id(id))
        .ok_or_else(|| Failure::invalid(format!("index {:?} has no column", index.name)))?;
    let mut names = Vec::with_capacity(ancestry.len());
    let mut is_item = false;
    for field in ancestry {
        if !is_item {
            names.push(field.name.as_str());
        }
        is_item = matches!(
            field.data_type(),
            DataType::List(_) | DataType::LargeList(_)
        );
    }
    Ok(format_field_path(&names))
}

/// The one set of parameters of a full-text index. NOT_SUPPORTED, by name, where there is none.
async fn one_set_of_parameters(
    dataset: &Dataset,
    name: &str,
    segments: &[&IndexMetadata],
) -> Outcome<serde_json::Value> {
    let refuse = |why: String| {
        Failure::not_supported(format!(
            "full-text index {name:?} of a dataset with stable row ids covers deleted rows, would give too few of the \
             best rows once their fragments are rewritten, and cannot be built anew as it is, since {why}: drop it, \
             optimize, and create it again"
        ))
    };
    let mut found = None;
    for segment in segments {
        let params = text_parameters(dataset, segment)
            .await
            .map_err(|failure| refuse(failure.message))?;
        if found.get_or_insert_with(|| params.clone()) != &params {
            return Err(refuse(
                "its segments were made with different parameters".to_string(),
            ));
        }
    }
    found.ok_or_else(|| refuse("it has no segments".to_string()))
}

/// Builds a full-text index over all live rows, in place of its segments; not committed.
async fn rebuilt_text(
    dataset: &Arc<Dataset>,
    name: &str,
    segments: &[&IndexMetadata],
) -> Outcome<IndexSegmentResult> {
    let params = one_set_of_parameters(dataset, name, segments).await?;
    let mut wishes = params.clone();
    wishes["memory_limit"] = TEXT_BUILD_MIB.into();
    let training = ScalarIndexParams::for_builtin(BuiltinIndexType::Inverted).with_params(&wishes);
    let column = text_path(dataset, segments[0])?;
    let mut building = dataset.as_ref().clone();
    let columns = [column.as_str()];
    let builder = CreateIndexBuilder::new(&mut building, &columns, IndexType::Inverted, &training)
        .name(name.to_string())
        .replace(true);
    let segment = create(builder, dataset).await?;
    if text_parameters(dataset, &segment).await? != params {
        let refused = Failure::not_supported(format!(
            "full-text index {name:?} cannot be built anew with the parameters that it has: drop it, optimize, and create \
             it again"
        ));
        return discard_indices(dataset, vec![segment.uuid], refused).await;
    }
    Ok(IndexSegmentResult {
        plan_id: Uuid::new_v4(),
        read_version: dataset.manifest().version,
        group: 0,
        segment,
        replaces: segments.iter().map(|index| index.uuid).collect(),
    })
}

/// Merges the segments of every index that a rewrite of these fragments as one group would be
/// refused for, into one that covers everything; and those that name rows of theirs which are
/// deleted. Full-text indexes of the latter kind are built anew.
pub async fn unify(dataset: &Arc<Dataset>, request: UnifyRequest) -> Outcome<Unified> {
    require_writable(dataset).await?;
    let wanted = fragment_ids(dataset, &request.fragments)?;
    let usable = usable_indices(dataset).await?;
    // Before anything is built for a rewrite that would be refused.
    for index in usable.iter() {
        let covered = index.fragment_bitmap.as_ref();
        if covered.is_some_and(|bitmap| !bitmap.is_disjoint(&wanted)) && !is_system_index(index) {
            require_movable(dataset, index, true).await?;
        }
    }
    let mut by_name: BTreeMap<&str, Vec<&IndexMetadata>> = BTreeMap::new();
    let mut stale_texts = BTreeSet::new();
    for index in usable.iter().filter(|index| is_kept(index)) {
        if holds_deleted_texts(dataset, index, &wanted).await? {
            stale_texts.insert(index.name.as_str());
        }
        by_name.entry(&index.name).or_default().push(index);
    }
    let (texts, mut by_name): (BTreeMap<_, _>, BTreeMap<_, _>) = by_name
        .into_iter()
        .partition(|(name, _)| stale_texts.contains(name));
    by_name.retain(|_, segments| {
        segments.iter().any(|index| match &index.fragment_bitmap {
            // Unknown coverage: the rewrite refuses it, a merge records it.
            None => true,
            Some(bitmap) => {
                let covered = (bitmap & &wanted).len();
                covered != 0 && covered != wanted.len()
                    || request.drop_deleted
                        && !is_text(index)
                        && holds_deleted(dataset, index, &wanted)
            }
        })
    });
    let mut unindexed_rows = 0;
    for segments in by_name.values() {
        let covered = segments
            .iter()
            .filter_map(|index| index.fragment_bitmap.as_ref())
            .fold(RoaringBitmap::new(), |all, some| all | some);
        for fragment in dataset.get_fragments() {
            if !covered.contains(fragment.id() as u32) {
                unindexed_rows += fragment.count_rows(None).await? as u64;
            }
        }
    }
    let names = |indexes: &BTreeMap<&str, Vec<&IndexMetadata>>| -> BTreeSet<String> {
        indexes.keys().map(|name| (*name).to_string()).collect()
    };
    let (merged, rebuilt) = (names(&by_name), names(&texts));
    for (name, segments) in &texts {
        one_set_of_parameters(dataset, name, segments).await?;
    }
    let rebuilt_rows = match texts.is_empty() {
        true => 0,
        false => dataset.count_rows(None).await? as u64 * texts.len() as u64,
    };
    let most = by_name.values().map(Vec::len).max().unwrap_or(0);
    let mut version = dataset.manifest().version;
    let nothing_to_do = merged.is_empty() && rebuilt.is_empty();
    if !nothing_to_do && !request.dry_run {
        let mut options =
            OptimizeOptions::merge(most).index_names(merged.iter().cloned().collect());
        if !request.properties.is_empty() {
            options = options.transaction_properties(request.properties);
        }
        let mut results = Vec::new();
        let building = async {
            if !merged.is_empty() {
                let optimizing = optimized(dataset, &options).await;
                results = optimizing.map_err(|failure| {
                    failure.context(damaged(&merged, "be brought up to date"))
                })?;
            }
            for (name, segments) in &texts {
                results.push(rebuilt_text(dataset, name, segments).await?);
            }
            Ok(())
        };
        let built = building.await;
        let uuids = results.iter().map(|result| result.segment.uuid).collect();
        if let Err(failure) = built {
            return discard_indices(dataset, uuids, failure).await;
        }
        let mut moved = dataset.as_ref().clone();
        let committing = async {
            Box::pin(commit_optimize_indices(&mut moved, results, &options)).await?;
            Ok(moved)
        };
        let current = commit_indices(dataset, uuids, committing).await?;
        version = current.manifest().version;
    }
    Ok(Unified {
        version,
        merged,
        unindexed_rows,
        rebuilt,
        rebuilt_rows,
    })
}

/// Lance's own name of a zone map's file.
const ZONE_MAP_FILE: &str = "zonemap.lance";

/// The zones of the zone maps on one column, as the files have them.
pub async fn zones(dataset: &Arc<Dataset>, name: &str) -> Outcome<BatchStream> {
    let field = column(dataset, name)?;
    let stored = stored_indices(dataset).await?;
    if has_fragment_reuse(dataset, &stored) {
        return Err(Failure::not_supported(
            "zones of a dataset with a fragment-reuse index",
        ));
    }
    let usable = usable_indices(dataset).await?;
    let maps: Vec<&IndexMetadata> = usable
        .iter()
        .filter(|index| is_zone_map(index) && index.keyed_field() == Some(field.id))
        .collect();
    // Of several zone maps one that is complete, else the first.
    let names: BTreeSet<&str> = maps.iter().map(|map| map.name.as_str()).collect();
    let Some(chosen) = names
        .iter()
        .find(|name| is_complete(dataset, &maps, name))
        .or_else(|| names.first())
    else {
        return Err(Failure::not_found(format!(
            "column {name:?} has no zone map"
        )));
    };
    let schema = Arc::new(zone_schema(&field.data_type()));
    let mut batches = Vec::new();
    for map in maps.iter().filter(|map| map.name == **chosen) {
        batches.extend(zones_of(dataset, map, &schema).await?);
    }
    BatchStream::from_batches(schema, batches)
}

/// The zones of one segment; None where it covers no live fragment.
async fn zones_of(
    dataset: &Dataset,
    map: &IndexMetadata,
    schema: &Arc<ArrowSchema>,
) -> Outcome<Option<RecordBatch>> {
    let live = match &map.fragment_bitmap {
        Some(bitmap) => bitmap & dataset.fragment_bitmap().as_ref(),
        None => dataset.fragment_bitmap().as_ref().clone(),
    };
    if live.is_empty() {
        return Ok(None);
    }
    let store = LanceIndexStore::from_dataset_for_existing(dataset, map).await?;
    let file = store.open_index_file(ZONE_MAP_FILE).await?;
    let read = file.read_range(0..file.num_rows(), None).await?;
    live_zones(&read, schema, &live).map(Some)
}

fn zone_schema(values: &DataType) -> ArrowSchema {
    let number = |name: &str| ArrowField::new(name, DataType::UInt64, false);
    ArrowSchema::new(vec![
        number("fragment_id"),
        number("zone_start"),
        number("zone_length"),
        ArrowField::new("min", values.clone(), true),
        ArrowField::new("max", values.clone(), true),
        number("null_count"),
        number("nan_count"),
    ])
}

fn live_zones(
    zones: &RecordBatch,
    schema: &Arc<ArrowSchema>,
    live: &RoaringBitmap,
) -> Outcome<RecordBatch> {
    let missing = |name: &str| Failure::invalid(format!("the zone map has no column {name}"));
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let name = field.name();
        let column = zones.column_by_name(name).ok_or_else(|| missing(name))?;
        // Lance counts nulls and NaNs in 32 bits.
        let column = match column.as_primitive_opt::<UInt32Type>() {
            Some(counts) if field.data_type() == &DataType::UInt64 => {
                Arc::new(UInt64Array::from_iter_values(
                    counts.values().iter().map(|count| u64::from(*count)),
                ))
            }
            _ if column.data_type() != field.data_type() => {
                arrow::compute::cast(column, field.data_type())?
            }
            _ => column.clone(),
        };
        columns.push(column);
    }
    let fragments = columns
        .first()
        .and_then(|column| column.as_primitive_opt::<UInt64Type>())
        .ok_or_else(|| missing("fragment_id"))?;
    let wanted: BooleanArray = fragments
        .values()
        .iter()
        .map(|id| Some(u32::try_from(*id).is_ok_and(|id| live.contains(id))))
        .collect();
    let all = RecordBatch::try_new(schema.clone(), columns)?;
    if wanted.true_count() == wanted.len() {
        return Ok(all);
    }
    Ok(arrow::compute::filter_record_batch(&all, &wanted)?)
}
