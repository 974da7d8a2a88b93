//! Fragments as the JSON of the C ABI describes them.

use std::num::NonZeroU64;
use std::sync::Arc;

use lance::Dataset;
use lance::dataset::fragment::FileFragment;
use lance_core::datatypes::Schema;
use lance_file::version::ConcreteFileVersion;
use lance_file::versions::data_file_columns;
use lance_table::format::{
    DataFile, DeletionFile, DeletionFileType, Fragment, RowDatasetVersionMeta, RowIdMeta,
};
use serde::{Deserialize, Serialize};

use crate::error::{Failure, Outcome};

/// Folder of the data files below the dataset's root.
pub const DATA_FOLDER: &str = "data";

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileJson {
    /// Relative to the dataset's root, or to its base where `base` is set.
    pub path: String,
    /// Ids of the fields that the file holds.
    pub fields: Vec<i32>,
    /// For each of `fields` its column in the file, -1 for none.
    #[serde(default)]
    pub columns: Option<Vec<i32>>,
    /// -1: unknown.
    #[serde(default = "unknown_bytes")]
    pub bytes: i64,
    pub major: u32,
    pub minor: u32,
    #[serde(default)]
    pub base: Option<u32>,
}

fn unknown_bytes() -> i64 {
    -1
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeletionJson {
    pub read_version: u64,
    pub id: u64,
    #[serde(rename = "type")]
    pub file_type: String,
    /// Null where the manifest does not say.
    #[serde(default)]
    pub deleted_rows: Option<u64>,
    #[serde(default)]
    pub base: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OverlayJson {
    pub path: String,
    pub fields: Vec<i32>,
    pub bytes: i64,
    pub major: u32,
    pub minor: u32,
    pub base: Option<u32>,
    pub committed_version: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentJson {
    pub id: u64,
    pub physical_rows: u64,
    #[serde(default)]
    pub deleted_rows: u64,
    pub files: Vec<FileJson>,
    #[serde(default)]
    pub deletion_file: Option<DeletionJson>,
    #[serde(default)]
    pub overlays: Vec<OverlayJson>,
    #[serde(default)]
    pub row_ids: Option<String>,
}

impl FragmentJson {
    /// `fragment` is one of the dataset's, or was written for it. Manifests of very old writers do
    /// not have the counts: then they are read from the files.
    pub async fn describe(dataset: &Arc<Dataset>, fragment: &Fragment) -> Outcome<Self> {
        let files = FileFragment::new(dataset.clone(), fragment.clone());
        let physical_rows = match fragment.physical_rows {
            Some(rows) => rows,
            None => files.physical_rows().await?,
        };
        let deleted_rows = match &fragment.deletion_file {
            None => 0,
            Some(DeletionFile {
                num_deleted_rows: Some(rows),
                ..
            }) => *rows,
            Some(_) => files.count_deletions().await?,
        };
        Ok(Self {
            id: fragment.id,
            physical_rows: physical_rows as u64,
            deleted_rows: deleted_rows as u64,
            files: fragment
                .files
                .iter()
                .map(|file| FileJson {
                    path: path_of(dataset, file),
                    fields: file.fields.to_vec(),
                    columns: Some(file.column_indices.to_vec()),
                    bytes: bytes_of(file),
                    major: file.file_major_version,
                    minor: file.file_minor_version,
                    base: file.base_id,
                })
                .collect(),
            deletion_file: fragment.deletion_file.as_ref().map(describe_deletions),
            overlays: fragment
                .overlays
                .iter()
                .map(|overlay| OverlayJson {
                    path: path_of(dataset, &overlay.data_file),
                    fields: overlay.data_file.fields.to_vec(),
                    bytes: bytes_of(&overlay.data_file),
                    major: overlay.data_file.file_major_version,
                    minor: overlay.data_file.file_minor_version,
                    base: overlay.data_file.base_id,
                    committed_version: overlay.committed_version,
                })
                .collect(),
            row_ids: lineage_hash(fragment).map(|hash| format!("{hash:016x}")),
        })
    }

    /// The fragment of a finished data file, as a commit takes it. `schema` is the one that the
    /// file was written with.
    pub fn into_new_fragment(
        self,
        schema: &Schema,
        storage: ConcreteFileVersion,
    ) -> Outcome<Fragment> {
        let refuse = |why: &str| Err(Failure::invalid(format!("fragment {}: {why}", self.id)));
        if self.deletion_file.is_some() || self.deleted_rows > 0 || !self.overlays.is_empty() {
            return refuse("a new fragment has neither deletions nor overlays");
        }
        if self.row_ids.is_some() {
            return refuse("a new fragment has no row ids of its own");
        }
        let rows = self.physical_rows;
        if rows == 0 {
            return refuse("it has no rows");
        }
        // A row's address has 32 bits for its offset.
        if rows > u64::from(u32::MAX) {
            return refuse("it has too many rows");
        }
        if u32::try_from(self.id).is_err() {
            return refuse("its id is out of range");
        }
        let [file] = self.files.as_slice() else {
            return refuse("a new fragment has exactly one data file");
        };
        let mut fragment = Fragment::new(self.id).with_physical_rows(rows as usize);
        fragment.files.push(file.to_data_file(schema, storage)?);
        Ok(fragment)
    }
}

impl FileJson {
    fn to_data_file(&self, schema: &Schema, storage: ConcreteFileVersion) -> Outcome<DataFile> {
        let name = self
            .path
            .strip_prefix(DATA_FOLDER)
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|name| !name.is_empty() && !name.contains('/'));
        let Some(name) = name else {
            return Err(Failure::invalid(format!(
                "not a data file: {:?}",
                self.path
            )));
        };
        if self.base.is_some() {
            return Err(Failure::invalid(format!(
                "{}: files of other bases cannot be committed",
                self.path
            )));
        }
        let version = ConcreteFileVersion::from_data_file_numbers(self.major, self.minor)?;
        if version != storage {
            return Err(Failure::invalid(format!(
                "{}: its format is not the dataset's storage version",
                self.path
            )));
        }
        // What the file says of its columns is what a file of this schema has, in any order.
        let (fields, expected) = data_file_columns(version, schema);
        let columns = match &self.columns {
            Some(columns) => columns.clone(),
            None => expected.clone(),
        };
        let pairs = |fields: &[i32], columns: &[i32]| {
            let mut pairs: Vec<(i32, i32)> = fields
                .iter()
                .copied()
                .zip(columns.iter().copied())
                .filter(|(_, column)| *column >= 0)
                .collect();
            pairs.sort_unstable();
            pairs
        };
        if columns.len() != self.fields.len()
            || pairs(&self.fields, &columns) != pairs(&fields, &expected)
        {
            return Err(Failure::invalid(format!(
                "{}: its fields and columns are not those of a file of the dataset's schema",
                self.path
            )));
        }
        Ok(DataFile::new(
            name,
            self.fields.clone(),
            columns,
            version,
            u64::try_from(self.bytes).ok().and_then(NonZeroU64::new),
            None,
        ))
    }
}

fn bytes_of(file: &DataFile) -> i64 {
    file.file_size_bytes
        .get()
        .and_then(|bytes| i64::try_from(bytes.get()).ok())
        .unwrap_or(-1)
}

/// A data file's path relative to the root, or to the base that it is of.
pub fn path_of(dataset: &Dataset, file: &DataFile) -> String {
    let in_data_folder = match file.base_id {
        None => true,
        Some(base) => dataset
            .manifest()
            .base_paths
            .get(&base)
            .is_none_or(|base| base.is_dataset_root),
    };
    if in_data_folder {
        format!("{DATA_FOLDER}/{}", file.path)
    } else {
        file.path.clone()
    }
}

fn describe_deletions(file: &DeletionFile) -> DeletionJson {
    DeletionJson {
        read_version: file.read_version,
        id: file.id,
        file_type: match file.file_type {
            DeletionFileType::Array => "array",
            DeletionFileType::Bitmap => "bitmap",
        }
        .to_string(),
        deleted_rows: file.num_deleted_rows.map(|rows| rows as u64),
        base: file.base_id,
    }
}

/// A hash of a fragment's row ids and row versions; None where it has none. Equal sequences that
/// are stored differently (inline, in a file) hash differently, which costs a plan, not rows.
fn lineage_hash(fragment: &Fragment) -> Option<u64> {
    if fragment.row_id_meta.is_none()
        && fragment.created_at_version_meta.is_none()
        && fragment.last_updated_at_version_meta.is_none()
    {
        return None;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    match &fragment.row_id_meta {
        None => mix(&mut hash, b"none"),
        Some(RowIdMeta::Inline(ids)) => mix(&mut hash, ids.digest()),
        Some(RowIdMeta::Column) => mix(&mut hash, b"column"),
    }
    for versions in [
        &fragment.created_at_version_meta,
        &fragment.last_updated_at_version_meta,
    ] {
        match versions {
            None => mix(&mut hash, b"none"),
            Some(RowDatasetVersionMeta::Inline(bytes)) => mix(&mut hash, bytes),
            Some(RowDatasetVersionMeta::Column) => mix(&mut hash, b"column"),
        }
    }
    Some(hash)
}

/// FNV-1a over words of eight bytes, with the length at the end.
fn mix(hash: &mut u64, bytes: &[u8]) {
    let mut step = |word: u64| {
        *hash = (*hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        *hash ^= *hash >> 29;
    };
    let words = bytes.chunks_exact(8);
    let mut tail = [0_u8; 8];
    tail[..words.remainder().len()].copy_from_slice(words.remainder());
    for word in words {
        let mut buffer = [0_u8; 8];
        buffer.copy_from_slice(word);
        step(u64::from_le_bytes(buffer));
    }
    step(u64::from_le_bytes(tail));
    step(bytes.len() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Outcome<FragmentJson> {
        crate::border::parse(text, "fragment")
    }

    #[test]
    fn new_fragments_are_checked() {
        let good = r#"{"id":3,"physical_rows":5,"files":[{"path":"data/x.lance","fields":[0],
            "columns":[0],"bytes":7,"major":2,"minor":2}]}"#;
        let arrow = arrow_schema::Schema::new(vec![arrow_schema::Field::new(
            "a",
            arrow_schema::DataType::Int32,
            true,
        )]);
        let schema = Schema::try_from(&arrow).unwrap();
        let fragment = parse(good)
            .unwrap()
            .into_new_fragment(&schema, ConcreteFileVersion::V2_2)
            .unwrap();
        assert_eq!(fragment.files[0].path, "x.lance");
        assert_eq!(fragment.physical_rows, Some(5));
        for bad in [
            good.replace("data/x.lance", "x.lance"),
            good.replace("data/x.lance", "data/../x.lance"),
            good.replace("\"physical_rows\":5", "\"physical_rows\":0"),
            good.replace("\"columns\":[0]", "\"columns\":[0,1]"),
            good.replace("\"columns\":[0]", "\"columns\":[1]"),
            good.replace("\"fields\":[0]", "\"fields\":[1]"),
            good.replace("\"minor\":2", "\"minor\":1"),
            good.replace("\"major\":2", "\"major\":9"),
        ] {
            assert!(
                parse(&bad)
                    .unwrap()
                    .into_new_fragment(&schema, ConcreteFileVersion::V2_2)
                    .is_err(),
                "{bad}"
            );
        }
        assert!(parse(&good.replace("\"id\"", "\"idd\"")).is_err());
    }
}
