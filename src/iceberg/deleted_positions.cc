#include "iceberg/deleted_positions.h"

#include <algorithm>

#include "util/status.h"

namespace thalweg::iceberg {

arrow::Result<std::shared_ptr<DeletedPositions>> DeletedPositions::Make(
    std::vector<LiveFile> data_files, MemoryAccount* memory) {
  auto positions = std::make_shared<DeletedPositions>();
  positions->memory_ = memory;
  positions->live_ = std::move(data_files);
  auto& live = positions->live_;
  std::sort(live.begin(), live.end(), [](const LiveFile& a, const LiveFile& b) {
    return a.file.file_path < b.file.file_path;
  });
  for (const LiveFile& data : live) {
    if (!positions->files_.empty() &&
        positions->files_.back().live->file.file_path == data.file.file_path) {
      return Invalid("data file {} is live twice", data.file.file_path);
    }
    if (data.file.record_count < 0 || data.file.record_count > int64_t{1} << 32) {
      return Invalid("data file {} of {} rows: at most 2^32 rows of one file can be read",
                     data.file.file_path, data.file.record_count);
    }
    File& file = positions->files_.emplace_back();
    file.live = &data;
    file.mutex = std::make_unique<std::mutex>();
  }
  return positions;
}

std::optional<size_t> DeletedPositions::Find(std::string_view path) const {
  auto found = std::lower_bound(
      live_.begin(), live_.end(), path,
      [](const LiveFile& live, std::string_view wanted) { return live.file.file_path < wanted; });
  if (found == live_.end() || found->file.file_path != path) return std::nullopt;
  return static_cast<size_t>(found - live_.begin());
}

void DeletedPositions::Reserve(File* file) {
  // The new reservation is made before the old one goes.
  file->held = Reservation(memory_, static_cast<int64_t>(file->positions.getSizeInBytes()));
}

void DeletedPositions::Add(size_t i, const std::vector<uint32_t>& positions) {
  if (positions.empty()) return;
  File& file = files_[i];
  std::lock_guard lock(*file.mutex);
  file.positions.addMany(positions.size(), positions.data());
  Reserve(&file);
}

void DeletedPositions::Add(size_t i, Roaring positions) {
  if (positions.isEmpty()) return;
  File& file = files_[i];
  std::lock_guard lock(*file.mutex);
  if (file.positions.isEmpty()) {
    file.positions = std::move(positions);
  } else {
    file.positions |= positions;
  }
  Reserve(&file);
}

void DeletedPositions::Finish() {
  for (File& file : files_) {
    if (file.positions.isEmpty()) continue;
    file.positions.runOptimize();
    file.positions.shrinkToFit();
    Reserve(&file);
  }
}

int64_t DeletedPositions::deleted_rows() const {
  int64_t rows = 0;
  for (size_t i = 0; i < files_.size(); ++i) rows += deleted_rows(i);
  return rows;
}

}  // namespace thalweg::iceberg
