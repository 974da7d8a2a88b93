#include "sort/file_scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace thalweg {
namespace {

constexpr double kUnknownRatio = 0.4;  // encoded per payload bytes, before anything is known
constexpr double kFirstMargin =
    0.13;  // of the target, kept from the window's ends before the first file is measured
constexpr double kSmallestMargin = 0.015;  // once sizes come out as expected
constexpr int kMaxTries = 8;
// Files stay open until all fit from so many targets before a cube's end on; more where sizes
// deviate.
constexpr double kCubeEnd = 3.5;
constexpr double kCubeEndPerDeviation = 30;
constexpr size_t kOpenAtCubeEnd = 12;  // more files than that makes
constexpr auto kPollInterval = std::chrono::milliseconds(50);

}  // namespace

FileScheduler::FileScheduler(SortContext& context, std::vector<CurveBin> bins, int columns,
                             int64_t encoded_bytes, SharedStatus& shared,
                             std::function<void(int64_t)> settled)
    : context_(context),
      options_(context.options),
      by_rows_(options_.target_file_rows > 0),
      by_bytes_(bins, columns, CutPlanner::Unit::kBytes),
      by_size_(&by_bytes_),
      shared_(shared),
      settled_(std::move(settled)) {
  if (by_rows_) {
    by_rows_planner_ =
        std::make_unique<CutPlanner>(std::move(bins), columns, CutPlanner::Unit::kRows);
    by_size_ = by_rows_planner_.get();
  }
  const auto stated = static_cast<double>(
      std::max<int64_t>(1, by_rows_ ? options_.target_file_rows : options_.target_file_bytes));
  const CutWindow window = FileWindow(stated, options_.hard_file_cap);
  low_ = window.low;
  high_ = window.high;
  target_ = window.target;
  const double payload = by_bytes_.Payload(0, by_bytes_.rows());
  ratio_ = encoded_bytes > 0 ? static_cast<double>(encoded_bytes) / std::max(1.0, payload)
                             : kUnknownRatio;
  by_bytes_.SetRatio(ratio_);
  deviation_ = by_rows_ ? 0 : kFirstMargin / 2;
}

CutWindow FileScheduler::Window(double margin) const {
  const double inset = std::min(margin * target_, (high_ - low_) * 0.45);
  return {target_, low_ + inset, high_ - inset};
}

void FileScheduler::BeginCube() {
  ++cube_;
  cube_begin_ = next_row_;
  cube_end_ = by_bytes_.rows();
  const auto target = static_cast<double>(options_.target_cube_bytes);
  const double smallest = 1.02 * static_cast<double>(options_.min_cube_bytes);
  const double bytes = by_bytes_.Size(cube_begin_, cube_end_);
  const double cubes = target > 0 ? std::max(1.0, std::round(bytes / target)) : 1;
  if (cubes < 2) return;
  const double share = bytes / cubes;
  double low = std::max(0.9 * share, smallest);
  double high = std::min(1.1 * share, bytes - (cubes - 1) * smallest);
  if (low >= high) low = 0.99 * share, high = 1.01 * share;
  cube_end_ = by_bytes_.NextCut(cube_begin_, cube_end_, {{share, low, high}}, false);
}

FileScheduler::Task FileScheduler::MakeTask() {
  if (cube_ < 0 || next_row_ == cube_end_) BeginCube();
  auto task = std::make_shared<FileTask>();
  task->placement = {cube_, next_file_++};
  task->cube_begin = cube_begin_;
  task->cube_end = cube_end_;
  task->begin = next_row_;
  const double margin = by_rows_ ? 0 : std::clamp(2 * deviation_, kSmallestMargin, kFirstMargin);
  const bool may_exceed = !options_.hard_file_cap && task->begin == cube_begin_;
  task->end = by_size_->NextCut(next_row_, cube_end_,
                                {Window(margin), Window(by_rows_ ? 0 : kSmallestMargin), Window(0)},
                                may_exceed);
  task->expected = by_bytes_.Size(task->begin, task->end);
  next_row_ = task->end;

  const auto row_group = static_cast<double>(options_.target_row_group_bytes);
  if (row_group > 0 && task->expected > 1.2 * row_group) {
    const double share = task->expected / std::round(task->expected / row_group);
    task->row_group_cuts =
        by_bytes_.Cuts(task->begin, task->end, {share, 0.8 * share, 1.2 * share}, true);
  }
  return task;
}

arrow::Result<std::shared_ptr<FileTask>> FileScheduler::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  const size_t most_open = 2 * static_cast<size_t>(context_.threads) + kOpenAtCubeEnd;
  while (true) {
    if (shared_.failed()) return nullptr;
    ARROW_RETURN_NOT_OK(context_.CheckStop());
    if (next_row_ == by_bytes_.rows() && open_.empty() && cancelled_ == 0) return nullptr;
    // Files that were cancelled must be gone before their numbers are given out again.
    if (cancelled_ == 0 && next_row_ < by_bytes_.rows() && open_.size() < most_open) break;
    changed_.wait_for(lock, kPollInterval);
  }
  Task task = MakeTask();
  open_.push_back(task);
  return task;
}

int64_t FileScheduler::Size(const FileTask& task) const {
  return by_rows_ ? task.written.rows : task.written.bytes;
}

bool FileScheduler::Fits(const FileTask& task) const {
  const auto size = static_cast<double>(Size(task));
  if (size >= std::floor(low_) && size <= std::ceil(high_)) return true;
  // A cube's only file, unless its rows make up two or more that fit.
  if (task.begin != task.cube_begin || task.end != task.cube_end) return false;
  if (size <= high_) return true;
  return !options_.hard_file_cap && !CutPlanner::Feasible(size, {target_, low_, high_});
}

/// Whether the files after open_[index] in its cube are all finished and fit.
bool FileScheduler::CubeEndFits(size_t index) const {
  int64_t row = open_[index]->end;
  for (size_t i = index + 1; i < open_.size() && row < open_[index]->cube_end; ++i) {
    if (!open_[i]->finished || !Fits(*open_[i])) return false;
    row = open_[i]->end;
  }
  return row == open_[index]->cube_end;
}

void FileScheduler::Correct(const FileTask& task) {
  const double payload = by_bytes_.Payload(task.begin, task.end);
  if (payload <= 0 || task.written.bytes <= 0) return;
  const auto bytes = static_cast<double>(task.written.bytes);
  const double off = std::abs(bytes / task.expected - 1);
  // A file that missed its window, and the first, say more about their neighbours than the estimate
  // so far.
  const double trust = !measured_ || !Fits(task) ? 1 : 0.5;
  ratio_ += trust * (bytes / payload - ratio_);
  by_bytes_.SetRatio(ratio_);
  by_bytes_.Learn(task.begin, task.end, bytes);
  deviation_ = measured_ ? 0.7 * deviation_ + 0.3 * std::min(off, kFirstMargin) : 0.03;
  measured_ = true;
}

arrow::Status FileScheduler::CutAgain(size_t index) {
  // Where the rows from here to the cube's end no longer make up whole files with some ease, the
  // file before has to give.
  const CutWindow window = Window(by_rows_ ? 0 : std::clamp(deviation_, kSmallestMargin, 0.1));
  auto rest = [&](size_t i) { return by_size_->Size(open_[i]->begin, open_[i]->cube_end); };
  while (index > 0 && open_[index - 1]->cube_begin == open_[index]->cube_begin &&
         !CutPlanner::Feasible(rest(index), window)) {
    --index;
  }
  const FileTask& first = *open_[index];
  next_row_ = first.begin;
  next_file_ = first.placement.file;
  cube_ = first.placement.cube;
  cube_begin_ = first.cube_begin;
  cube_end_ = first.cube_end;
  if (first.begin == cube_begin_) {  // nothing of the cube is final: its end is found anew as well
    --cube_;
    cube_end_ = cube_begin_;
  }
  if (first.begin > tries_row_) {  // further on than ever: another place
    tries_ = 0;
    tries_row_ = first.begin;
  }
  ++tries_;
  for (; open_.size() > index; open_.pop_back()) {
    ++discarded_;
    if (open_.back()->finished) {
      if (open_.back()->writer) ARROW_RETURN_NOT_OK(open_.back()->writer->Discard());
    } else {
      open_.back()->cancelled = true;
      ++cancelled_;
    }
  }
  return arrow::Status::OK();
}

arrow::Status FileScheduler::Settle() {
  const bool last_try = tries_ >= kMaxTries;  // whatever is finished is taken as it is
  while (!open_.empty() && open_.front()->finished) {
    FileTask& file = *open_.front();
    if (!last_try) {
      if (!Fits(file)) return CutAgain(0);
      // What is left of the cube must still make up whole files: surely so far from its end, else
      // it has to be seen.
      const double left = by_size_->Size(file.end, file.cube_end);
      const double cube_end = kCubeEnd + kCubeEndPerDeviation * deviation_;
      if (file.end < file.cube_end && left < cube_end * target_ && !CubeEndFits(0)) {
        for (size_t i = 1; i < open_.size() && open_[i]->cube_begin == file.cube_begin; ++i) {
          if (!open_[i]->finished) return arrow::Status::OK();
          if (!Fits(*open_[i])) return CutAgain(i);
        }
        return arrow::Status::OK();  // the rest of the cube is not handed out yet
      }
    }
    if (last_try || Fits(file)) tries_ = 0;
    const auto size = static_cast<double>(Size(file));
    if (size < std::floor(low_) || size > std::ceil(high_)) ++outside_;
    final_.push_back(open_.front());
    open_.pop_front();
    settled_(file.end);
  }
  return arrow::Status::OK();
}

arrow::Status FileScheduler::Done(const std::shared_ptr<FileTask>& task) {
  std::lock_guard<std::mutex> lock(mutex_);
  arrow::Status status;
  if (task->cancelled) {
    --cancelled_;
    if (task->writer) status = task->writer->Discard();
    task->writer = nullptr;
  } else {
    task->finished = true;
    Correct(*task);
    status = Settle();
  }
  changed_.notify_all();
  return status;
}

void FileScheduler::Failed(FileTask& task) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!task.cancelled) return;  // still among the open files: DiscardAll sees it
  --cancelled_;
  if (task.writer) (void)task.writer->Discard();
  task.writer = nullptr;
}

void FileScheduler::Finish(ClusterSortResult* result) {
  for (const Task& task : final_) {
    result->files.push_back(task->written);
    result->rows += task->written.rows;
  }
  result->cubes = cube_ + 1;
  result->discarded_files = discarded_;
  result->files_outside_window = outside_;
}

void FileScheduler::DiscardAll() {
  for (const Task& task : open_) {
    if (task->writer) (void)task->writer->Discard();
  }
  for (const Task& task : final_) {
    if (task->writer) (void)task->writer->Discard();
  }
}

}  // namespace thalweg
