/* Every rule of the border in plain C: who owns what, what is consumed, what comes back after bad
 * arguments and after failures. Made for the address sanitizer:
 *
 *   cc -std=c11 -g -fsanitize=address,undefined -Iinclude test/border_test.c -o border_test \
 *      <folder of libthalweg_lance.so>/libthalweg_lance.so -Wl,-rpath,<that folder>
 *   ./border_test <an empty folder>
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "thalweg_lance.h"

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema*);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray*);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};

static int failures = 0;
static int live = 0; /* structures of ours that nobody released yet */

#define CHECK(condition, ...)                             \
  do {                                                    \
    if (!(condition)) {                                   \
      printf("line %d: %s: ", __LINE__, #condition);      \
      printf(__VA_ARGS__);                                \
      printf(" (%s)\n", thalweg_lance_last_error());      \
      ++failures;                                         \
    }                                                     \
  } while (0)

/* The call gives this code, and a message of one line where it fails. */
static void expect(int line, const char* what, int code, int wanted) {
  const char* message = thalweg_lance_last_error();
  if (code != wanted) {
    printf("line %d: %s gave %d, not %d (%s)\n", line, what, code, wanted, message);
    ++failures;
  } else if (code != THALWEG_LANCE_OK &&
             (message[0] == '\0' || strchr(message, '\n') || strstr(message, ".rs:"))) {
    printf("line %d: %s has the message \"%s\"\n", line, what, message);
    ++failures;
  }
}
#define EXPECT(wanted, call) expect(__LINE__, #call, call, wanted)

/* -- Arrow structures of ours ------------------------------------------------------------------ */

static void release_schema(struct ArrowSchema* schema) {
  for (int64_t i = 0; i < schema->n_children; ++i) {
    if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    free(schema->children[i]);
  }
  free(schema->children);
  schema->release = NULL;
  --live;
}

static struct ArrowSchema plain_schema(const char* name, const char* format, int nullable) {
  ++live;
  return (struct ArrowSchema){.format = format,
                              .name = name,
                              .flags = nullable ? 2 : 0,
                              .release = release_schema};
}

static struct ArrowSchema struct_schema(int n, const char** names, const char** formats,
                                        const int* nullable) {
  struct ArrowSchema schema = plain_schema("", "+s", 0);
  schema.n_children = n;
  schema.children = malloc(n * sizeof(struct ArrowSchema*));
  for (int i = 0; i < n; ++i) {
    schema.children[i] = malloc(sizeof(struct ArrowSchema));
    *schema.children[i] = plain_schema(names[i], formats[i], nullable[i]);
  }
  return schema;
}

static void release_array(struct ArrowArray* array) {
  for (int64_t i = 0; i < array->n_buffers; ++i) free((void*)array->buffers[i]);
  free(array->buffers);
  for (int64_t i = 0; i < array->n_children; ++i) {
    if (array->children[i]->release) array->children[i]->release(array->children[i]);
    free(array->children[i]);
  }
  free(array->children);
  array->release = NULL;
  --live;
}

static struct ArrowArray plain_array(int64_t length, int64_t n_buffers) {
  ++live;
  return (struct ArrowArray){.length = length,
                             .n_buffers = n_buffers,
                             .buffers = calloc(n_buffers, sizeof(void*)),
                             .release = release_array};
}

static struct ArrowArray numbers(int64_t length, int64_t first, int64_t step) {
  struct ArrowArray array = plain_array(length, 2);
  int64_t* values = aligned_alloc(64, ((length * 8 + 63) / 64) * 64);
  for (int64_t i = 0; i < length; ++i) values[i] = first + i * step;
  array.buffers[1] = values;
  return array;
}

static struct ArrowArray texts(int64_t length) {
  struct ArrowArray array = plain_array(length, 3);
  int32_t* offsets = malloc((length + 1) * 4);
  char* bytes = malloc(length * 8 + 1);
  int32_t end = 0;
  for (int64_t i = 0; i < length; ++i) {
    offsets[i] = end;
    end += sprintf(bytes + end, "t%03" PRId64, i % 1000);
  }
  offsets[length] = end;
  array.buffers[1] = offsets;
  array.buffers[2] = bytes;
  return array;
}

static struct ArrowArray struct_array(int64_t length, int n) {
  struct ArrowArray array = plain_array(length, 1);
  array.n_children = n;
  array.children = malloc(n * sizeof(struct ArrowArray*));
  for (int i = 0; i < n; ++i) array.children[i] = malloc(sizeof(struct ArrowArray));
  return array;
}

static struct ArrowSchema row_schema(void) {
  return struct_schema(2, (const char*[]){"id", "text"}, (const char*[]){"l", "u"},
                       (const int[]){0, 1});
}

static struct ArrowArray row_batch(int64_t length, int64_t first) {
  struct ArrowArray batch = struct_array(length, 2);
  *batch.children[0] = numbers(length, first, 1);
  *batch.children[1] = texts(length);
  return batch;
}

/* A stream of one batch of row addresses: those of two fragments, in reverse. */
struct Rows {
  int64_t per_fragment;
  int given;
};

static int rows_schema(struct ArrowArrayStream* stream, struct ArrowSchema* out) {
  (void)stream;
  *out = struct_schema(1, (const char*[]){"_rowaddr"}, (const char*[]){"L"}, (const int[]){0});
  return 0;
}

static int rows_next(struct ArrowArrayStream* stream, struct ArrowArray* out) {
  struct Rows* rows = stream->private_data;
  memset(out, 0, sizeof(*out));
  if (rows->given++ > 0) return 0;
  const int64_t n = rows->per_fragment;
  *out = struct_array(2 * n, 1);
  *out->children[0] = numbers(2 * n, 0, 0);
  uint64_t* values = (uint64_t*)out->children[0]->buffers[1];
  for (int64_t i = 0; i < 2 * n; ++i) {
    const uint64_t row = 2 * n - 1 - i;
    values[i] = ((row / n) << 32) | (row % n);
  }
  return 0;
}

static const char* rows_error(struct ArrowArrayStream* stream) {
  (void)stream;
  return NULL;
}

static void rows_release(struct ArrowArrayStream* stream) {
  free(stream->private_data);
  stream->release = NULL;
  --live;
}

static struct ArrowArrayStream row_stream(int64_t per_fragment) {
  ++live;
  struct Rows* rows = calloc(1, sizeof(struct Rows));
  rows->per_fragment = per_fragment;
  return (struct ArrowArrayStream){rows_schema, rows_next, rows_error, rows_release, rows};
}

/* -- The calls ----------------------------------------------------------------------------------- */

static int64_t number_after(const char* json, const char* key) {
  const char* at = strstr(json, key);
  return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

/* Reads a stream to its end and releases it; the sum of the first column, and the rows. */
static int64_t drain(struct ArrowArrayStream* stream, int64_t* rows) {
  int64_t sum = 0;
  *rows = 0;
  struct ArrowSchema schema;
  CHECK(stream->get_schema(stream, &schema) == 0, "no schema");
  schema.release(&schema);
  for (;;) {
    struct ArrowArray batch;
    if (stream->get_next(stream, &batch) != 0) {
      CHECK(0, "%s", stream->get_last_error(stream));
      break;
    }
    if (!batch.release) break;
    *rows += batch.length;
    const int64_t* values = batch.children[0]->buffers[1];
    for (int64_t i = 0; i < batch.length; ++i) sum += values[batch.children[0]->offset + i];
    batch.release(&batch);
  }
  stream->release(stream);
  return sum;
}

/* A finished data file's fragment as JSON, NULL after a failure. */
static char* write_file(ThalwegLanceDataset* dataset, const char* name, int64_t first,
                        int64_t rows) {
  char request[200];
  snprintf(request, sizeof(request), "{\"name\":\"%s\"}", name);
  ThalwegLanceWriter* writer = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_writer_open(dataset, request, &writer));
  if (!writer) return NULL;
  for (int64_t done = 0; done < rows; done += 1000) {
    struct ArrowSchema schema = row_schema();
    struct ArrowArray batch = row_batch(1000, first + done);
    EXPECT(THALWEG_LANCE_OK, thalweg_lance_writer_write(writer, &batch, &schema));
    CHECK(!batch.release && !schema.release, "not consumed");
  }
  int64_t bytes = -1;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_writer_bytes(writer, &bytes));
  CHECK(bytes >= 0, "bytes %" PRId64, bytes);
  char* json = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_writer_finish(writer, &json));
  /* After the end everything fails, and nothing is kept. */
  struct ArrowSchema schema = row_schema();
  struct ArrowArray batch = row_batch(10, 0);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_write(writer, &batch, &schema));
  CHECK(!batch.release && !schema.release, "not consumed");
  char* again = NULL;
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_finish(writer, &again));
  CHECK(!again, "an output after a failure");
  thalweg_lance_writer_close(writer);
  if (!json) return NULL;
  CHECK(number_after(json, "\"rows\":") == rows, "%s", json);
  /* {"fragment": {…}, "rows": …}: the object in the middle. */
  char* from = strchr(json + 1, '{');
  char* to = strstr(json, ",\"rows\":");
  char* fragment = calloc(1, to - from + 1);
  memcpy(fragment, from, to - from);
  thalweg_lance_string_free(json);
  return fragment;
}

static int crash_points = 0;
static void crash_point(const char* name) {
  if (strcmp(name, "after-remap") == 0) ++crash_points;
}

static void bad_arguments(const char* folder) {
  ThalwegLanceDataset* dataset = NULL;
  char uri[1000];
  snprintf(uri, sizeof(uri), "%s/none.lance", folder);
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_open(uri, "{}", 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(uri, "{", 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(uri, "[]", 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(NULL, "{}", 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(uri, NULL, 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open("", "{}", 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open("\xff\xfe", "{}", 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(uri, "{}", 0, NULL));
  CHECK(!dataset, "an output after a failure");

  char* json = NULL;
  uint64_t version;
  struct ArrowArrayStream stream;
  struct ArrowSchema schema;
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_describe(NULL, &json));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_schema(NULL, &schema));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_latest_version(NULL, &version));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_scan(NULL, "{}", &stream));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_finish(NULL, &json));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_commit_fragments(NULL, "{}", &json));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_check_sources(NULL, "{\"fragments\":[]}"));
  /* What is to be consumed is consumed. */
  struct ArrowSchema given = row_schema();
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_create(NULL, "{}", &given, "{}", &dataset));
  CHECK(!given.release, "not consumed");
  given = row_schema();
  struct ArrowArray batch = row_batch(10, 0);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_write(NULL, &batch, &given));
  CHECK(!given.release && !batch.release, "not consumed");
  struct ArrowArrayStream rows = row_stream(10);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_commit_rewrite(NULL, "{}", &rows, NULL, &json));
  CHECK(!rows.release, "not consumed");
  given = row_schema();
  EXPECT(THALWEG_LANCE_INVALID,
         thalweg_lance_create(uri, "{}", &given, "{\"storage\":\"2.2\"}", &dataset));
  given = row_schema();
  EXPECT(THALWEG_LANCE_INVALID,
         thalweg_lance_create(uri, "{}", &given, "{\"storage_version\":\"9.9\"}", &dataset));
  given = row_schema();
  EXPECT(THALWEG_LANCE_NOT_SUPPORTED,
         thalweg_lance_create(uri, "{}", &given, "{\"storage_version\":\"0.1\"}", &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_create(uri, "{}", &given, "{}", &dataset));
  CHECK(!dataset && !json, "an output after a failure");
  /* Nothing to free. */
  thalweg_lance_close(NULL);
  thalweg_lance_writer_close(NULL);
  thalweg_lance_string_free(NULL);
  thalweg_lance_bytes_free(NULL, 0);
}

static void bad_writes(ThalwegLanceDataset* dataset) {
  ThalwegLanceWriter* writer = NULL;
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_open(dataset, "{\"name\":\"a/b.lance\"}", &writer));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_open(dataset, "{\"name\":\"ab\"}", &writer));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_open(dataset, "{\"name\":\".lance\"}", &writer));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_open(dataset, "{}", &writer));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_writer_open(dataset, "{\"name\":\"bad.lance\"}", &writer));

  /* Too few columns. */
  struct ArrowSchema schema =
      struct_schema(1, (const char*[]){"id"}, (const char*[]){"l"}, (const int[]){0});
  struct ArrowArray batch = struct_array(5, 1);
  *batch.children[0] = numbers(5, 0, 1);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_write(writer, &batch, &schema));
  CHECK(!batch.release && !schema.release, "not consumed");
  /* Another name, another type, another order. */
  schema = struct_schema(2, (const char*[]){"id", "tex"}, (const char*[]){"l", "u"},
                         (const int[]){0, 1});
  batch = row_batch(5, 0);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_write(writer, &batch, &schema));
  schema = struct_schema(2, (const char*[]){"id", "text"}, (const char*[]){"L", "u"},
                         (const int[]){0, 1});
  batch = row_batch(5, 0);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_write(writer, &batch, &schema));
  /* A released batch. */
  schema = row_schema();
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_write(writer, &batch, &schema));
  CHECK(!schema.release, "not consumed");
  /* A null where the column takes none. */
  schema = struct_schema(2, (const char*[]){"id", "text"}, (const char*[]){"l", "u"},
                         (const int[]){1, 1});
  batch = row_batch(5, 0);
  uint8_t* validity = malloc(1);
  validity[0] = 0x1d;
  batch.children[0]->buffers[0] = validity;
  batch.children[0]->null_count = 1;
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_write(writer, &batch, &schema));
  CHECK(!batch.release && !schema.release, "not consumed");
  /* No rows, no file. */
  char* json = NULL;
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_writer_finish(writer, &json));
  thalweg_lance_writer_close(writer);

  /* Closed before its end: nothing is left. */
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_writer_open(dataset, "{\"name\":\"open.lance\"}", &writer));
  schema = row_schema();
  batch = row_batch(2000, 0);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_writer_write(writer, &batch, &schema));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_list_files(dataset, "data", &json));
  CHECK(json && strstr(json, "data/open.lance.tmp"), "%s", json ? json : "");
  thalweg_lance_string_free(json);
  thalweg_lance_writer_close(writer);
  json = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_list_files(dataset, "data", &json));
  CHECK(json && strcmp(json, "[]") == 0, "%s", json ? json : "");
  thalweg_lance_string_free(json);
}

static void small_files(ThalwegLanceDataset* dataset) {
  const char* path = "_thalweg/a/b.json";
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_delete_file(dataset, path));
  uint8_t* bytes = NULL;
  uint64_t size = 0;
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_read_file(dataset, path, &bytes, &size));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_write_file(dataset, path, (const uint8_t*)"hello", 5));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_read_file(dataset, path, &bytes, &size));
  CHECK(size == 5 && bytes && memcmp(bytes, "hello", 5) == 0, "%" PRIu64, size);
  thalweg_lance_bytes_free(bytes, size);
  bytes = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_write_file(dataset, path, NULL, 0));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_read_file(dataset, path, &bytes, &size));
  CHECK(size == 0, "%" PRIu64, size);
  thalweg_lance_bytes_free(bytes, size);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_write_file(dataset, "../x", (const uint8_t*)"x", 1));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_write_file(dataset, "/tmp/x", (const uint8_t*)"x", 1));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_delete_file(dataset, ""));
  char* json = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_list_files(dataset, "_thalweg", &json));
  CHECK(json && strstr(json, path), "%s", json ? json : "");
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_list_files(dataset, "no_such", &json));
  CHECK(json && strcmp(json, "[]") == 0, "%s", json ? json : "");
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_delete_file(dataset, path));
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_data_file_info(dataset, "data/no.lance", &json));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_write_file(dataset, "data/junk.lance", (const uint8_t*)"junkjunkjunk", 12));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_data_file_info(dataset, "data/junk.lance", &json));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_delete_file(dataset, "data/junk.lance"));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_check_sources(dataset, "{\"fragments\":[]}"));
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_check_sources(dataset, "{\"fragments\":[99]}"));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_check_sources(dataset, "{}"));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_check_sources(dataset, NULL));
}

/* Writes a file of the file system as a whole. */
static void put(const char* path, const char* text) {
  FILE* file = fopen(path, "wb");
  CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

/* What stands at a path and is no dataset. */
static void no_datasets(const char* folder) {
  char uri[1000], path[1200];
  ThalwegLanceDataset* dataset = NULL;
  snprintf(uri, sizeof(uri), "%s/file.lance", folder);
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_open(uri, "{}", 0, &dataset));
  put(uri, "rows");
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(uri, "{}", 0, &dataset));
  snprintf(uri, sizeof(uri), "%s/damaged.lance", folder);
  struct ArrowSchema schema = row_schema();
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_create(uri, "{}", &schema, "{}", &dataset));
  thalweg_lance_close(dataset);
  dataset = NULL;
  /* Version 1, by the names that count downwards. */
  snprintf(path, sizeof(path), "%s/_versions/18446744073709551614.manifest", uri);
  put(path, "no manifest, and not of the length of one");
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(uri, "{}", 0, &dataset));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_open(uri, "{}", 1, &dataset));
  CHECK(!dataset, "an output after a failure");
}

int main(int argc, char** argv) {
  if (argc != 2) {
    printf("usage: border_test <empty folder>\n");
    return 2;
  }
  CHECK(thalweg_lance_abi_version() == THALWEG_LANCE_ABI_VERSION, "another ABI");
  CHECK(strcmp(thalweg_lance_crate_version(), "14.0.2") == 0, "another crate");
  CHECK(strcmp(thalweg_lance_last_error(), "") == 0, "an error before any call");
  bad_arguments(argv[1]);
  no_datasets(argv[1]);

  char uri[1000];
  snprintf(uri, sizeof(uri), "%s/a.lance", argv[1]);
  ThalwegLanceDataset* first = NULL;
  struct ArrowSchema schema = row_schema();
  EXPECT(THALWEG_LANCE_OK,
         thalweg_lance_create(uri, "{}", &schema,
                              "{\"storage_version\":\"2.1\",\"config\":{\"a\":\"b\"}}", &first));
  CHECK(!schema.release, "not consumed");
  if (!first) return 1;
  ThalwegLanceDataset* twice = NULL;
  schema = row_schema();
  EXPECT(THALWEG_LANCE_ALREADY_EXISTS, thalweg_lance_create(uri, "{}", &schema, "{}", &twice));
  CHECK(!schema.release && !twice, "not consumed");
  bad_writes(first);
  small_files(first);

  /* Two fragments, appended. */
  const int64_t rows = 3000;
  char* a = write_file(first, "run1-a.lance", 0, rows);
  char* b = write_file(first, "run1-b.lance", rows, rows);
  if (!a || !b) return 1;
  char request[8000];
  char* json = NULL;
  snprintf(request, sizeof(request), "{\"mode\":\"append\",\"fragments\":[%s,%s],\"properties\":{\"run\":\"1\"}}", a, b);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_commit_fragments(first, request, &json));
  if (!json) return 1;
  const int64_t version = number_after(json, "\"version\":");
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_commit_fragments(first, "{\"mode\":\"upsert\"}", &json));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_commit_fragments(first, "{\"mode\":\"append\",\"fragments\":[]}", &json));
  CHECK(!json, "an output after a failure");

  uint64_t latest = 0;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_latest_version(first, &latest));
  CHECK((int64_t)latest == version, "%" PRIu64, latest);
  ThalwegLanceDataset* second = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_open(uri, "{}", 0, &second));
  if (!second) return 1;
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_open(uri, "{}", 77, &twice));
  /* An overwrite by who has not seen the append. */
  snprintf(request, sizeof(request), "{\"mode\":\"overwrite\",\"fragments\":[]}");
  EXPECT(THALWEG_LANCE_CONFLICT, thalweg_lance_commit_fragments(first, request, &json));
  thalweg_lance_close(first);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_describe(second, &json));
  CHECK(json && strstr(json, "\"storage_version\":\"2.1\"") && strstr(json, "\"a\":\"b\""), "%s", json ? json : "");
  CHECK(json && strstr(json, "\"unwritable\":null"), "%s", json ? json : "");
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_transactions(second, 1, 99, &json));
  CHECK(json && strstr(json, "\"run\":\"1\"") && strstr(json, "\"missing\":0"), "%s", json ? json : "");
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_schema(second, &schema));
  CHECK(schema.n_children == 2 && strcmp(schema.children[0]->name, "id") == 0, "another schema");
  schema.release(&schema);

  /* Scans: to the end, given up half-way, refused. */
  struct ArrowArrayStream stream;
  int64_t seen = 0;
  EXPECT(THALWEG_LANCE_OK,
         thalweg_lance_scan(second, "{\"fragments\":[1,0],\"columns\":[\"id\"],\"row_address\":true,\"row_id\":true,\"batch_rows\":500}", &stream));
  CHECK(drain(&stream, &seen) == rows * (2 * rows - 1) && seen == 2 * rows, "%" PRId64, seen);
  EXPECT(THALWEG_LANCE_OK,
         thalweg_lance_scan(second, "{\"fragments\":[0],\"columns\":[\"id\",\"text\"],\"batch_rows\":10}", &stream));
  struct ArrowArray batch;
  CHECK(stream.get_next(&stream, &batch) == 0 && batch.length == 10, "%" PRId64, batch.length);
  stream.release(&stream);
  batch.release(&batch); /* outlives its stream */
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_scan(second, "{\"fragments\":[9],\"columns\":[\"id\"]}", &stream));
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_scan(second, "{\"fragments\":[0],\"columns\":[\"no\"]}", &stream));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_scan(second, "{\"fragments\":[0],\"columns\":[]}", &stream));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_scan(second, "{\"columns\":[\"id\"]}", &stream));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_scan(second, "{\"fragments\":[0],\"columns\":[\"id\"],\"colums\":[]}", &stream));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_scan(second, "{\"fragments\":[0],\"columns\":[\"id\"],\"row_versions\":true}", &stream));
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_zones(second, "id", &stream));

  /* A rewrite: refused ones first. */
  char* c = write_file(second, "run2-c.lance", 0, 2 * rows);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_reserve_fragments(second, "{\"count\":1}", &json));
  if (!json || !c) return 1;
  const int64_t id = number_after(json, "\"first_id\":");
  thalweg_lance_string_free(json);
  json = NULL;
  snprintf(request, sizeof(request), "{\"fragments\":[1],\"columns\":[\"id\"]}");
  char scan_new[5000];
  snprintf(scan_new, sizeof(scan_new), "{\"new_fragment\":%s,\"columns\":[\"id\"]}", c);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_scan(second, scan_new, &stream));
  CHECK(drain(&stream, &seen) == rows * (2 * rows - 1) && seen == 2 * rows, "%" PRId64, seen);
  struct ArrowArrayStream moved = row_stream(rows);
  snprintf(request, sizeof(request), "{\"groups\":[{\"old\":[0,1],\"new\":[%s]}],\"remap\":false}", c);
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_commit_rewrite(second, request, &moved, NULL, &json));
  CHECK(!moved.release && !json, "not consumed");
  char* given = strstr(c, "\"id\":0");
  if (!given) return 1;
  snprintf(request, sizeof(request), "{\"groups\":[{\"old\":[0,1],\"new\":[{\"id\":%" PRId64 "%s]}],\"remap\":true}", id, given + 6);
  moved = row_stream(rows);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_commit_rewrite(second, request, &moved, crash_point, &json));
  CHECK(!moved.release && crash_points == 1, "%d crash points", crash_points);
  thalweg_lance_string_free(json);
  json = NULL;
  /* The sources are gone now. */
  EXPECT(THALWEG_LANCE_CONFLICT, thalweg_lance_commit_rewrite(second, request, NULL, NULL, &json));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_referenced_files(second, &json));
  CHECK(json && strstr(json, "data/run1-a.lance") && strstr(json, "data/run2-c.lance"), "%s", json ? json : "");
  thalweg_lance_string_free(json);
  json = NULL;
  thalweg_lance_close(second);

  /* Zone maps and metadata at the end of it. */
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_open(uri, "{}", 0, &second));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_refresh_zone_maps(second, "{\"columns\":[\"id\",\"text\"],\"rows_per_zone\":1000}", &json));
  CHECK(json && strstr(json, "thalweg_zonemap_text"), "%s", json ? json : "");
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_NOT_FOUND, thalweg_lance_refresh_zone_maps(second, "{\"columns\":[\"no\"]}", &json));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_update_metadata(second, "{\"config\":{\"a\":null,\"c\":\"d\"},\"table_metadata\":{\"m\":\"1\"}}", &json));
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_CONFLICT, thalweg_lance_update_metadata(second, "{\"table_metadata\":{\"m\":\"2\"}}", &json));
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_update_metadata(second, "{}", &json));
  thalweg_lance_close(second);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_open(uri, "{}", 0, &second));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_zones(second, "id", &stream));
  drain(&stream, &seen);
  CHECK(seen == 6, "%" PRId64 " zones", seen);
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_scan_statistics(second, "id = 17", &json));
  CHECK(json && number_after(json, "\"rows\":") == 1 && number_after(json, "\"rows_scanned\":") == 1000, "%s", json ? json : "");
  thalweg_lance_string_free(json);
  json = NULL;
  EXPECT(THALWEG_LANCE_INVALID, thalweg_lance_scan_statistics(second, "no = ", &json));
  EXPECT(THALWEG_LANCE_OK, thalweg_lance_describe(second, &json));
  CHECK(json && strstr(json, "\"c\":\"d\"") && !strstr(json, "\"a\":\"b\"") && strstr(json, "\"m\":\"1\""), "%s", json ? json : "");
  thalweg_lance_string_free(json);
  thalweg_lance_close(second);
  free(a);
  free(b);
  free(c);
  CHECK(live == 0, "%d Arrow structures were not released", live);
  printf(failures ? "%d failures\n" : "the border holds\n", failures);
  return failures ? 1 : 0;
}
