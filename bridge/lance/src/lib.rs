//! The exported functions. `include/thalweg_lance.h` is their contract: ownership, threads,
//! errors. Here is only the border; the work is done in the modules.

// The safety of each function is what the header says about its arguments.
#![allow(clippy::missing_safety_doc)]

mod border;
mod commit;
mod dataset;
mod describe;
mod error;
mod files;
mod fragment;
mod import;
mod indexes;
mod lineage;
mod local_file;
mod rewrite;
mod scan;
mod seeds;
mod stream;
mod writer;

use std::ffi::{CString, c_char, c_int};
use std::sync::Arc;

use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::Schema as ArrowSchema;

use border::{check_out, give, give_json, json, run, text, wait};
use dataset::{DatasetHandle, StringMap};
use error::{Failure, Outcome};
use writer::DataFileWriter;

const ABI_VERSION: i32 = 4;

/// One dataset handle of the ABI.
pub struct ThalwegLanceDataset(DatasetHandle);

/// One writer of the ABI.
pub struct ThalwegLanceWriter(DataFileWriter);

impl ThalwegLanceDataset {
    fn boxed(dataset: lance::Dataset) -> *mut Self {
        Box::into_raw(Box::new(Self(DatasetHandle {
            dataset: Arc::new(dataset),
        })))
    }
}

unsafe fn opened<'a>(dataset: *const ThalwegLanceDataset) -> Outcome<&'a Arc<lance::Dataset>> {
    match unsafe { dataset.as_ref() } {
        Some(handle) => Ok(&handle.0.dataset),
        None => Err(Failure::invalid("the dataset is NULL")),
    }
}

unsafe fn writing<'a>(writer: *mut ThalwegLanceWriter) -> Outcome<&'a mut DataFileWriter> {
    match unsafe { writer.as_mut() } {
        Some(handle) => Ok(&mut handle.0),
        None => Err(Failure::invalid("the writer is NULL")),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn thalweg_lance_abi_version() -> i32 {
    ABI_VERSION
}

#[unsafe(no_mangle)]
pub extern "C" fn thalweg_lance_crate_version() -> *const c_char {
    c"14.0.2".as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn thalweg_lance_last_error() -> *const c_char {
    border::last_error()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_string_free(text: *mut c_char) {
    if !text.is_null() {
        drop(unsafe { CString::from_raw(text) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_open(
    uri: *const c_char,
    options: *const c_char,
    version: u64,
    out: *mut *mut ThalwegLanceDataset,
) -> c_int {
    run(|| {
        check_out(out)?;
        let uri = unsafe { text(uri, "the dataset's path") }?;
        let options: StringMap = unsafe { json(options, "storage options") }?;
        let dataset = wait(dataset::open(uri, options, version))?;
        unsafe { give(out, ThalwegLanceDataset::boxed(dataset)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_close(dataset: *mut ThalwegLanceDataset) {
    if !dataset.is_null() {
        run(|| {
            drop(unsafe { Box::from_raw(dataset) });
            Ok(())
        });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_create(
    uri: *const c_char,
    options: *const c_char,
    schema: *mut FFI_ArrowSchema,
    request: *const c_char,
    out: *mut *mut ThalwegLanceDataset,
) -> c_int {
    run(|| {
        // Consumed whatever follows.
        let schema = unsafe { import::schema(schema) };
        check_out(out)?;
        let uri = unsafe { text(uri, "the dataset's path") }?;
        let options: StringMap = unsafe { json(options, "storage options") }?;
        let request = unsafe { json(request, "request") }?;
        let schema = ArrowSchema::try_from(&schema?)?;
        let dataset = wait(dataset::create(uri, options, schema, request))?;
        unsafe { give(out, ThalwegLanceDataset::boxed(dataset)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_describe(
    dataset: *mut ThalwegLanceDataset,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let description = wait(describe::describe(dataset))?;
        unsafe { give_json(out, &description) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_schema(
    dataset: *mut ThalwegLanceDataset,
    out: *mut FFI_ArrowSchema,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let schema = FFI_ArrowSchema::try_from(scan::schema(dataset))?;
        unsafe { give(out, schema) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_latest_version(
    dataset: *mut ThalwegLanceDataset,
    version: *mut u64,
) -> c_int {
    run(|| {
        check_out(version)?;
        let dataset = unsafe { opened(dataset) }?;
        let latest = wait(async { Ok(dataset.latest_version_id().await?) })?;
        unsafe { give(version, latest) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_transactions(
    dataset: *mut ThalwegLanceDataset,
    from: u64,
    to: u64,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let transactions = wait(describe::transactions(dataset, from, to))?;
        unsafe { give_json(out, &transactions) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_scan(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    out: *mut FFI_ArrowArrayStream,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let stream = wait(scan::scan(dataset, request))?;
        unsafe { give(out, stream.export()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_zones(
    dataset: *mut ThalwegLanceDataset,
    column: *const c_char,
    out: *mut FFI_ArrowArrayStream,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let column = unsafe { text(column, "the column's name") }?;
        let stream = wait(indexes::zones(dataset, column))?;
        unsafe { give(out, stream.export()) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_scan_statistics(
    dataset: *mut ThalwegLanceDataset,
    filter: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let filter = unsafe { text(filter, "the filter") }?;
        let statistics = wait(scan::statistics(dataset, filter))?;
        unsafe { give_json(out, &statistics) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_writer_open(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    out: *mut *mut ThalwegLanceWriter,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let writer = wait(DataFileWriter::open(dataset, request))?;
        unsafe { give(out, Box::into_raw(Box::new(ThalwegLanceWriter(writer)))) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_writer_write(
    writer: *mut ThalwegLanceWriter,
    batch: *mut FFI_ArrowArray,
    schema: *mut FFI_ArrowSchema,
) -> c_int {
    run(|| {
        // Both are consumed whatever follows.
        let schema = unsafe { import::schema(schema) };
        if batch.is_null() {
            return Err(Failure::invalid("the batch is NULL"));
        }
        let batch = unsafe { FFI_ArrowArray::from_raw(batch) };
        let writer = unsafe { writing(writer) }?;
        let batch = unsafe { import::batch(batch, &schema?) }?;
        wait(writer.write(batch))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_writer_bytes(
    writer: *mut ThalwegLanceWriter,
    bytes: *mut i64,
) -> c_int {
    run(|| {
        check_out(bytes)?;
        let writer = unsafe { writing(writer) }?;
        let written = wait(writer.bytes())?;
        unsafe { give(bytes, i64::try_from(written).unwrap_or(i64::MAX)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_writer_finish(
    writer: *mut ThalwegLanceWriter,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let writer = unsafe { writing(writer) }?;
        let finished = wait(writer.finish())?;
        unsafe { give_json(out, &finished) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_writer_close(writer: *mut ThalwegLanceWriter) {
    if !writer.is_null() {
        run(|| {
            let mut writer = unsafe { Box::from_raw(writer) };
            wait(async {
                writer.0.discard().await;
                Ok(())
            })
        });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_data_file_info(
    dataset: *mut ThalwegLanceDataset,
    path: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let path = unsafe { text(path, "the path") }?;
        let info = wait(files::data_file_info(dataset, path))?;
        unsafe { give_json(out, &info) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_commit_fragments(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let committed = wait(commit::fragments(dataset, request))?;
        unsafe { give_json(out, &committed) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_reserve_fragments(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let reserved = wait(commit::reserve(dataset, request))?;
        unsafe { give_json(out, &reserved) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_commit_rewrite(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    rows: *mut FFI_ArrowArrayStream,
    crash_point: Option<extern "C" fn(*const c_char)>,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        // Consumed whatever follows.
        let rows = unsafe { stream::import(rows) };
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let rows = rows?;
        let checked = wait(rewrite::check(dataset, request))?;
        let moves = match rows {
            None if checked.needs_addresses() || checked.needs_lineage() => {
                return Err(Failure::invalid("the rewrite needs the stream of rows"));
            }
            None => None,
            Some(rows) => {
                let mut moves = checked.moves();
                for batch in rows {
                    let batch = batch
                        .map_err(|error| Failure::from(error).context("the stream of rows"))?;
                    moves.add(&batch)?;
                }
                Some(moves)
            }
        };
        let prepared = wait(rewrite::prepare(checked, moves))?;
        if let Some(crash_point) = crash_point {
            crash_point(c"after-remap".as_ptr());
        }
        let rewritten = wait(rewrite::finish(prepared))?;
        unsafe { give_json(out, &rewritten) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_update_metadata(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let version = wait(commit::metadata(dataset, request))?;
        unsafe { give_json(out, &version) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_refresh_zone_maps(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let refreshed = wait(indexes::refresh_zone_maps(dataset, request))?;
        unsafe { give_json(out, &refreshed) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_check_sources(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
) -> c_int {
    run(|| {
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        wait(rewrite::check_sources(dataset, request))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_unify_indices(
    dataset: *mut ThalwegLanceDataset,
    request: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let request = unsafe { json(request, "request") }?;
        let unified = wait(indexes::unify(dataset, request))?;
        unsafe { give_json(out, &unified) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_list_files(
    dataset: *mut ThalwegLanceDataset,
    folder: *const c_char,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let folder = unsafe { text(folder, "the folder") }?;
        let listed = wait(files::list(dataset, folder))?;
        unsafe { give_json(out, &listed) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_read_file(
    dataset: *mut ThalwegLanceDataset,
    path: *const c_char,
    bytes: *mut *mut u8,
    size: *mut u64,
) -> c_int {
    run(|| {
        check_out(bytes)?;
        check_out(size)?;
        let dataset = unsafe { opened(dataset) }?;
        let path = unsafe { text(path, "the path") }?;
        let content = wait(files::read(dataset, path))?.into_boxed_slice();
        let length = content.len() as u64;
        unsafe { give(bytes, Box::into_raw(content).cast::<u8>()) }?;
        unsafe { give(size, length) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_bytes_free(bytes: *mut u8, size: u64) {
    if !bytes.is_null() {
        let slice = std::ptr::slice_from_raw_parts_mut(bytes, size as usize);
        drop(unsafe { Box::from_raw(slice) });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_write_file(
    dataset: *mut ThalwegLanceDataset,
    path: *const c_char,
    bytes: *const u8,
    size: u64,
) -> c_int {
    run(|| {
        let dataset = unsafe { opened(dataset) }?;
        let path = unsafe { text(path, "the path") }?;
        let content = match (bytes.is_null(), size) {
            (_, 0) => &[],
            (true, _) => return Err(Failure::invalid("the bytes are NULL")),
            (false, _) => unsafe { std::slice::from_raw_parts(bytes, size as usize) },
        };
        wait(files::write(dataset, path, content))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_delete_file(
    dataset: *mut ThalwegLanceDataset,
    path: *const c_char,
) -> c_int {
    run(|| {
        let dataset = unsafe { opened(dataset) }?;
        let path = unsafe { text(path, "the path") }?;
        wait(files::delete(dataset, path))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_lance_referenced_files(
    dataset: *mut ThalwegLanceDataset,
    out: *mut *mut c_char,
) -> c_int {
    run(|| {
        check_out(out)?;
        let dataset = unsafe { opened(dataset) }?;
        let referenced = wait(files::referenced(dataset))?;
        unsafe { give_json(out, &referenced) }
    })
}
