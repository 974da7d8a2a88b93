#include "sort/cluster_sort.h"

#include <arrow/util/byte_size.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <thread>

#include "sort/sort_test_util_internal.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;

/// A table of `n` rows: a unique id, keys of several shapes, and payload of many types.
std::shared_ptr<arrow::Table> MakeTable(int64_t n, int seed, int string_bytes = 24) {
  std::mt19937_64 rng(seed);
  arrow::Int64Builder id, skewed;
  arrow::TimestampBuilder time(arrow::timestamp(arrow::TimeUnit::MICRO),
                               arrow::default_memory_pool());
  arrow::BooleanBuilder flag;
  arrow::StringBuilder text, prefixed;
  arrow::LargeBinaryBuilder binary;
  arrow::Decimal128Builder decimal(arrow::decimal128(12, 2));
  arrow::FixedSizeBinaryBuilder fixed(arrow::fixed_size_binary(5));
  arrow::StringDictionary32Builder coded;
  auto item = std::make_shared<arrow::Int32Builder>();
  arrow::ListBuilder list(arrow::default_memory_pool(), item);
  auto name = std::make_shared<arrow::StringBuilder>();
  auto inner = std::make_shared<arrow::DoubleBuilder>();
  arrow::StructBuilder nested(
      arrow::struct_({arrow::field("name", arrow::utf8()), arrow::field("x", arrow::float64())}),
      arrow::default_memory_pool(), {name, inner});
  auto maybe = [&] { return rng() % 10 == 0; };
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_TRUE(id.Append(i).ok());
    const double u = static_cast<double>(rng() % 1000000) / 1e6;
    EXPECT_TRUE(
        (maybe() ? skewed.AppendNull() : skewed.Append(static_cast<int64_t>(1e7 * u * u * u)))
            .ok());
    EXPECT_TRUE(time.Append(i * 1000 + static_cast<int64_t>(rng() % 5000)).ok());
    EXPECT_TRUE((maybe() ? flag.AppendNull() : flag.Append(rng() % 2 == 0)).ok());
    std::string bytes(rng() % (2 * string_bytes), 'a');
    for (char& c : bytes) c = static_cast<char>('a' + rng() % 26);
    EXPECT_TRUE((maybe() ? text.AppendNull() : text.Append(bytes)).ok());
    EXPECT_TRUE(prefixed.Append(fmt::format("{}/{}", std::string(64, 'p'), rng() % 5000)).ok());
    EXPECT_TRUE((maybe() ? binary.AppendNull() : binary.Append(bytes)).ok());
    EXPECT_TRUE(
        (maybe() ? decimal.AppendNull() : decimal.Append(arrow::Decimal128(rng() % 100000))).ok());
    EXPECT_TRUE(fixed.Append(fmt::format("abc{}", 10 + rng() % 90)).ok());
    EXPECT_TRUE((maybe() ? coded.AppendNull() : coded.Append(fmt::format("c{}", rng() % 50))).ok());
    if (maybe()) {
      EXPECT_TRUE(list.AppendNull().ok());
    } else {
      EXPECT_TRUE(list.Append().ok());
      for (uint64_t k = rng() % 4; k > 0; --k) {
        EXPECT_TRUE(item->Append(static_cast<int>(rng())).ok());
      }
    }
    EXPECT_TRUE(nested.Append().ok());
    EXPECT_TRUE(name->Append(fmt::format("n{}", rng() % 9)).ok());
    EXPECT_TRUE((maybe() ? inner->AppendNull() : inner->Append(u)).ok());
  }
  std::vector<std::pair<std::string, arrow::ArrayBuilder*>> builders = {
      {"id", &id},       {"skewed", &skewed},     {"time", &time},     {"flag", &flag},
      {"text", &text},   {"prefixed", &prefixed}, {"binary", &binary}, {"decimal", &decimal},
      {"fixed", &fixed}, {"coded", &coded},       {"list", &list},     {"nested", &nested}};
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (auto& [field, builder] : builders) {
    columns.push_back(builder->Finish().ValueOrDie());
    fields.push_back(arrow::field(field, columns.back()->type()));
  }
  return arrow::Table::Make(arrow::schema(fields), columns);
}

std::shared_ptr<arrow::Table> IntTable(const std::vector<std::vector<int64_t>>& columns) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  std::vector<int64_t> ids(columns[0].size());
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  auto add = [&](const std::string& name, const std::vector<int64_t>& values) {
    arrow::Int64Builder builder;
    EXPECT_TRUE(builder.AppendValues(values).ok());
    fields.push_back(arrow::field(name, arrow::int64()));
    arrays.push_back(builder.Finish().ValueOrDie());
  };
  add("id", ids);
  for (size_t c = 0; c < columns.size(); ++c) add(fmt::format("k{}", c), columns[c]);
  return arrow::Table::Make(arrow::schema(fields), arrays);
}

/// A size model: `factor` encoded bytes per uncompressed byte.
FileStore::SizeOf Scaled(double factor) {
  return [factor](const arrow::RecordBatch& batch) {
    return factor * static_cast<double>(arrow::util::ReferencedBufferSize(batch).ValueOr(0));
  };
}

struct Outcome {
  ClusterSortResult result;
  std::unique_ptr<FittedKeys> fitted;
};

/// Fits and sorts, and checks everything that holds for any sort: the same rows as before, keys
/// ascending within and across files, the stated first and last keys, rows and bytes, files in
/// their windows, cubes in order.
void SortAndCheck(const std::shared_ptr<arrow::Table>& table, TableSource& source,
                  const std::vector<int>& keys, ClusterSortOptions options, FileStore& store,
                  Outcome* outcome, int bits = 16) {
  auto fitted =
      FitKeys(source, keys, Curve::kHilbert, bits, Algorithm::kTypedQuantileRankV1, options);
  ASSERT_OK(fitted.status());
  ASSERT_EQ(fitted->rows, table->num_rows());
  auto result = SortIntoFiles(source, keys, *fitted, store.Factory(), options);
  ASSERT_OK(result.status());
  EXPECT_EQ(result->rows, table->num_rows());

  const auto kept = store.Kept();
  ASSERT_EQ(kept.size(), result->files.size());
  Key128 last = 0;
  int cube = 0;
  for (size_t f = 0; f < kept.size(); ++f) {
    const SortedFile& file = result->files[f];
    EXPECT_TRUE(kept[f]->finished);
    EXPECT_EQ(file.placement.file, static_cast<int>(f));
    EXPECT_EQ(kept[f]->placement.file, static_cast<int>(f));
    EXPECT_TRUE(file.placement.cube == cube || file.placement.cube == cube + 1);
    cube = file.placement.cube;
    EXPECT_EQ(file.bytes, kept[f]->bytes);
    int64_t rows = 0;
    for (const auto& batch : kept[f]->batches) {
      ASSERT_OK(batch->ValidateFull());
      std::vector<std::shared_ptr<arrow::Array>> columns;
      for (int key : keys) columns.push_back(batch->column(key));
      std::vector<Key128> of_batch(batch->num_rows());
      if (fitted->encoder.wide()) {
        ASSERT_OK(fitted->encoder.EncodeWide(columns, of_batch.data()));
      } else {
        std::vector<Key64> narrow(batch->num_rows());
        ASSERT_OK(fitted->encoder.Encode(columns, narrow.data()));
        of_batch.assign(narrow.begin(), narrow.end());
      }
      for (Key128 key : of_batch) {
        ASSERT_TRUE(key >= last);
        last = key;
        if (rows++ == 0) {
          EXPECT_TRUE(key == file.first_key);
        }
      }
    }
    EXPECT_TRUE(last == file.last_key);
    EXPECT_EQ(rows, file.rows);
  }
  EXPECT_EQ(result->cubes, kept.empty() ? 0 : cube + 1);

  std::vector<int> files_of_cube(result->cubes);
  for (const SortedFile& file : result->files) ++files_of_cube[file.placement.cube];
  int64_t outside = 0;
  for (const SortedFile& file : result->files) {
    const auto size = static_cast<double>(options.target_file_rows > 0 ? file.rows : file.bytes);
    const auto target = static_cast<double>(
        options.target_file_rows > 0 ? options.target_file_rows : options.target_file_bytes);
    const double low = options.hard_file_cap ? 0.67 : 0.8, high = options.hard_file_cap ? 1 : 1.2;
    if (size >= std::floor(low * target) && size <= std::ceil(high * target)) continue;
    ++outside;
    EXPECT_EQ(files_of_cube[file.placement.cube], 1) << size / target << " of its target";
  }
  EXPECT_EQ(result->files_outside_window, outside);

  const auto rows = store.KeptRows(kept.empty() ? table->schema() : kept[0]->batches[0]->schema());
  ASSERT_EQ(rows->num_rows(), table->num_rows());
  if (table->num_rows() > 0) {
    const auto before = OrderById(table), after = OrderById(rows);
    for (int c = 0; c < table->num_columns(); ++c) {
      if (table->field(c)->type()->id() == arrow::Type::DICTIONARY) {
        const auto value_type =
            static_cast<const arrow::DictionaryType&>(*table->field(c)->type()).value_type();
        auto plain = [&](const auto& column) {
          return arrow::compute::Cast(arrow::Datum(column), value_type)->chunked_array();
        };
        EXPECT_TRUE(plain(before->column(c))->Equals(plain(after->column(c))));
        EXPECT_EQ(after->field(c)->type()->id(), arrow::Type::DICTIONARY);
        continue;
      }
      EXPECT_TRUE(before->column(c)->Equals(after->column(c))) << table->field(c)->name();
    }
  }
  outcome->result = std::move(*result);
  outcome->fitted = std::make_unique<FittedKeys>(std::move(*fitted));
}

TEST(ClusterSort, AllTypesInMemory) {
  const auto table = MakeTable(30000, 1);
  TableSource source(table, 1000);
  FileStore store;
  ClusterSortOptions options;
  options.target_file_bytes = 300 << 10;
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
  EXPECT_GT(outcome.result.files.size(), 5u);
  EXPECT_EQ(outcome.result.spilled_bytes, 0);
}

TEST(ClusterSort, AllTypesSpilled) {
  const auto table = MakeTable(60000, 2);
  TableSource source(table, 1000);
  FileStore store;
  MemoryAccount memory(4 << 20);
  ClusterSortOptions options;
  options.memory = &memory;
  options.target_file_bytes = 300 << 10;
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2, 5}, options, store, &outcome));
  EXPECT_GT(outcome.result.spilled_bytes, 4 << 20);
  EXPECT_EQ(memory.held(), 0);
}

TEST(ClusterSort, MemoryAndSpillGiveTheSameKeyOrder) {
  const auto table = MakeTable(40000, 3);
  std::vector<Key128> first[2], last[2];
  for (int spill = 0; spill < 2; ++spill) {
    TableSource source(table, 500);
    FileStore store;
    MemoryAccount memory(spill ? 2 << 20 : 1 << 30);
    ClusterSortOptions options;
    options.memory = &memory;
    options.target_file_rows = 3000;
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {2, 4}, options, store, &outcome));
    EXPECT_EQ(outcome.result.spilled_bytes > 0, spill == 1);
    for (const SortedFile& file : outcome.result.files) {
      first[spill].push_back(file.first_key);
      last[spill].push_back(file.last_key);
    }
  }
  EXPECT_TRUE(first[0] == first[1]);
  EXPECT_TRUE(last[0] == last[1]);
}

TEST(ClusterSort, WideKeys) {
  const auto table = MakeTable(20000, 4);
  for (int64_t limit : {int64_t{1} << 30, int64_t{2} << 20}) {
    TableSource source(table, 700);
    FileStore store;
    MemoryAccount memory(limit);
    ClusterSortOptions options;
    options.memory = &memory;
    options.target_file_bytes = 200 << 10;
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(
        SortAndCheck(table, source, {1, 2, 5, 7}, options, store, &outcome, 32));
    EXPECT_TRUE(outcome.fitted->encoder.wide());
  }
}

TEST(ClusterSort, NothingAndOneRow) {
  for (int64_t n : {0, 1, 2}) {
    const auto table = MakeTable(n, 5);
    TableSource source(table, 10);
    FileStore store;
    ClusterSortOptions options;
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
    EXPECT_EQ(outcome.result.files.size(), n == 0 ? 0u : 1u);
    EXPECT_EQ(outcome.result.cubes, n == 0 ? 0 : 1);
  }
}

TEST(ClusterSort, SkewedKeys) {
  std::mt19937_64 rng(6);
  const int64_t n = 50000;
  std::vector<int64_t> hot(n), equal(n, 7), two(n), uniform(n);
  for (int64_t i = 0; i < n; ++i) {
    hot[i] = rng() % 10 < 6 ? 1234567 : static_cast<int64_t>(rng() % 10000000);
    two[i] = rng() % 2;
    uniform[i] = static_cast<int64_t>(rng());
  }
  const std::vector<std::vector<std::vector<int64_t>>> cases = {
      {hot, equal}, {equal, equal}, {two, equal}, {hot, uniform}, {two, uniform}};
  for (const auto& columns : cases) {
    for (int64_t limit : {int64_t{1} << 30, int64_t{512} << 10}) {
      const auto table = IntTable(columns);
      TableSource source(table, 2000);
      FileStore store(Scaled(0.5));
      MemoryAccount memory(limit);
      ClusterSortOptions options;
      options.memory = &memory;
      options.target_file_bytes = 40 << 10;  // a tenth of a hot value's rows and less
      Outcome outcome;
      ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
      EXPECT_GT(outcome.result.files.size(), 10u);
    }
  }
}

TEST(ClusterSort, AllNullKeys) {
  const int64_t n = 20000;
  arrow::Int64Builder id, null;
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_OK(id.Append(i));
    ASSERT_OK(null.AppendNull());
  }
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("k", arrow::int64())}),
      {id.Finish().ValueOrDie(), null.Finish().ValueOrDie()});
  for (int64_t limit : {int64_t{1} << 30, int64_t{256} << 10}) {
    TableSource source(table, 2000);
    FileStore store(Scaled(1));
    MemoryAccount memory(limit);
    ClusterSortOptions options;
    options.memory = &memory;
    options.target_file_bytes = 30 << 10;
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1}, options, store, &outcome));
    EXPECT_GT(outcome.result.files.size(), 3u);
    EXPECT_EQ(outcome.fitted->null_rows_per_column[0], n);
  }
}

TEST(ClusterSort, StringsAtAHundredTimesTheBudget) {
  std::mt19937_64 rng(7);
  arrow::Int64Builder id;
  arrow::StringBuilder text;
  const int64_t n = 30000;
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_OK(id.Append(i));
    std::string value(rng() % 1800, ' ');
    for (char& c : value) c = static_cast<char>(rng());  // does not compress
    for (char& c : value) c = static_cast<char>(33 + (c & 63));
    ASSERT_OK(text.Append(value));
  }
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("text", arrow::utf8())}),
      {id.Finish().ValueOrDie(), text.Finish().ValueOrDie()});
  const int64_t bytes = arrow::util::TotalBufferSize(*table);
  MemoryAccount memory(bytes / 100);
  TableSource source(table, 50);
  FileStore store(Scaled(0.8));
  ClusterSortOptions options;
  options.memory = &memory;
  options.target_file_bytes = 2 << 20;
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 0}, options, store, &outcome));
  EXPECT_LE(outcome.result.peak_spill_bytes, bytes * 12 / 10);
  EXPECT_LE(memory.peak(), memory.limit() * 5 / 4);
}

TEST(ClusterSort, FourHundredColumns) {
  const int64_t n = 8000;
  std::mt19937_64 rng(8);
  std::vector<std::vector<int64_t>> columns(399, std::vector<int64_t>(n));
  for (auto& column : columns) {
    for (int64_t& value : column) value = static_cast<int64_t>(rng());
  }
  const auto table = IntTable(columns);
  MemoryAccount memory(8 << 20);
  TableSource source(table, 100);
  FileStore store(Scaled(1));
  ClusterSortOptions options;
  options.memory = &memory;
  options.target_file_bytes = 1 << 20;
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 200}, options, store, &outcome));
  EXPECT_GT(outcome.result.spilled_bytes, 0);
  EXPECT_LE(outcome.result.peak_spill_bytes, arrow::util::TotalBufferSize(*table) * 12 / 10);
}

TEST(ClusterSort, OversizedBatchAndRows) {
  // One batch of ten times the budget, with rows of very different sizes.
  arrow::Int64Builder id;
  arrow::StringBuilder text;
  std::mt19937_64 rng(9);
  for (int64_t i = 0; i < 20000; ++i) {
    ASSERT_OK(id.Append(i));
    ASSERT_OK(text.Append(std::string(i % 1000 == 0 ? 100000 : rng() % 500, 'x')));
  }
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("text", arrow::utf8())}),
      {id.Finish().ValueOrDie(), text.Finish().ValueOrDie()});
  {
    MemoryAccount memory(700 << 10);
    TableSource source(table, 20000);
    FileStore store(Scaled(1));
    ClusterSortOptions options;
    options.memory = &memory;
    options.target_file_bytes = 1 << 20;
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {0}, options, store, &outcome));
  }
  MemoryAccount memory(300 << 10);  // a quarter of it is less than a row
  TableSource source(table, 100);
  FileStore store(Scaled(1));
  ClusterSortOptions options;
  options.memory = &memory;
  auto fitted = FitKeys(source, {0}, Curve::kHilbert, 16, Algorithm::kTypedQuantileRankV1, options);
  ASSERT_OK(fitted.status());
  const auto status = SortIntoFiles(source, {0}, *fitted, store.Factory(), options).status();
  EXPECT_THAT(status.ToString(), HasSubstr("--memory"));
  EXPECT_EQ(memory.held(), 0);
}

TEST(ClusterSort, HardCapAndRowTargets) {
  const auto table = MakeTable(30000, 10);
  for (bool by_rows : {false, true}) {
    for (bool hard : {false, true}) {
      TableSource source(table, 1000, 4, 2 << 20);
      FileStore store(Scaled(0.3));
      ClusterSortOptions options;
      options.hard_file_cap = hard;
      options.target_file_bytes = 150 << 10;
      if (by_rows) options.target_file_rows = 2500;
      Outcome outcome;
      ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
      EXPECT_GT(outcome.result.files.size(), 8u);
      EXPECT_EQ(outcome.result.files_outside_window, 0);
    }
  }
}

TEST(ClusterSort, FilesKeepTheirWindowsWhateverTheRatio) {
  // Encoded size per row varies along the curve by a factor of four, and the source's size says
  // something else again.
  const auto table = MakeTable(40000, 11);
  FileStore::SizeOf size = [](const arrow::RecordBatch& batch) {
    const auto& time = static_cast<const arrow::TimestampArray&>(*batch.column(2));
    double bytes = 0;
    for (int64_t i = 0; i < time.length(); ++i) {
      bytes += 40 + 120 * static_cast<double>(time.Value(i)) / 40e6;
    }
    return bytes;
  };
  for (int64_t encoded : {int64_t{-1}, int64_t{500} << 10, int64_t{40} << 20}) {
    for (int64_t target : {int64_t{100} << 10, int64_t{350} << 10, int64_t{3} << 20}) {
      TableSource source(table, 1000, 4, encoded);
      FileStore store(size);
      ClusterSortOptions options;
      options.target_file_bytes = target;
      Outcome outcome;
      ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
      // Cutting again stays the exception even here, and ends.
      EXPECT_LE(outcome.result.discarded_files,
                10 + 2 * static_cast<int64_t>(outcome.result.files.size()));
    }
  }
}

TEST(ClusterSort, CubesAreBalanced) {
  const auto table = MakeTable(60000, 12);
  // 60,000 rows of 100 bytes: 6 MB. Equivalents of 10.5, 12 and 19.9 GiB at a target of 10 and a
  // minimum of 5 GiB.
  for (double gigabytes : {7.0, 10.5, 12.0, 19.9, 44.0}) {
    const auto target = static_cast<int64_t>(6e6 / gigabytes * 10);
    TableSource source(table, 1000, 4, 6000000);
    FileStore store([](const arrow::RecordBatch& batch) { return 100.0 * batch.num_rows(); });
    ClusterSortOptions options;
    options.target_cube_bytes = target;
    options.min_cube_bytes = target / 2;
    options.target_file_bytes = 150000;
    Outcome outcome;
    ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
    EXPECT_EQ(outcome.result.cubes, std::max<int>(1, std::lround(gigabytes / 10)));
    std::vector<int64_t> bytes(outcome.result.cubes);
    for (const SortedFile& file : outcome.result.files) bytes[file.placement.cube] += file.bytes;
    for (int64_t cube : bytes) {
      EXPECT_GE(cube, options.min_cube_bytes);
      EXPECT_LE(cube, target * 3 / 2);
      EXPECT_NEAR(static_cast<double>(cube) * outcome.result.cubes / 6e6, 1.0, 0.15);
    }
    EXPECT_EQ(outcome.result.files_outside_window, 0);
  }
}

TEST(ClusterSort, CubesKeepTheirSizesWhateverTheRatio) {
  // As above, but the sources' size tells little of what their rows will take: half of it, twice
  // of it, or nothing.
  const auto table = MakeTable(60000, 12);
  for (int64_t encoded : {int64_t{3000000}, int64_t{12000000}, int64_t{-1}}) {
    for (double cubes : {1.0, 1.4, 3.2, 5.6}) {
      TableSource source(table, 1000, 4, encoded);
      FileStore store([](const arrow::RecordBatch& batch) { return 100.0 * batch.num_rows(); });
      ClusterSortOptions options;
      options.target_cube_bytes = static_cast<int64_t>(6e6 / cubes);
      options.min_cube_bytes = options.target_cube_bytes / 2;
      options.target_file_bytes = options.target_cube_bytes / 4;
      Outcome outcome;
      ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
      EXPECT_EQ(outcome.result.cubes, std::lround(cubes)) << encoded;
      std::vector<int64_t> bytes(outcome.result.cubes);
      for (const SortedFile& file : outcome.result.files) bytes[file.placement.cube] += file.bytes;
      for (int64_t cube : bytes) {
        EXPECT_GE(cube, options.min_cube_bytes);
        EXPECT_LE(cube, options.target_cube_bytes * 3 / 2);
      }
    }
  }
}

TEST(ClusterSort, RowGroups) {
  const auto table = MakeTable(30000, 13);
  TableSource source(table, 1000, 4, 3000000);
  FileStore store([](const arrow::RecordBatch& batch) { return 100.0 * batch.num_rows(); });
  ClusterSortOptions options;
  options.target_file_bytes = 1000000;
  options.target_row_group_bytes = 200000;
  Outcome outcome;
  ASSERT_NO_FATAL_FAILURE(SortAndCheck(table, source, {1, 2}, options, store, &outcome));
  for (const auto& file : store.Kept()) {
    EXPECT_NEAR(file->row_groups + 1, static_cast<double>(file->bytes) / 200000, 1.01);
  }
}

TEST(ClusterSort, SlicesMakeUpTheWhole) {
  const auto table = MakeTable(30000, 14);
  TableSource source(table, 1000);
  ClusterSortOptions options;
  options.target_file_rows = 2000;
  auto fitted =
      FitKeys(source, {1, 2}, Curve::kHilbert, 16, Algorithm::kTypedQuantileRankV1, options);
  ASSERT_OK(fitted.status());
  const std::vector<Key128> borders = SliceBorders(*fitted, 3);
  ASSERT_EQ(borders.size(), 2u);
  std::set<int64_t> seen;
  for (int slice = 0; slice < 3; ++slice) {
    options.key_begin = slice == 0 ? 0 : borders[slice - 1];
    options.key_end = std::nullopt;
    if (slice < 2) options.key_end = borders[slice];
    std::atomic<int64_t> observed{0};
    options.input_observer = [&](const arrow::RecordBatch& batch) {
      observed += batch.num_rows();
      return arrow::Status::OK();
    };
    FileStore store(Scaled(1));
    auto result = SortIntoFiles(source, {1, 2}, *fitted, store.Factory(), options);
    ASSERT_OK(result.status());
    EXPECT_EQ(observed, result->rows);
    EXPECT_NEAR(static_cast<double>(result->rows), 10000, 600);
    for (const SortedFile& file : result->files) {
      EXPECT_TRUE(file.first_key >= options.key_begin);
      EXPECT_TRUE(!options.key_end || file.last_key < *options.key_end);
    }
    for (const auto& file : store.Kept()) {
      for (const auto& batch : file->batches) {
        const auto& ids = static_cast<const arrow::Int64Array&>(*batch->column(0));
        for (int64_t i = 0; i < ids.length(); ++i) EXPECT_TRUE(seen.insert(ids.Value(i)).second);
      }
    }
  }
  EXPECT_EQ(seen.size(), 30000u);
}

TEST(ClusterSort, FitDoesNotDependOnThreadsOrParts) {
  const auto table = MakeTable(100000, 15, 4);
  std::vector<Key128> sample;
  std::string encoder;
  for (int threads : {1, 2, 5}) {
    TableSource source(table, 900 * threads, threads);
    ClusterSortOptions options;
    options.threads = threads;
    auto fitted =
        FitKeys(source, {1, 5}, Curve::kHilbert, 16, Algorithm::kTypedQuantileRankV1, options);
    ASSERT_OK(fitted.status());
    EXPECT_EQ(fitted->row_sample.size(), 65536u);
    const std::string serialized = fitted->encoder.Serialize().ValueOrDie();
    if (threads == 1) {
      sample = fitted->row_sample;
      encoder = serialized;
    }
    EXPECT_TRUE(fitted->row_sample == sample);
    EXPECT_TRUE(serialized == encoder);
  }
}

int64_t Threads() {
  int64_t n = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/task")) {
    ++n;
  }
  return n;
}

class ClusterSortFailure : public ::testing::Test {
 protected:
  void SetUp() override {
    table_ = MakeTable(20000, 16);
    folder_ = std::filesystem::temp_directory_path() / ("thalweg-sort-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
    options_.memory = &memory_;
    options_.spill_dir = folder_.string();
    options_.target_file_bytes = 100 << 10;
    source_ = std::make_unique<TableSource>(table_, 500);
    fitted_ = std::make_unique<FittedKeys>(
        FitKeys(*source_, {1, 2}, Curve::kHilbert, 16, Algorithm::kTypedQuantileRankV1, options_)
            .ValueOrDie());
    threads_ = Threads();
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_));
    std::filesystem::remove_all(folder_);
    EXPECT_EQ(Threads(), threads_);
    EXPECT_EQ(memory_.held(), 0);
    for (const auto& file : store_.files) EXPECT_TRUE(file->discarded);
  }
  arrow::Status Sort() {
    return SortIntoFiles(*source_, {1, 2}, *fitted_, store_.Factory(), options_).status();
  }

  MemoryAccount memory_{1 << 20};
  std::shared_ptr<arrow::Table> table_;
  std::filesystem::path folder_;
  ClusterSortOptions options_;
  std::unique_ptr<TableSource> source_;
  std::unique_ptr<FittedKeys> fitted_;
  FileStore store_{Scaled(0.5)};
  int64_t threads_ = 0;
};

TEST_F(ClusterSortFailure, Source) {
  source_->fail_after_batches_ = source_->batches_read_ + 25;
  EXPECT_THAT(Sort().ToString(), HasSubstr("the source broke"));
}

TEST_F(ClusterSortFailure, Writer) {
  store_.fail_after_writes = 30;
  EXPECT_THAT(Sort().ToString(), HasSubstr("disk broke"));
  EXPECT_GT(store_.files.size(), 2u);
}

TEST_F(ClusterSortFailure, Observer) {
  options_.input_observer = [](const arrow::RecordBatch&) {
    return arrow::Status::Invalid("seen enough");
  };
  EXPECT_THAT(Sort().ToString(), HasSubstr("seen enough"));
}

TEST_F(ClusterSortFailure, ThrowingFactory) {
  SortedFileFactory factory =
      [](const FilePlacement&) -> arrow::Result<std::unique_ptr<SortedFileWriter>> {
    throw std::runtime_error("no writer");
  };
  const auto status = SortIntoFiles(*source_, {1, 2}, *fitted_, factory, options_).status();
  EXPECT_THAT(status.ToString(), HasSubstr("no writer"));
}

TEST_F(ClusterSortFailure, SpillLimit) {
  options_.max_spill_bytes = 300 << 10;
  const auto status = Sort();
  EXPECT_THAT(status.ToString(), HasSubstr("--max-spill-bytes"));
  EXPECT_THAT(status.ToString(), HasSubstr(folder_.string()));
}

TEST_F(ClusterSortFailure, NoSpillFolder) {
  options_.spill_dir = (folder_ / "missing").string();
  EXPECT_THAT(Sort().ToString(), HasSubstr("--spill-dir"));
}

TEST_F(ClusterSortFailure, CancelledWhileScattering) {
  arrow::StopSource stop;
  options_.stop = stop.token();
  options_.progress = [&](const ClusterSortProgress& progress) {
    if (progress.stage == ClusterSortProgress::Stage::kScatter && progress.rows_done > 8000) {
      stop.RequestStop();
    }
  };
  EXPECT_TRUE(Sort().IsCancelled());
}

TEST_F(ClusterSortFailure, CancelledWhileWriting) {
  arrow::StopSource stop;
  options_.stop = stop.token();
  options_.progress = [&](const ClusterSortProgress& progress) {
    if (progress.stage == ClusterSortProgress::Stage::kGather && progress.rows_done > 8000) {
      stop.RequestStop();
    }
  };
  EXPECT_TRUE(Sort().IsCancelled());
  EXPECT_GT(store_.files.size(), 1u);
}

TEST(SpoolStream, OneShotInMemoryAndOnDisk) {
  const auto table = MakeTable(40000, 17);
  const int64_t bytes = arrow::util::TotalBufferSize(*table);
  for (int64_t limit : {int64_t{1} << 30, int64_t{1} << 20}) {
    MemoryAccount memory(limit);
    ClusterSortOptions options;
    options.memory = &memory;
    options.target_file_rows = 3000;
    auto one_shot = std::make_unique<TableSource>(table, 5000);
    one_shot->rereadable_ = false;
    auto spooled = SpoolStream(std::move(one_shot), options);
    ASSERT_OK(spooled.status());
    EXPECT_TRUE((*spooled)->rereadable());
    EXPECT_EQ((*spooled)->num_rows(), table->num_rows());
    auto fitted =
        FitKeys(**spooled, {1, 2}, Curve::kHilbert, 16, Algorithm::kTypedQuantileRankV1, options);
    ASSERT_OK(fitted.status());
    TableSource direct(table, 1000);
    auto expected =
        FitKeys(direct, {1, 2}, Curve::kHilbert, 16, Algorithm::kTypedQuantileRankV1, options);
    ASSERT_OK(expected.status());
    EXPECT_TRUE(fitted->row_sample == expected->row_sample);
    FileStore store(Scaled(1));
    auto result = SortIntoFiles(**spooled, {1, 2}, *fitted, store.Factory(), options);
    ASSERT_OK(result.status());
    const auto rows = store.KeptRows(store.Kept()[0]->batches[0]->schema());
    EXPECT_TRUE(OrderById(table)->GetColumnByName("text")->Equals(
        OrderById(rows)->GetColumnByName("text")));
    EXPECT_TRUE(OrderById(table)->GetColumnByName("nested")->Equals(
        OrderById(rows)->GetColumnByName("nested")));
    EXPECT_LE(result->peak_spill_bytes, bytes * 12 / 10);
    if (limit == 1 << 20) {
      EXPECT_GT(result->spilled_bytes, 0);
    }
  }
}

}  // namespace
}  // namespace thalweg
