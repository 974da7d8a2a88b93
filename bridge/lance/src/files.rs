//! Small files of the dataset, listings, and what versions in storage refer to.

use std::collections::BTreeSet;
use std::path::PathBuf;

use futures::{StreamExt, TryStreamExt};
use lance::Dataset;
use lance_file::reader::FileReader;
use lance_io::local::to_local_path;
use lance_io::object_store::ObjectStore;
use lance_io::scheduler::{ScanScheduler, SchedulerConfig};
use lance_io::utils::CachedFileSize;
use lance_table::format::{BasePath, Manifest};
use lance_table::io::deletion::relative_deletion_file_path;
use lance_table::io::manifest::{read_manifest, read_manifest_indexes};
use object_store::path::Path;
use serde::Serialize;

use crate::dataset::{inside, primary_store, root};
use crate::error::{Failure, Kind, Outcome, kind_of};
use crate::fragment::DATA_FOLDER;
use crate::local_file::LocalFile;

#[derive(Serialize)]
pub struct FileInfo {
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Serialize)]
pub struct ListedFile {
    path: String,
    bytes: u64,
    modified_millis: i64,
}

/// Rows by the footer and bytes by the storage.
pub async fn data_file_info(dataset: &Dataset, path: &str) -> Outcome<FileInfo> {
    let full = inside(dataset, path)?;
    let store = primary_store(dataset).await?;
    let read = async {
        let bytes = store.size(&full).await?;
        let scheduler = ScanScheduler::new(store.clone(), SchedulerConfig::max_bandwidth(&store));
        let file = scheduler
            .open_file(&full, &CachedFileSize::new(bytes))
            .await?;
        let rows = FileReader::read_all_metadata(&file).await?.num_rows;
        Ok::<_, lance::Error>(FileInfo { rows, bytes })
    };
    read.await.map_err(|error| {
        // What does not read as a footer is the file's fault, not the storage's.
        let failure = Failure::from(error);
        match failure.kind {
            Kind::Internal => Failure::invalid(failure.message),
            _ => failure,
        }
        .context(path)
    })
}

pub async fn list(dataset: &Dataset, folder: &str) -> Outcome<Vec<ListedFile>> {
    let folder = inside(dataset, folder)?;
    let store = primary_store(dataset).await?;
    let depth = root(dataset).parts().count();
    let mut files = Vec::new();
    let mut found = store.list(Some(folder));
    while let Some(file) = found.next().await {
        let file = match file {
            Ok(file) => file,
            // No such folder, or a file that went while the folder was read.
            Err(error) if kind_of(&error) == Kind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        files.push(ListedFile {
            path: below(&file.location, depth),
            bytes: file.size,
            modified_millis: file.last_modified.timestamp_millis(),
        });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// A path without its first `depth` parts.
fn below(path: &Path, depth: usize) -> String {
    let parts: Vec<_> = path
        .parts()
        .skip(depth)
        .map(|part| part.as_ref().to_string())
        .collect();
    parts.join("/")
}

pub async fn read(dataset: &Dataset, path: &str) -> Outcome<Vec<u8>> {
    let full = inside(dataset, path)?;
    let store = primary_store(dataset).await?;
    let bytes = store.read_one_all(&full).await;
    Ok(bytes
        .map_err(|error| Failure::from(error).context(path))?
        .to_vec())
}

pub async fn write(dataset: &Dataset, path: &str, bytes: &[u8]) -> Outcome<()> {
    let full = inside(dataset, path)?;
    let store = primary_store(dataset).await?;
    let written = if store.has_direct_local_paths() {
        LocalFile::write(PathBuf::from(to_local_path(&full)), bytes).map_err(lance::Error::from)
    } else {
        store.put(&full, bytes).await.map(|_| ())
    };
    written.map_err(|error| Failure::from(error).context(path))
}

pub async fn delete(dataset: &Dataset, path: &str) -> Outcome<()> {
    let full = inside(dataset, path)?;
    let store = primary_store(dataset).await?;
    match store.delete(&full).await {
        Ok(()) => Ok(()),
        Err(error) if kind_of(&error) == Kind::NotFound => Ok(()),
        Err(error) => Err(Failure::from(error).context(path)),
    }
}

/// At most this many manifests are read at a time.
const CONCURRENT_READS: usize = 8;

/// Everything below the root that a version of the main branch, a detached one or one of any other
/// branch refers to. Tags name versions of these.
pub async fn referenced(dataset: &Dataset) -> Outcome<BTreeSet<String>> {
    let store = primary_store(dataset).await?;
    let here = root(dataset);
    let mut manifests: Vec<(Path, Path)> = Vec::new();
    for location in manifests_of(&store, &here).await? {
        manifests.push((here.clone(), location));
    }
    for name in dataset.list_branches().await?.keys() {
        let branch = dataset.branch_location().find_branch(Some(name))?.path;
        for location in manifests_of(&store, &branch).await? {
            manifests.push((branch.clone(), location));
        }
    }
    let uri = dataset.branch_location().uri;
    let store = &store;
    let uri = uri.as_str();
    let here = &here;
    futures::stream::iter(manifests)
        .map(|(base, location)| async move { references_of(store, here, uri, &base, &location).await })
        .buffer_unordered(CONCURRENT_READS)
        .try_fold(BTreeSet::new(), |mut all, some| async move {
            all.extend(some);
            Ok(all)
        })
        .await
}

/// Manifests below a branch's root, detached ones included: every file of its versions folder.
async fn manifests_of(store: &ObjectStore, base: &Path) -> Outcome<Vec<Path>> {
    let folder: Path = base
        .parts()
        .map(|part| part.as_ref().to_string())
        .chain(["_versions".to_string()])
        .collect();
    let found = store.list(Some(folder));
    let found: Vec<_> = found.try_collect().await?;
    Ok(found
        .into_iter()
        .map(|file| file.location)
        .filter(|path| path.extension() == Some("manifest"))
        .collect())
}

async fn references_of(
    store: &ObjectStore,
    root: &Path,
    root_uri: &str,
    base: &Path,
    location: &Path,
) -> Outcome<BTreeSet<String>> {
    let manifest = match read_manifest(store, location, None).await {
        Ok(manifest) => manifest,
        // Another process cleaned it up in the meantime.
        Err(error) if kind_of(&error) == Kind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(Failure::from(error).context(location)),
    };
    let own = below(base, root.parts().count());
    let mut all = BTreeSet::new();
    for fragment in manifest.fragments.iter() {
        for file in fragment.referenced_lance_files() {
            if let Some(prefix) = prefix_of(&manifest, file.base_id, &own, root_uri) {
                all.insert(joined(&prefix, &format!("{DATA_FOLDER}/{}", file.path)));
            }
        }
        if let Some(deletions) = &fragment.deletion_file
            && let Some(prefix) = prefix_of(&manifest, deletions.base_id, &own, root_uri)
        {
            let path = relative_deletion_file_path(fragment.id, deletions);
            all.insert(joined(&prefix, &path));
        }
    }
    let location = lance_table::io::commit::ManifestLocation {
        version: manifest.version,
        path: location.clone(),
        size: None,
        naming_scheme: lance_table::io::commit::ManifestNamingScheme::V2,
        e_tag: None,
        identity: None,
    };
    for index in read_manifest_indexes(store, &location, &manifest).await? {
        if let Some(prefix) = prefix_of(&manifest, index.base_id, &own, root_uri) {
            all.insert(joined(&prefix, &format!("_indices/{}", index.uuid)));
        }
    }
    Ok(all)
}

/// Where a manifest's files of this base are, below the root; None for those elsewhere.
fn prefix_of(manifest: &Manifest, base: Option<u32>, own: &str, root_uri: &str) -> Option<String> {
    match base {
        None => Some(own.to_string()),
        Some(id) => manifest
            .base_paths
            .get(&id)
            .filter(|base| base.is_dataset_root)
            .and_then(|base| inside_root(base, root_uri)),
    }
}

fn inside_root(base: &BasePath, root_uri: &str) -> Option<String> {
    let plain = |uri: &str| {
        uri.strip_prefix("file://")
            .unwrap_or(uri)
            .trim_end_matches('/')
            .to_string()
    };
    let (base, root) = (plain(&base.path), plain(root_uri));
    let rest = base.strip_prefix(root.as_str())?;
    match rest.strip_prefix('/') {
        Some(rest) => Some(rest.to_string()),
        None => rest.is_empty().then(String::new),
    }
}

fn joined(prefix: &str, path: &str) -> String {
    if prefix.is_empty() {
        path.to_string()
    } else {
        format!("{prefix}/{path}")
    }
}
