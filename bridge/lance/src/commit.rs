//! Commits other than the rewrite: new fragments, reserved ids, configuration.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use lance::Dataset;
use lance::dataset::transaction::{Operation, UpdateMap, UpdateMapEntry};
use lance_table::format::Fragment;
use serde::{Deserialize, Serialize};

use crate::dataset::{StringMap, commit, require_writable, transaction};
use crate::error::{Failure, Outcome};
use crate::fragment::FragmentJson;

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    Append,
    Overwrite,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentsRequest {
    mode: Mode,
    fragments: Vec<FragmentJson>,
    #[serde(default)]
    properties: StringMap,
}

#[derive(Serialize)]
pub struct CommittedFragments {
    version: u64,
    fragments: Vec<FragmentJson>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReserveRequest {
    count: u32,
    #[serde(default)]
    properties: StringMap,
}

#[derive(Serialize)]
pub struct Reserved {
    version: u64,
    first_id: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataRequest {
    #[serde(default)]
    config: BTreeMap<String, Option<String>>,
    #[serde(default)]
    table_metadata: BTreeMap<String, Option<String>>,
    #[serde(default)]
    properties: StringMap,
}

#[derive(Serialize)]
pub struct Version {
    pub version: u64,
}

pub async fn fragments(
    dataset: &Arc<Dataset>,
    request: FragmentsRequest,
) -> Outcome<CommittedFragments> {
    require_writable(dataset).await?;
    let mut fragments = Vec::with_capacity(request.fragments.len());
    for fragment in request.fragments {
        let mut fragment = fragment.into_new_fragment(
            dataset.schema(),
            dataset.manifest().data_storage_format.lance_file_format(),
        )?;
        // The commit gives the ids.
        fragment.id = 0;
        fragments.push(fragment);
    }
    let new: HashSet<String> = fragments.iter().flat_map(paths).collect();
    if new.len() != fragments.len() {
        return Err(Failure::invalid("the same data file twice"));
    }
    if dataset
        .fragments()
        .iter()
        .flat_map(paths)
        .any(|path| new.contains(&path))
    {
        return Err(Failure::invalid(
            "a data file is part of the dataset already",
        ));
    }
    let (operation, retries) = match request.mode {
        Mode::Append => {
            if fragments.is_empty() {
                return Err(Failure::invalid("an append of no fragments"));
            }
            (Operation::Append { fragments }, None)
        }
        Mode::Overwrite => (
            Operation::Overwrite {
                fragments,
                schema: dataset.schema().clone(),
                config_upsert_values: None,
                initial_bases: None,
            },
            // Rows that others committed since would go unseen.
            Some(0),
        ),
    };
    let transaction = transaction(dataset.manifest().version, operation, request.properties);
    let committed = commit(dataset, transaction, retries).await?;
    let committed = Arc::new(committed);
    let mut fragments = Vec::with_capacity(new.len());
    for fragment in committed.fragments().iter() {
        if paths(fragment).any(|path| new.contains(&path)) {
            fragments.push(FragmentJson::describe(&committed, fragment).await?);
        }
    }
    Ok(CommittedFragments {
        version: committed.manifest().version,
        fragments,
    })
}

fn paths(fragment: &Fragment) -> impl Iterator<Item = String> + '_ {
    fragment
        .files
        .iter()
        .filter(|file| file.base_id.is_none())
        .map(|file| file.path.clone())
}

pub async fn reserve(dataset: &Arc<Dataset>, request: ReserveRequest) -> Outcome<Reserved> {
    if request.count == 0 {
        return Err(Failure::invalid("a reservation of no ids"));
    }
    require_writable(dataset).await?;
    let operation = Operation::ReserveFragments {
        num_fragments: request.count,
    };
    let transaction = transaction(dataset.manifest().version, operation, request.properties);
    let committed = commit(dataset, transaction, None).await?;
    // The reserved ids are the last ones of the new version.
    let next = committed
        .manifest()
        .max_fragment_id()
        .map_or(0, |id| id + 1);
    let first_id = next
        .checked_sub(u64::from(request.count))
        .ok_or_else(|| Failure::internal("fewer ids than were reserved"))?;
    Ok(Reserved {
        version: committed.manifest().version,
        first_id,
    })
}

pub async fn metadata(dataset: &Arc<Dataset>, request: MetadataRequest) -> Outcome<Version> {
    if request.config.is_empty() && request.table_metadata.is_empty() {
        return Err(Failure::invalid("an update of nothing"));
    }
    require_writable(dataset).await?;
    let operation = Operation::UpdateConfig {
        config_updates: update_map(request.config),
        table_metadata_updates: update_map(request.table_metadata),
        schema_metadata_updates: None,
        field_metadata_updates: HashMap::new(),
    };
    let transaction = transaction(dataset.manifest().version, operation, request.properties);
    let committed = commit(dataset, transaction, None).await?;
    Ok(Version {
        version: committed.manifest().version,
    })
}

fn update_map(entries: BTreeMap<String, Option<String>>) -> Option<UpdateMap> {
    (!entries.is_empty()).then(|| UpdateMap {
        update_entries: entries.into_iter().map(UpdateMapEntry::from).collect(),
        replace: false,
    })
}
