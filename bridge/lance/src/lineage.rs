//! Where each row of a rewrite went, and what it keeps of its identity.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch, UInt64Array};
use lance_core::{ROW_ADDR, ROW_CREATED_AT_VERSION, ROW_ID, ROW_LAST_UPDATED_AT_VERSION};
use lance_table::format::{Fragment, RowDatasetVersionMeta, RowDatasetVersionSequence, RowIdMeta};
use lance_table::rowids::{RowIdSequence, write_row_ids};

use crate::error::{Failure, Outcome};

/// Old row addresses to new ones, None for rows that are gone. Every physical offset of every
/// rewritten fragment is a key: an index takes an absent address for one that has not moved.
pub type AddressMap = HashMap<u64, Option<u64>>;

/// The old fragments of one group.
#[derive(Default)]
pub struct OldRows {
    /// Fragment id to its physical rows.
    physical: HashMap<u64, u64>,
    live: u64,
}

impl OldRows {
    pub fn add(&mut self, fragment: u64, physical: u64, deleted: u64) {
        self.physical.insert(fragment, physical);
        self.live += physical.saturating_sub(deleted);
    }

    pub fn live(&self) -> u64 {
        self.live
    }
}

/// A new fragment, in the order of the rows.
pub struct NewRows {
    pub group: usize,
    pub fragment: u64,
    pub rows: u64,
}

/// Identity of the rows of one new fragment; None where the dataset has no stable row ids.
pub struct Lineage {
    row_ids: Option<RowIdMeta>,
    created: Option<RowDatasetVersionMeta>,
    updated: Option<RowDatasetVersionMeta>,
}

impl Lineage {
    pub fn apply(self, fragment: &mut Fragment) {
        fragment.row_id_meta = self.row_ids;
        fragment.created_at_version_meta = self.created;
        fragment.last_updated_at_version_meta = self.updated;
    }
}

pub struct Moved {
    pub addresses: Option<AddressMap>,
    /// One for each new fragment.
    pub lineages: Vec<Lineage>,
}

#[derive(Default)]
struct Sequences {
    row_ids: Vec<u64>,
    created: Vec<u64>,
    updated: Vec<u64>,
}

/// An old fragment, while its rows are looked for.
struct Source {
    fragment: u64,
    group: usize,
    physical: u64,
    /// Rows of it that were seen.
    moved: u64,
}

/// Reads the rows of a rewrite in their new order.
pub struct Moves {
    /// By fragment id.
    old: Vec<Source>,
    new: Vec<NewRows>,
    /// The new fragment that the next row belongs to, and the row's offset there.
    current: usize,
    offset: u64,
    addresses: Option<AddressMap>,
    sequences: Option<Sequences>,
    lineages: Vec<Lineage>,
}

impl Moves {
    pub fn new(old: &[OldRows], new: Vec<NewRows>, addresses: bool, lineage: bool) -> Self {
        let physical: u64 = old.iter().flat_map(|group| group.physical.values()).sum();
        let mut sources: Vec<Source> = old
            .iter()
            .enumerate()
            .flat_map(|(group, rows)| {
                let physical = rows.physical.iter();
                physical.map(move |(fragment, physical)| Source {
                    fragment: *fragment,
                    group,
                    physical: *physical,
                    moved: 0,
                })
            })
            .collect();
        sources.sort_by_key(|source| source.fragment);
        Self {
            old: sources,
            new,
            current: 0,
            offset: 0,
            addresses: addresses.then(|| AddressMap::with_capacity(physical as usize)),
            sequences: lineage.then(Sequences::default),
            lineages: Vec::new(),
        }
    }

    pub fn add(&mut self, batch: &RecordBatch) -> Outcome<()> {
        let addresses = match self.addresses.is_some() {
            true => Some(numbers(batch, ROW_ADDR)?),
            false => None,
        };
        let lineage = match self.sequences.is_some() {
            true => Some((
                numbers(batch, ROW_ID)?,
                numbers(batch, ROW_CREATED_AT_VERSION)?,
                numbers(batch, ROW_LAST_UPDATED_AT_VERSION)?,
            )),
            false => None,
        };
        let mut row = 0;
        while row < batch.num_rows() {
            let Some(target) = self.new.get(self.current) else {
                return Err(Failure::invalid("more rows than the new fragments have"));
            };
            let left = usize::try_from(target.rows - self.offset).unwrap_or(usize::MAX);
            let take = left.min(batch.num_rows() - row);
            if let (Some(map), Some(addresses)) = (&mut self.addresses, addresses) {
                let base = target.fragment << 32;
                for (at, address) in addresses.values()[row..row + take].iter().enumerate() {
                    let to = base | (self.offset + at as u64);
                    move_row(map, &mut self.old, target.group, *address, to)?;
                }
            }
            if let (Some(sequences), Some((ids, created, updated))) = (&mut self.sequences, lineage)
            {
                sequences
                    .row_ids
                    .extend_from_slice(&ids.values()[row..row + take]);
                sequences
                    .created
                    .extend_from_slice(&created.values()[row..row + take]);
                sequences
                    .updated
                    .extend_from_slice(&updated.values()[row..row + take]);
            }
            self.offset += take as u64;
            row += take;
            if self.offset == target.rows {
                self.close_fragment()?;
            }
        }
        Ok(())
    }

    fn close_fragment(&mut self) -> Outcome<()> {
        let lineage = match &mut self.sequences {
            None => Lineage {
                row_ids: None,
                created: None,
                updated: None,
            },
            Some(sequences) => {
                let sequences = std::mem::take(sequences);
                let ids = RowIdSequence::try_from_iter(sequences.row_ids)?;
                let versions = |values: &[u64]| {
                    RowDatasetVersionMeta::from_sequence(&RowDatasetVersionSequence::from_versions(
                        values,
                    ))
                };
                Lineage {
                    row_ids: Some(RowIdMeta::Inline(write_row_ids(&ids).into())),
                    created: Some(versions(&sequences.created)?),
                    updated: Some(versions(&sequences.updated)?),
                }
            }
        };
        self.lineages.push(lineage);
        self.current += 1;
        self.offset = 0;
        Ok(())
    }

    pub fn finish(self) -> Outcome<Moved> {
        if self.current != self.new.len() {
            return Err(Failure::invalid("fewer rows than the new fragments have"));
        }
        let mut addresses = self.addresses;
        if let Some(map) = &mut addresses {
            for source in self
                .old
                .iter()
                .filter(|source| source.moved < source.physical)
            {
                for offset in 0..source.physical {
                    map.entry(source.fragment << 32 | offset).or_insert(None);
                }
            }
        }
        Ok(Moved {
            addresses,
            lineages: self.lineages,
        })
    }
}

fn move_row(
    map: &mut AddressMap,
    old: &mut [Source],
    group: usize,
    from: u64,
    to: u64,
) -> Outcome<()> {
    let source = old
        .binary_search_by_key(&(from >> 32), |source| source.fragment)
        .ok()
        .and_then(|at| old.get_mut(at))
        .filter(|source| source.group == group && (from & 0xffff_ffff) < source.physical);
    let Some(source) = source else {
        return Err(Failure::invalid(format!(
            "row address {from} is not of its group's old fragments"
        )));
    };
    match map.insert(from, Some(to)) {
        None => {
            source.moved += 1;
            Ok(())
        }
        Some(_) => Err(Failure::invalid(format!("row address {from} twice"))),
    }
}

fn numbers<'a>(batch: &'a RecordBatch, name: &str) -> Outcome<&'a UInt64Array> {
    batch
        .column_by_name(name)
        .and_then(|column| column.as_primitive_opt::<UInt64Type>())
        .filter(|column| column.null_count() == 0)
        .ok_or_else(|| {
            Failure::invalid(format!(
                "the rows have no uint64 column {name} without nulls"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::{DataType, Field, Schema};
    use std::sync::Arc;

    fn batch(addresses: Vec<u64>) -> RecordBatch {
        let schema = Schema::new(vec![Field::new(ROW_ADDR, DataType::UInt64, false)]);
        let column = Arc::new(UInt64Array::from(addresses));
        RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap()
    }

    fn moves(old: &[OldRows]) -> Moves {
        let new = vec![
            NewRows {
                group: 0,
                fragment: 7,
                rows: 2,
            },
            NewRows {
                group: 0,
                fragment: 8,
                rows: 1,
            },
        ];
        Moves::new(old, new, true, false)
    }

    #[test]
    fn every_offset_is_mapped() {
        let mut rows = OldRows::default();
        rows.add(1, 3, 1);
        rows.add(2, 1, 0);
        assert_eq!(rows.live(), 3);
        let old = [rows];
        let mut moves = moves(&old);
        moves.add(&batch(vec![2 << 32, 1 << 32])).unwrap();
        moves.add(&batch(vec![1 << 32 | 2])).unwrap();
        let map = moves.finish().unwrap().addresses.unwrap();
        assert_eq!(map.len(), 4);
        assert_eq!(map[&(2 << 32)], Some(7 << 32));
        assert_eq!(map[&(1 << 32)], Some(7 << 32 | 1));
        assert_eq!(map[&(1 << 32 | 1)], None);
        assert_eq!(map[&(1 << 32 | 2)], Some(8 << 32));
    }

    #[test]
    fn wrong_rows_are_refused() {
        let mut rows = OldRows::default();
        rows.add(1, 3, 0);
        let old = [rows];
        for wrong in [vec![1 << 32, 1 << 32], vec![2 << 32], vec![1 << 32 | 3]] {
            assert!(moves(&old).add(&batch(wrong)).is_err());
        }
        let mut few = moves(&old);
        few.add(&batch(vec![1 << 32])).unwrap();
        assert!(few.finish().is_err());
        let mut many = moves(&old);
        many.add(&batch(vec![1 << 32, 1 << 32 | 1, 1 << 32 | 2]))
            .unwrap();
        assert!(many.add(&batch(vec![1 << 32])).is_err());
    }
}
