//! Summaries of columns that travel within a data file ("seeds" to Lance), from which an index is
//! brought up to date without the column being read again. Lance's own writers leave them; so do
//! these, for the indexes that ask for them.

use arrow_array::RecordBatch;
use lance::Dataset;
use lance::index::scalar::{IndexDetails, fetch_index_details};
use lance_file::writer::FileWriter;
use lance_index::scalar::seed::IndexSeedWriter;

use crate::dataset::usable_indices;
use crate::error::Outcome;

pub struct Seeds {
    writers: Vec<Box<dyn IndexSeedWriter>>,
}

impl Seeds {
    pub async fn open(dataset: &Dataset) -> Outcome<Self> {
        let mut writers = Vec::new();
        for index in usable_indices(dataset).await?.iter() {
            let field = index
                .keyed_field()
                .and_then(|id| dataset.schema().fields.iter().find(|field| field.id == id));
            let Some(field) = field else {
                continue;
            };
            // Without a seed the index reads the column: none of these failures is one of the write.
            let Ok(details) = fetch_index_details(dataset, &field.name, index).await else {
                continue;
            };
            let index = IndexDetails(details.clone());
            let Ok(plugin) = index.get_plugin() else {
                continue;
            };
            let values = field.data_type();
            let writer = plugin.create_seed_writer(&field.name, &values, &details);
            writers.extend(writer.await?);
        }
        Ok(Self { writers })
    }

    /// Takes note of a batch as it is written.
    pub fn observe(&mut self, batch: &RecordBatch) -> Outcome<()> {
        for writer in &mut self.writers {
            if let Some(column) = batch.column_by_name(writer.column_name()) {
                writer.observe_batch(column)?;
            }
        }
        Ok(())
    }

    /// Puts the seeds into a file that is about to be finished.
    pub async fn embed(mut self, file: &mut FileWriter) -> Outcome<()> {
        for writer in &mut self.writers {
            if let Some(seed) = writer.finish()? {
                let place = file.add_global_buffer(seed).await?;
                file.add_schema_metadata(
                    writer.schema_metadata_key(),
                    writer.schema_metadata_value(place),
                );
            }
        }
        Ok(())
    }
}
