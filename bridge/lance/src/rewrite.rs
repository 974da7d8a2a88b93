//! The commit that replaces fragments by sorted ones, with the indexes and the row identity that
//! move along.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use lance::Dataset;
use lance::dataset::fragment::FileFragment;
use lance::dataset::index::DatasetIndexRemapperOptions;
use lance::dataset::optimize::IndexRemapperOptions;
use lance::dataset::transaction::{Operation, RewriteGroup, RewrittenIndex, Transaction};
use lance::index::DatasetIndexInternalExt;
use lance_core::utils::row_addr_remap::RowAddrRemap;
use lance_index::metrics::NoOpMetricsCollector;
use lance_table::format::{DataFile, Fragment, IndexMetadata};
use lance_table::system_index::is_system_index;
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dataset::{
    StringMap, commit, commit_indices, fragment_ids, latest, require_writable, transaction,
    usable_ids, usable_indices,
};
use crate::describe::{is_kept, is_rebuilt};
use crate::error::{Failure, Outcome};
use crate::fragment::FragmentJson;
use crate::indexes::holds_deleted_texts;
use crate::lineage::{Moves, NewRows, OldRows};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupRequest {
    old: Vec<u64>,
    new: Vec<FragmentJson>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RewriteRequest {
    groups: Vec<GroupRequest>,
    #[serde(default)]
    remap: bool,
    #[serde(default)]
    properties: StringMap,
}

#[derive(Serialize)]
pub struct Rewritten {
    version: u64,
    remapped: BTreeSet<String>,
    dropped: BTreeSet<String>,
}

/// A rewrite that was checked against the latest version, before the rows are read.
pub struct Checked {
    latest: Arc<Dataset>,
    groups: Vec<RewriteGroup>,
    /// Live rows of each group's old fragments.
    old_rows: Vec<OldRows>,
    /// Names of the indexes whose stored addresses have to follow the rows.
    to_remap: BTreeSet<String>,
    /// Names of those that lose their coverage of the old fragments.
    dropped: BTreeSet<String>,
    properties: StringMap,
}

/// A rewrite that is ready to be committed.
pub struct Prepared {
    latest: Arc<Dataset>,
    transaction: Transaction,
    /// The remapped indexes' new files.
    built: Vec<Uuid>,
    remapped: BTreeSet<String>,
    dropped: BTreeSet<String>,
}

impl Checked {
    /// Whether the `rows` stream has to have row addresses.
    pub fn needs_addresses(&self) -> bool {
        !self.to_remap.is_empty()
    }

    pub fn needs_lineage(&self) -> bool {
        self.latest.manifest().uses_stable_row_ids()
    }

    /// What the `rows` stream is read into.
    pub fn moves(&self) -> Moves {
        let new_rows = self
            .groups
            .iter()
            .enumerate()
            .flat_map(|(group, rewrite)| {
                rewrite.new_fragments.iter().map(move |fragment| NewRows {
                    group,
                    fragment: fragment.id,
                    rows: fragment.physical_rows.unwrap_or(0) as u64,
                })
            })
            .collect();
        Moves::new(
            &self.old_rows,
            new_rows,
            self.needs_addresses(),
            self.needs_lineage(),
        )
    }
}

pub async fn check(planned: &Arc<Dataset>, request: RewriteRequest) -> Outcome<Checked> {
    if request.groups.is_empty() {
        return Err(Failure::invalid("a rewrite of no groups"));
    }
    let latest = Arc::new(latest(planned).await?);
    let stored = require_writable(&latest).await?;
    let groups = groups_of(planned, &latest, request.groups)?;
    let old_ids: RoaringBitmap = groups
        .iter()
        .flat_map(|group| group.old_fragments.iter())
        .map(|fragment| fragment.id as u32)
        .collect();

    let touched = stored.iter().filter(|index| touches(index, &old_ids));
    let usable = usable_ids(&latest).await?;
    let stable = latest.manifest().uses_stable_row_ids();
    let mut to_remap = BTreeSet::new();
    let mut dropped = BTreeSet::new();
    for index in touched {
        require_movable(&latest, index, usable.contains(&index.uuid)).await?;
        if is_rebuilt(&latest, index) {
            dropped.insert(index.name.clone());
            continue;
        }
        require_whole_groups(index, &groups)?;
        require_live_texts(&latest, index, &old_ids).await?;
        if !stable || index.supports_eager_remap() {
            to_remap.insert(index.name.clone());
        }
    }
    if let Some(name) = to_remap.first()
        && !request.remap
    {
        return Err(Failure::invalid(format!(
            "index {name:?} covers the rewritten fragments and has to be remapped, but the request says not to"
        )));
    }

    let mut old_rows = Vec::with_capacity(groups.len());
    for group in &groups {
        let mut rows = OldRows::default();
        for fragment in &group.old_fragments {
            let file = FileFragment::new(latest.clone(), fragment.clone());
            let physical = file.physical_rows().await? as u64;
            let deleted = file.count_deletions().await? as u64;
            rows.add(fragment.id, physical, deleted);
        }
        let new: u64 = group
            .new_fragments
            .iter()
            .map(|fragment| fragment.physical_rows.unwrap_or(0) as u64)
            .sum();
        if new != rows.live() {
            return Err(Failure::invalid(format!(
                "a group of {} live rows is replaced by {new}",
                rows.live()
            )));
        }
        old_rows.push(rows);
    }
    Ok(Checked {
        latest,
        groups,
        old_rows,
        to_remap,
        dropped,
        properties: request.properties,
    })
}

/// The groups with the old fragments as the latest version has them, and every condition on both
/// sides.
fn groups_of(
    planned: &Dataset,
    latest: &Dataset,
    requested: Vec<GroupRequest>,
) -> Outcome<Vec<RewriteGroup>> {
    let by_id = |dataset: &Dataset| -> HashMap<u64, Fragment> {
        dataset
            .fragments()
            .iter()
            .map(|fragment| (fragment.id, fragment.clone()))
            .collect()
    };
    let before = by_id(planned);
    let now = by_id(latest);
    let reserved = latest.manifest().max_fragment_id().unwrap_or(0);
    let mut seen = HashSet::new();
    let mut groups = Vec::with_capacity(requested.len());
    for group in requested {
        if group.old.is_empty() {
            return Err(Failure::invalid("a group without old fragments"));
        }
        let mut old_fragments = Vec::with_capacity(group.old.len());
        for id in group.old {
            let Some(read) = before.get(&id) else {
                return Err(Failure::invalid(format!(
                    "version {} has no fragment {id}",
                    planned.manifest().version
                )));
            };
            if !seen.insert(id) {
                return Err(Failure::invalid(format!("fragment {id} twice")));
            }
            match now.get(&id) {
                Some(current) if is_unchanged(read, current) => old_fragments.push(current.clone()),
                Some(_) => {
                    return Err(Failure::conflict(format!(
                        "fragment {id} was changed by another writer since version {}",
                        planned.manifest().version
                    )));
                }
                None => {
                    return Err(Failure::conflict(format!(
                        "fragment {id} was removed by another writer since version {}",
                        planned.manifest().version
                    )));
                }
            }
        }
        let mut new_fragments = Vec::with_capacity(group.new.len());
        for fragment in group.new {
            let fragment = fragment.into_new_fragment(
                planned.schema(),
                planned.manifest().data_storage_format.lance_file_format(),
            )?;
            if fragment.id == 0 {
                return Err(Failure::invalid("a new fragment without a reserved id"));
            }
            if !seen.insert(fragment.id) {
                return Err(Failure::invalid(format!("fragment {} twice", fragment.id)));
            }
            if now.contains_key(&fragment.id) {
                return Err(Failure::conflict(format!(
                    "the id {} of a new fragment was taken by another writer",
                    fragment.id
                )));
            }
            if fragment.id > reserved {
                return Err(Failure::invalid(format!(
                    "the id {} of a new fragment was not reserved",
                    fragment.id
                )));
            }
            new_fragments.push(fragment);
        }
        groups.push(RewriteGroup {
            old_fragments,
            new_fragments,
        });
    }
    Ok(groups)
}

/// Whether a fragment holds the same rows with the same values in both versions.
fn is_unchanged(before: &Fragment, now: &Fragment) -> bool {
    let same_file = |a: &DataFile, b: &DataFile| {
        a.path == b.path
            && a.base_id == b.base_id
            && a.fields == b.fields
            && a.column_indices == b.column_indices
    };
    before.files.len() == now.files.len()
        && before
            .files
            .iter()
            .zip(&now.files)
            .all(|(a, b)| same_file(a, b))
        && before.deletion_file == now.deletion_file
        && before.overlays == now.overlays
        && before.row_id_meta == now.row_id_meta
        && before.created_at_version_meta == now.created_at_version_meta
        && before.last_updated_at_version_meta == now.last_updated_at_version_meta
        && (before.physical_rows == now.physical_rows
            || before.physical_rows.is_none()
            || now.physical_rows.is_none())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourcesRequest {
    fragments: Vec<u64>,
}

/// Refuses what a rewrite of these fragments would be refused for, before they are read.
pub async fn check_sources(dataset: &Arc<Dataset>, request: SourcesRequest) -> Outcome<()> {
    let stored = require_writable(dataset).await?;
    let old_ids = fragment_ids(dataset, &request.fragments)?;
    let usable = usable_ids(dataset).await?;
    for index in stored.iter().filter(|index| touches(index, &old_ids)) {
        require_movable(dataset, index, usable.contains(&index.uuid)).await?;
        if !is_rebuilt(dataset, index) {
            require_live_texts(dataset, index, &old_ids).await?;
        }
    }
    Ok(())
}

/// Whether the index covers one of the fragments, or does not say so.
fn touches(index: &IndexMetadata, fragments: &RoaringBitmap) -> bool {
    let disjoint = |bitmap: &RoaringBitmap| bitmap.is_disjoint(fragments);
    !is_system_index(index) && !index.fragment_bitmap.as_ref().is_some_and(disjoint)
}

/// Refuses a full-text index that the rewrite would make give too few rows, by its name.
async fn require_live_texts(
    dataset: &Dataset,
    index: &IndexMetadata,
    old_ids: &RoaringBitmap,
) -> Outcome<()> {
    if !holds_deleted_texts(dataset, index, old_ids).await? {
        return Ok(());
    }
    Err(Failure::not_supported(format!(
        "full-text index {:?} names deleted rows by their stable row ids, and would give too few of the best \
         rows once their fragments are rewritten: let `optimize` build it anew first, or drop it",
        index.name
    )))
}

/// What failed, in front of why: one of these indexes is damaged where nobody looked yet.
pub fn damaged(names: &BTreeSet<String>, doing: &str) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let names = names.join(", ");
    format!(
        "index {names} cannot {doing} (where its files are damaged: drop it, optimize, and create it again)"
    )
}

/// Refuses an index that would be lost by the rewrite, by its name.
pub async fn require_movable(
    dataset: &Dataset,
    index: &IndexMetadata,
    usable: bool,
) -> Outcome<()> {
    let refuse = |why: &str| {
        Err(Failure::not_supported(format!(
            "index {:?} covers fragments that are to be rewritten and {why}: drop it, optimize, and create it again",
            index.name
        )))
    };
    if !usable {
        return refuse("this build cannot read it");
    }
    if index.fragment_bitmap.is_none() {
        return refuse("does not record which fragments it covers");
    }
    if !index.covering_fields.is_empty() {
        return refuse("carries values of other columns, which Lance cannot move yet");
    }
    if index.fields.len() != 1 {
        return refuse("is on several columns, which Lance cannot move yet");
    }
    if !is_kept(index) {
        return Ok(());
    }
    // Lance drops an index that does not open without a word.
    let column = dataset.schema().field_path(index.fields[0])?;
    if let Err(error) = dataset
        .open_generic_index(&column, &index.uuid, &NoOpMetricsCollector)
        .await
    {
        return refuse(&format!(
            "cannot be opened ({})",
            Failure::from(error).message
        ));
    }
    Ok(())
}

/// An index segment covers all old fragments of a group or none of them.
fn require_whole_groups(index: &IndexMetadata, groups: &[RewriteGroup]) -> Outcome<()> {
    let Some(bitmap) = &index.fragment_bitmap else {
        return Ok(());
    };
    for group in groups {
        let covered = group
            .old_fragments
            .iter()
            .filter(|fragment| bitmap.contains(fragment.id as u32))
            .count();
        if covered != 0 && covered != group.old_fragments.len() {
            return Err(Failure::conflict(format!(
                "index {:?} covers {covered} of the {} fragments of a group: bring the indexes up to date first, or rewrite what they cover by itself",
                index.name,
                group.old_fragments.len()
            )));
        }
    }
    Ok(())
}

/// Remaps the indexes and builds the transaction.
pub async fn prepare(checked: Checked, moves: Option<Moves>) -> Outcome<Prepared> {
    let Checked {
        latest,
        mut groups,
        to_remap,
        mut dropped,
        properties,
        ..
    } = checked;
    let mut map = None;
    if let Some(moves) = moves {
        let moved = moves.finish()?;
        let fragments = groups
            .iter_mut()
            .flat_map(|group| group.new_fragments.iter_mut());
        for (fragment, lineage) in fragments.zip(moved.lineages) {
            lineage.apply(fragment);
        }
        map = moved.addresses;
    }

    let mut rewritten_indices = Vec::new();
    let mut remapped = BTreeSet::new();
    if !to_remap.is_empty() {
        let map =
            map.ok_or_else(|| Failure::invalid("the rows with their addresses are missing"))?;
        let old_ids: Vec<u64> = groups
            .iter()
            .flat_map(|group| group.old_fragments.iter().map(|fragment| fragment.id))
            .collect();
        let remapper = DatasetIndexRemapperOptions::default()
            .create_remapper(&latest)
            .await?
            .ok_or_else(|| Failure::internal("the indexes to be remapped are gone"))?;
        let results = remapper
            .remap_indices(RowAddrRemap::direct(map), &old_ids)
            .await
            .map_err(|error| Failure::from(error).context(damaged(&to_remap, "follow the rows")))?;
        let names: HashMap<Uuid, String> = usable_indices(&latest)
            .await?
            .iter()
            .map(|index| (index.uuid, index.name.clone()))
            .collect();
        for result in results {
            if let Some(name) = names.get(&result.old_id) {
                remapped.insert(name.clone());
            }
            rewritten_indices.push(RewrittenIndex {
                old_id: result.old_id,
                new_id: result.new_id,
                new_index_details: result.index_details,
                new_index_version: result.index_version,
                new_index_files: result.files,
            });
        }
        dropped.extend(to_remap.difference(&remapped).cloned());
    }
    // Indexes of nothing but deleted rows keep their files.
    let built = rewritten_indices
        .iter()
        .filter(|index| index.new_id != index.old_id)
        .map(|index| index.new_id)
        .collect();
    let operation = Operation::Rewrite {
        groups,
        rewritten_indices,
        frag_reuse_index: None,
    };
    // What other writers did up to the latest version was checked above; Lance checks the rest.
    let transaction = transaction(latest.manifest().version, operation, properties);
    Ok(Prepared {
        latest,
        transaction,
        built,
        remapped,
        dropped,
    })
}

pub async fn finish(prepared: Prepared) -> Outcome<Rewritten> {
    let committing = commit(&prepared.latest, prepared.transaction, None);
    let committed = commit_indices(&prepared.latest, prepared.built, committing).await?;
    Ok(Rewritten {
        version: committed.manifest().version,
        remapped: prepared.remapped,
        dropped: prepared.dropped,
    })
}
