#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <roaring/roaring.hh>
#include <string_view>
#include <vector>

#include "iceberg/commit.h"
#include "util/memory.h"

namespace thalweg::iceberg {

/// The deleted positions of some data files, which are numbered in the order of their paths: the
/// upper half of a row address of ScanParquetFiles() over the same files. Adding is thread-safe;
/// reading is so once nobody adds any more.
class DeletedPositions {
 public:
  /// Refused: a path that occurs twice, a file of more than 2^32 rows, which has no such addresses.
  static arrow::Result<std::shared_ptr<DeletedPositions>> Make(std::vector<LiveFile> data_files,
                                                               MemoryAccount* memory);

  size_t size() const { return files_.size(); }
  const LiveFile& file(size_t i) const { return *files_[i].live; }
  std::optional<size_t> Find(std::string_view path) const;

  /// Positions are smaller than the file's rows.
  void Add(size_t i, const std::vector<uint32_t>& positions);
  void Add(size_t i, Roaring positions);
  /// To be called once when everything was added: makes the bitmaps small.
  void Finish();

  const Roaring& positions(size_t i) const { return files_[i].positions; }
  int64_t deleted_rows(size_t i) const { return static_cast<int64_t>(positions(i).cardinality()); }
  int64_t deleted_rows() const;

 private:
  struct File {
    const LiveFile* live = nullptr;
    std::unique_ptr<std::mutex> mutex;
    Roaring positions;
    Reservation held;
  };
  void Reserve(File* file);

  std::vector<LiveFile> live_;
  std::vector<File> files_;
  MemoryAccount* memory_ = nullptr;
};

}  // namespace thalweg::iceberg
