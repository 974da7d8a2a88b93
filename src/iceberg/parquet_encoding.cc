#include "iceberg/parquet_encoding.h"

#include <arrow/io/memory.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_writer.h>
#include <parquet/metadata.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace thalweg::iceberg {

namespace {

constexpr int64_t kMinSampleRows = 4096;
constexpr int64_t kSampleRows = 16384;
/// Row groups are taken to have at least this many rows when the growth of a dictionary is judged.
constexpr double kRowGroupRows = 256 * 1024;
constexpr int kFilesPerSample = 32;
/// A dictionary costs hashing: it has to be smaller by this much.
constexpr double kDictionaryGain = 0.97;
constexpr double kLevelGain = 0.99;
constexpr int kFastLevel = 1;
constexpr int kNormalLevel = 3;
/// Of a page, outside of its values.
constexpr double kPageHeaderBytes = 32;

/// Sizes of one column chunk of the sample.
struct ChunkSize {
  double stored = 0;
  double encoded = 0;     ///< before compression
  double dictionary = 0;  ///< stored bytes of the dictionary page, 0 without one
};

struct Trial {
  const arrow::RecordBatch& sample;
  const std::shared_ptr<parquet::schema::GroupNode>& root;
  const parquet::WriterProperties& base;

  arrow::Result<std::vector<ChunkSize>> Run(const std::vector<bool>& dictionary,
                                            std::optional<int> level) const {
    parquet::SchemaDescriptor descriptor;
    descriptor.Init(root);
    parquet::WriterProperties::Builder builder(base);
    for (int i = 0; i < descriptor.num_columns(); ++i) {
      const auto path = descriptor.Column(i)->path();
      if (dictionary[i]) {
        builder.enable_dictionary(path);
      } else {
        builder.disable_dictionary(path);
      }
    }
    if (level) builder.compression_level(*level);
    ARROW_ASSIGN_OR_RAISE(auto sink, arrow::io::BufferOutputStream::Create());
    std::unique_ptr<parquet::arrow::FileWriter> writer;
    ARROW_RETURN_NOT_OK(parquet::arrow::FileWriter::Make(
        base.memory_pool(), parquet::ParquetFileWriter::Open(sink, root, builder.build()),
        sample.schema(), parquet::default_arrow_writer_properties(), &writer));
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(sample));
    ARROW_RETURN_NOT_OK(writer->Close());
    auto group = writer->metadata()->RowGroup(0);
    std::vector<ChunkSize> sizes(descriptor.num_columns());
    for (int i = 0; i < descriptor.num_columns(); ++i) {
      auto chunk = group->ColumnChunk(i);
      sizes[i].stored = static_cast<double>(chunk->total_compressed_size());
      sizes[i].encoded = static_cast<double>(chunk->total_uncompressed_size());
      if (chunk->has_dictionary_page()) {
        sizes[i].dictionary =
            static_cast<double>(chunk->data_page_offset() - chunk->dictionary_page_offset());
      }
    }
    return sizes;
  }
};

/// Whether a dictionary makes the column smaller in a row group of many times the sample's rows.
/// The number of distinct values is taken to grow as when drawing from K equally likely ones, d(n)
/// = K (1 - exp(-n / K)); K follows from the dictionary's size after half of the sample and after
/// all of it.
bool DictionaryPays(const ChunkSize& half, const ChunkSize& whole, const ChunkSize& plain,
                    double rows, double dictionary_limit) {
  if (whole.dictionary == 0) return true;  // nothing to tell by (all null, booleans)
  const double size = std::max(1.0, whole.dictionary - kPageHeaderBytes);
  const double half_size = std::max(1.0, half.dictionary - kPageHeaderBytes);
  const double ratio = size / half_size;
  const double scale = std::max(1.0, kRowGroupRows / rows);
  double growth = scale;
  if (ratio <= 1.001) {
    growth = 1;
  } else if (ratio < 1.98) {
    const double distinct = -rows / 2 / std::log(ratio - 1);
    growth =
        std::max(1.0, (1 - std::exp(-rows * scale / distinct)) / (1 - std::exp(-rows / distinct)));
  }
  // Past the limit the encoder gives up its dictionary. Indices of the sample have up to 14 bits.
  const double encoded_dictionary = std::max(0.0, whole.encoded - rows * 14 / 8);
  if (encoded_dictionary * growth > dictionary_limit) return false;
  const double indices = (whole.stored - whole.dictionary) + rows * std::log2(growth) / 8;
  return indices * scale + size * growth < kDictionaryGain * plain.stored * scale;
}

}  // namespace

std::optional<EncodingPlan> ParquetEncodings::Next() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (files_++ % kFilesPerSample == 0) return std::nullopt;
  return plan_;
}

void ParquetEncodings::Put(EncodingPlan plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  plan_ = std::move(plan);
}

arrow::Result<std::optional<EncodingPlan>> PlanEncodings(
    const arrow::RecordBatch& batch, const std::shared_ptr<parquet::schema::GroupNode>& root,
    const parquet::WriterProperties& base, bool choose_level) {
  if (batch.num_rows() < kMinSampleRows) return std::nullopt;
  auto whole = batch.Slice(0, kSampleRows);
  auto half = whole->Slice(0, whole->num_rows() / 2);
  parquet::SchemaDescriptor descriptor;
  descriptor.Init(root);
  const size_t columns = static_cast<size_t>(descriptor.num_columns());
  const std::vector<bool> all(columns, true);
  const std::vector<bool> none(columns, false);
  const std::optional<int> level = choose_level ? std::optional(kFastLevel) : std::nullopt;
  ARROW_ASSIGN_OR_RAISE(auto in_half, (Trial{*half, root, base}.Run(all, level)));
  const Trial trial{*whole, root, base};
  ARROW_ASSIGN_OR_RAISE(auto with_dictionary, trial.Run(all, level));
  ARROW_ASSIGN_OR_RAISE(auto plain, trial.Run(none, level));
  std::vector<bool> chosen(columns);
  std::vector<ChunkSize> sizes(columns);
  for (size_t i = 0; i < columns; ++i) {
    chosen[i] = DictionaryPays(in_half[i], with_dictionary[i], plain[i],
                               static_cast<double>(whole->num_rows()),
                               static_cast<double>(base.dictionary_pagesize_limit()));
    sizes[i] = chosen[i] ? with_dictionary[i] : plain[i];
  }
  std::vector<ChunkSize> normal;
  if (choose_level) {
    ARROW_ASSIGN_OR_RAISE(normal, trial.Run(chosen, kNormalLevel));
  }
  EncodingPlan plan;
  double stored = 0;
  double encoded = 0;
  for (size_t i = 0; i < columns; ++i) {
    ColumnEncoding column;
    column.dictionary = chosen[i];
    if (choose_level) {
      const bool gains = normal[i].stored < kLevelGain * sizes[i].stored;
      column.level = gains ? kNormalLevel : kFastLevel;
      if (gains) sizes[i] = normal[i];
    }
    stored += sizes[i].stored;
    encoded += sizes[i].encoded;
    plan.columns[descriptor.Column(static_cast<int>(i))->path()->ToDotString()] = column;
  }
  plan.ratio = encoded > 0 ? std::clamp(stored / encoded, 0.01, 1.0) : 1.0;
  return plan;
}

}  // namespace thalweg::iceberg
