//! Streams of record batches across the border, both ways.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::error::ArrowError;
use arrow::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::border::{self, hold_panics};
use crate::error::{Failure, Outcome};

/// Batches that wait for the consumer. Lance reads ahead by itself; this one lets decoding go on
/// while the consumer works on the batch before.
const WAITING_BATCHES: usize = 1;

/// A stream that a task of the library's threads fills.
pub struct BatchStream {
    schema: SchemaRef,
    batches: mpsc::Receiver<Outcome<RecordBatch>>,
    task: Option<JoinHandle<()>>,
}

impl BatchStream {
    pub fn spawn(
        schema: SchemaRef,
        stream: impl Stream<Item = Outcome<RecordBatch>> + Send + 'static,
    ) -> Outcome<Self> {
        let (sender, batches) = mpsc::channel(WAITING_BATCHES);
        let task = border::runtime()?.spawn(async move {
            let mut stream = std::pin::pin!(stream);
            while let Some(item) = stream.next().await {
                let failed = item.is_err();
                if sender.send(item).await.is_err() || failed {
                    break;
                }
            }
        });
        Ok(Self {
            schema,
            batches,
            task: Some(task),
        })
    }

    pub fn from_batches(schema: SchemaRef, batches: Vec<RecordBatch>) -> Outcome<Self> {
        Self::spawn(schema, futures::stream::iter(batches.into_iter().map(Ok)))
    }

    pub fn export(self) -> FFI_ArrowArrayStream {
        FFI_ArrowArrayStream::new(Box::new(self))
    }

    fn take_next(&mut self) -> Outcome<Option<RecordBatch>> {
        if self.task.is_none() {
            return Ok(None);
        }
        match self.batches.blocking_recv() {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(failure)) => {
                self.stop();
                Err(failure)
            }
            // The end; unless the task ended by a panic, which must not look like one.
            None => match self.task.take() {
                None => Ok(None),
                Some(task) => border::wait(async move {
                    match task.await {
                        Ok(()) => Ok(None),
                        Err(error) if error.is_panic() => {
                            Err(border::panicked(error.into_panic().as_ref()))
                        }
                        Err(error) => Err(Failure::internal(error.to_string())),
                    }
                }),
            },
        }
    }

    fn stop(&mut self) {
        self.batches.close();
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for BatchStream {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Iterator for BatchStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        hold_panics(|| self.take_next())
            .map_err(Failure::into_arrow)
            .transpose()
    }
}

impl RecordBatchReader for BatchStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// A stream of the caller's, consumed batch by batch. None for NULL and for one that was released.
///
/// # Safety
/// `stream` is NULL, or points to a C stream; it is moved out, and its `release` becomes NULL.
pub unsafe fn import(stream: *mut FFI_ArrowArrayStream) -> Outcome<Option<ArrowArrayStreamReader>> {
    if stream.is_null() {
        return Ok(None);
    }
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream) };
    if stream.release.is_none() {
        return Ok(None);
    }
    // A schema that Arrow cannot read makes it panic in some versions.
    match catch_unwind(AssertUnwindSafe(|| ArrowArrayStreamReader::try_new(stream))) {
        Ok(reader) => {
            Ok(Some(reader.map_err(|error| {
                Failure::from(error).context("the stream of rows")
            })?))
        }
        Err(payload) => Err(border::panicked(payload.as_ref())),
    }
}
