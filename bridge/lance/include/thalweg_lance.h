/* The C ABI between Thalweg and the `lance` crate (library libthalweg_lance.so).
 *
 * Ownership. Every handle has one owner: the caller that got it closes it, once. Strings that come
 * back through a `char**` are freed with thalweg_lance_string_free. Arrow structures follow the
 * Arrow C data and C stream interfaces: an exported structure belongs to the caller, who calls its
 * `release`; an imported one is consumed by the call, whether it succeeds or fails (a stream or
 * array that was consumed has its `release` set to NULL).
 *
 * Threads. Every function may be called from any thread and blocks until it is done. A dataset
 * handle is one immutable version of one dataset and may be used by several threads at once. A
 * writer and a stream are used by one thread at a time. Streams and writers keep what they need
 * alive: the dataset handle may be closed before them. The library owns one pool of threads, made
 * at its first use; the process must not fork after that.
 *
 * Errors. Functions return THALWEG_LANCE_OK or the kind of the failure; the message, one line, is
 * thalweg_lance_last_error() of the same thread until its next call. Outputs are untouched by a
 * failure. A panic is caught at this border and becomes THALWEG_LANCE_INTERNAL. Streams report
 * failures as the C stream interface does (a non-zero code and get_last_error).
 *
 * JSON. Requests and descriptions are UTF-8 JSON objects. Unknown members of requests are refused.
 * Numbers above 2^53 (row ids, hashes) are strings of decimal digits.
 * Paths of files are relative to the dataset's root, without a leading slash ("data/x.lance").
 *
 * A stream's errno tells the kind of its failure: EIO storage, ENOSYS not supported, EINVAL the
 * rest.
 */
#ifndef THALWEG_LANCE_H_
#define THALWEG_LANCE_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;

typedef struct ThalwegLanceDataset ThalwegLanceDataset;
typedef struct ThalwegLanceWriter ThalwegLanceWriter;

/* What a failure means to the caller. */
enum {
  THALWEG_LANCE_OK = 0,
  THALWEG_LANCE_INVALID = 1,        /* the request or the data is wrong */
  THALWEG_LANCE_NOT_FOUND = 2,      /* no dataset, version, column or file of that name */
  THALWEG_LANCE_ALREADY_EXISTS = 3, /* a dataset is there already */
  THALWEG_LANCE_CONFLICT = 4,       /* another commit is in the way: look again and retry */
  THALWEG_LANCE_IO = 5,             /* storage failed; a commit did certainly not happen */
  THALWEG_LANCE_UNKNOWN = 6,        /* a commit was sent and its outcome is not known */
  THALWEG_LANCE_NOT_SUPPORTED = 7,  /* features that this library cannot read or write */
  THALWEG_LANCE_INTERNAL = 8        /* a fault of the library itself */
};

/* Raised with every incompatible change of this header: the caller refuses another one. */
#define THALWEG_LANCE_ABI_VERSION 4
int32_t thalweg_lance_abi_version(void);
/* Version of the lance crate, static. */
const char* thalweg_lance_crate_version(void);
/* Message of this thread's last failure; "" before any. Valid until the thread's next call. */
const char* thalweg_lance_last_error(void);
void thalweg_lance_string_free(char* text);

/* -- Datasets ---------------------------------------------------------------------------------- */

/* `options`: object of strings, storage options as Lance takes them (keys of object_store; {} for
 * the environment's). `version` 0 opens the latest one. INVALID where a file stands there, or a
 * damaged manifest. */
int thalweg_lance_open(const char* uri, const char* options, uint64_t version,
                       ThalwegLanceDataset** out);
void thalweg_lance_close(ThalwegLanceDataset* dataset);

/* Creates an empty dataset of this schema. request: {"storage_version": "2.2", "stable_row_ids":
 * false, "config": {…}}; every member may be left out (Lance's defaults). */
int thalweg_lance_create(const char* uri, const char* options, struct ArrowSchema* schema,
                         const char* request, ThalwegLanceDataset** out);

/* {"uri", "version", "timestamp_millis",
 *  "storage_version": "2.2", "stable_row_ids": bool, "reader_flags", "writer_flags",
 *  "unwritable": null or why this library cannot write the dataset,
 *  "config": {string: string}, "table_metadata": {string: string},
 *  "fields": [{"id", "name", "type", "nullable", "top_level": true, "blob": bool}]   (top-level
 * columns, in order) "fragments": [fragment…], "indices": [{"name", "uuid", "fields": [id…],
 * "type": "BTree"|"Bitmap"|"LabelList"|"Inverted"| "ZoneMap"|"BloomFilter"|"IVF_PQ"|…|"unknown",
 * "vector": bool, "system": bool, "remappable": bool, "usable": bool, "fragments": [id…] or null
 * (unknown), "dataset_version"}]          one entry a segment "fragment_reuse_index": bool}
 *
 * fragment: {"id", "physical_rows", "deleted_rows",
 *  "files": [{"path", "fields": [id…], "columns": [n…], "bytes" (-1: unknown), "major", "minor",
 *     "base": id or null}],
 *  "deletion_file": null or {"read_version", "id", "type", "deleted_rows", "base"},
 *  "overlays": [{"path", "fields"…}] ([] where there are none),
 *  "row_ids": null or a hash of the row id and version sequences as 16 hex digits}
 * The fragments are those of this version in the manifest's order.
 *
 * "columns" are the places of "fields" in the file. A fragment that goes back into a commit is best
 * given back as it came; where "columns" is missing, the file is taken to hold exactly the current
 * schema. A file of another base has its path relative to that base. A data file data/x.lance owns
 * everything below data/x/ (its blobs). "fragments" of an index are the live ones. "remappable": a
 * rewrite keeps the index, so each of its segments has to cover a group wholly or not at all; the
 * others lose what is rewritten and are refreshed afterwards. */
int thalweg_lance_describe(ThalwegLanceDataset* dataset, char** json);
/* Schema of the top-level columns as scans without identity columns give them. Field metadata is
 * kept. */
int thalweg_lance_schema(ThalwegLanceDataset* dataset, struct ArrowSchema* out);

/* Number of the latest version now in storage. */
int thalweg_lance_latest_version(ThalwegLanceDataset* dataset, uint64_t* version);

/* The transactions that made the versions `from`..`to` (inclusive, ascending; those no longer in
 * storage are left out, "missing" says how many): {"missing": n, "transactions": [{"version",
 * "timestamp_millis", "operation": "Append"|"Rewrite"|…, "read_version", "uuid",
 * "properties": {string: string}}]} */
int thalweg_lance_transactions(ThalwegLanceDataset* dataset, uint64_t from, uint64_t to,
                               char** json);

/* -- Reading ----------------------------------------------------------------------------------- */

/* Live rows of fragments, in the order given and within each in physical order.
 * request: {"fragments": [id…]                     of this version, or
 *           "new_fragment": fragment              one that a writer finished and no version has,
 *  "columns": [name…]                                 top-level, in this order; [] is allowed with
 * identity columns "row_address": bool, "row_id": bool, "row_versions": bool   append the columns
 * _rowaddr, _rowid, _row_created_at_version and _row_last_updated_at_version (uint64), in this
 * order; not with new_fragment, "batch_rows": n, "batch_bytes": n, "io_buffer_bytes": n    0:
 * Lance's defaults. A batch has at most batch_rows rows and about batch_bytes, not above twice that
 * unless one row is larger.} Blob columns come as the bytes that they hold (large_binary); blobs
 * that are references to objects outside of the dataset are NOT_SUPPORTED. JSON columns come as
 * they are stored (large_binary with the extension lance.json). Decoding runs ahead of the consumer
 * on the library's threads. */
int thalweg_lance_scan(ThalwegLanceDataset* dataset, const char* request,
                       struct ArrowArrayStream* out);

/* The zones of the zone-map index on one column (all its segments), without those of fragments that
 * the index does not cover any more. Columns: fragment_id uint64, zone_start uint64, zone_length
 * uint64, min T, max T, null_count uint64, nan_count uint64. NOT_FOUND when the column has no zone
 * map. */
int thalweg_lance_zones(ThalwegLanceDataset* dataset, const char* column,
                        struct ArrowArrayStream* out);

/* Runs a filter (SQL expression) and reports what was scanned: {"rows", "fragments_scanned",
 * "rows_scanned", "bytes_read", "plan": text}. */
int thalweg_lance_scan_statistics(ThalwegLanceDataset* dataset, const char* filter, char** json);

/* -- Writing data files ------------------------------------------------------------------------ */

/* A new data file under data/, one fragment. request: {"name": "x.lance", "batch_rows_hint": n,
 * "buffer_bytes": n that the encoders may hold back, all columns together; 0: 8 MiB a column}. In
 * the dataset's storage version and current schema. Blob columns are written as the dataset stores
 * them. The file is there only after writer_finish. A crash leaves on a local disk
 * "data/<name>.tmp", on an object store nothing that a listing shows; of a file x.lance with blob
 * v2 columns also things below "data/_parts/x.lance/" and the blobs below "data/x/" (delete_file
 * takes each away). Encoding runs within writer_write; writers do not wait for each other. */
int thalweg_lance_writer_open(ThalwegLanceDataset* dataset, const char* request,
                              ThalwegLanceWriter** out);
/* A batch of all top-level columns in the schema's order (what scan gives, without identity
 * columns; JSON text with the extension arrow.json and view types are converted). Consumes both.
 * After a failure of Lance itself the file is given up and every further write fails. */
int thalweg_lance_writer_write(ThalwegLanceWriter* writer, struct ArrowArray* batch,
                               struct ArrowSchema* schema);
/* Bytes written so far, as far as the encoder has let them out; 0 for files with blob v2 columns.
 */
int thalweg_lance_writer_bytes(ThalwegLanceWriter* writer, int64_t* bytes);
/* Closes the file. {"fragment": fragment (id 0), "rows", "bytes"} with the row count read back from
 * the footer in storage. A file without rows is removed and INVALID. */
int thalweg_lance_writer_finish(ThalwegLanceWriter* writer, char** json);
/* Frees the writer; an unfinished file is deleted, as far as that can be done. */
void thalweg_lance_writer_close(ThalwegLanceWriter* writer);

/* {"rows", "bytes"} of a data file as its footer and the storage say; NOT_FOUND, INVALID. */
int thalweg_lance_data_file_info(ThalwegLanceDataset* dataset, const char* path, char** json);

/* -- Commits: each makes one version, or fails ------------------------------------------------- */
/* All take "properties": {string: string}, the transaction's properties, and give {"version"}. The
 * handle says which version was read: concurrent commits since then are conflicts where Lance says
 * so. */

/* Fragments that writers finished, appended or replacing all rows. request: {"mode":
 * "append"|"overwrite", "fragments": [fragment…], "properties"}; gives {"version", "fragments":
 * [the new fragments with their ids]}. An overwrite is a conflict when the dataset moved since this
 * version. */
int thalweg_lance_commit_fragments(ThalwegLanceDataset* dataset, const char* request, char** json);

/* Reserves `count` fragment ids: {"version", "first_id"}. request: {"count", "properties"}. */
int thalweg_lance_reserve_fragments(ThalwegLanceDataset* dataset, const char* request, char** json);

/* One Rewrite. request: {"groups": [{"old": [id…], "new": [fragment with its reserved id…]}],
 * "remap": bool, "properties"}; the handle is the version that was planned and read; old ids are of
 * that version. The remap and the index metadata are taken at the latest version. `rows` (NULL or a
 * released stream where nothing needs them) has, row by row in the order of the new fragments of
 * all groups, the identity columns that scan gave: _rowaddr (for "remap"), and _rowid,
 * _row_created_at_version, _row_last_updated_at_version for datasets with stable row ids. CONFLICT
 * when a source fragment (files, deletion file, overlays, row ids) differs from the latest
 * version's, and when an index segment covers a group only in part (unify_indices, or other
 * groups). INVALID when rows are missing, twice, or not of their group. NOT_SUPPORTED, by name, for
 * an index on the sources that Lance could not take along. The stream is read on the calling thread
 * and may itself call this library. The map of moved rows takes 50 to 60 bytes for each physical
 * row of the sources while an index is remapped. "dropped" are the indexes that lost their coverage
 * of the sources (zone maps and their like): to be refreshed. Gives {"version", "remapped": [index
 * name…], "dropped": [index name…]}. `crash_point`, may be NULL, is called with a name between its
 * steps
 * ("after-remap"). */
int thalweg_lance_commit_rewrite(ThalwegLanceDataset* dataset, const char* request,
                                 struct ArrowArrayStream* rows, void (*crash_point)(const char*),
                                 char** json);

/* Whether a rewrite of these fragments of the handle's version would take their indexes along,
 * asked before they are read: request {"fragments": [id…]}. NOT_SUPPORTED, by name, as for
 * commit_rewrite. Opens each index on them. */
int thalweg_lance_check_sources(ThalwegLanceDataset* dataset, const char* request);

/* Sets (string) or removes (null) entries. request: {"config": {…}, "table_metadata": {…},
 * "properties"}; absent maps are untouched. Both maps change in one version. Other writers' commits
 * since the handle's version are no obstacle, except an update of the same keys: CONFLICT. */
int thalweg_lance_update_metadata(ThalwegLanceDataset* dataset, const char* request, char** json);

/* -- Indexes ------------------------------------------------------------------------------------
 */

/* Creates the zone maps that are missing on these columns and brings all of them to cover every
 * live fragment alike; so too the other indexes that a rewrite cannot take along (zone maps of
 * other columns, bloom filters). request: {"columns": [name…], "rows_per_zone": n (0: Lance's
 * default; for new ones), "properties"}. Gives {"version", "created": [name…], "refreshed":
 * [name…], "failed": {name: why}, "withheld": [column…], "losing": [name…]}; version is the
 * handle's own when there was nothing to change (no version is made). "failed" are indexes on other
 * columns, which stay as they are. "withheld" are columns of floats on which a zone map would make
 * Lance lose rows, because a zone has nothing but NaN or a NaN has a sign: none is created, and one
 * of this library's making is removed; "losing" are such zone maps of other makers, which are left.
 * An existing zone map of any name is used, and keeps its rows per zone; new ones are called
 * thalweg_zonemap_<column>. */
int thalweg_lance_refresh_zone_maps(ThalwegLanceDataset* dataset, const char* request, char** json);
/* Brings each remappable index that touches these fragments to where one segment, or segments that
 * cover all of them or none, cover them: request {"fragments": [id…], "dry_run": bool,
 * "drop_deleted": bool, "properties"}. With "drop_deleted" also those that name rows by stable row
 * ids, where such a fragment has deleted rows: a merge leaves these out. Full-text indexes of that
 * kind, which a merge would not help, are built anew over all live rows, with the parameters that
 * their files record, where a row was deleted since they were built; NOT_SUPPORTED, by name, where
 * the parameters cannot be read or carried over, and for what check_sources refuses. One commit for
 * everything. Gives {"version", "merged": [index name…], "unindexed_rows": n rows that it had (or
 * would have) to index, added up over the merged indexes, "rebuilt": [index name…], "rebuilt_rows":
 * n likewise over the rebuilt ones}. */
int thalweg_lance_unify_indices(ThalwegLanceDataset* dataset, const char* request, char** json);

/* -- Small files and housekeeping ----------------------------------------------------------------
 */

/* Files under a folder ("data", "_thalweg", "_indices"), recursively: [{"path", "bytes",
 * "modified_millis"}]; [] when the folder is not there. */
int thalweg_lance_list_files(ThalwegLanceDataset* dataset, const char* folder, char** json);
int thalweg_lance_read_file(ThalwegLanceDataset* dataset, const char* path, uint8_t** bytes,
                            uint64_t* size);
void thalweg_lance_bytes_free(uint8_t* bytes, uint64_t size);
/* Writes or replaces the file as a whole. */
int thalweg_lance_write_file(ThalwegLanceDataset* dataset, const char* path, const uint8_t* bytes,
                             uint64_t size);
/* OK also when there is no such file. */
int thalweg_lance_delete_file(ThalwegLanceDataset* dataset, const char* path);
/* Paths that any version, tag or branch in storage refers to: data files, deletion files, and
 * folders of indexes ("_indices/<uuid>"): [path…], sorted. Read afresh. The blobs of a data file
 * data/x.lance, below data/x/, are not listed: they go with it. */
int thalweg_lance_referenced_files(ThalwegLanceDataset* dataset, char** json);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* THALWEG_LANCE_H_ */
