#include "sort/spill_file.h"

#include <arrow/buffer.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/dictionary.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "util/status.h"
#include "util/units.h"

namespace thalweg {
namespace {

/// LZ4's acceleration: on the benchmark table a third of the time of its default for 4 % more
/// bytes.
constexpr int kLz4Level = -16;

constexpr int64_t kPage = 4096;  // extents begin on pages, so that their space can be given back

bool HasDictionary(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY) return true;
  for (const auto& field : type.fields()) {
    if (HasDictionary(*field->type())) return true;
  }
  return false;
}

bool HasDictionary(const arrow::Schema& schema) {
  for (const auto& field : schema.fields()) {
    if (HasDictionary(*field->type())) return true;
  }
  return false;
}

/// A bare IPC message, or a whole IPC stream where dictionaries have to travel along.
arrow::Result<std::shared_ptr<arrow::Buffer>> Serialize(const arrow::RecordBatch& batch) {
  arrow::ipc::IpcWriteOptions options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  options.min_space_savings = 0.05;  // less is not worth decompressing again
  ARROW_ASSIGN_OR_RAISE(options.codec,
                        arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME, kLz4Level));
  if (!HasDictionary(*batch.schema())) {
    return arrow::ipc::SerializeRecordBatch(batch, options);
  }
  ARROW_ASSIGN_OR_RAISE(auto sink, arrow::io::BufferOutputStream::Create());
  ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeStreamWriter(sink, batch.schema(), options));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(batch));
  ARROW_RETURN_NOT_OK(writer->Close());
  return sink->Finish();
}

}  // namespace

arrow::Result<std::shared_ptr<SpillFile>> SpillFile::Make(const std::string& dir,
                                                          int64_t max_bytes) {
  std::string folder = dir;
  if (folder.empty()) {
    std::error_code error;
    folder = std::filesystem::temp_directory_path(error).string();
    if (error) folder = "/tmp";
  }
  int fd = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string path = folder + "/thalweg-spill-XXXXXX";
    fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd >= 0) unlink(path.c_str());
  }
  if (fd < 0) {
    return arrow::Status::IOError("cannot make a spill file in ", folder, ": ", strerror(errno),
                                  "; choose another folder with --spill-dir");
  }
  return std::shared_ptr<SpillFile>(new SpillFile(fd, folder, max_bytes));
}

SpillFile::~SpillFile() { close(fd_); }

arrow::Result<SpillExtent> SpillFile::Write(const arrow::RecordBatch& batch) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, Serialize(batch));
  const int64_t room = (buffer->size() + kPage - 1) / kPage * kPage;
  const int64_t held = held_.fetch_add(room) + room;
  if (max_bytes_ >= 0 && held > max_bytes_) {
    held_.fetch_sub(room);
    return arrow::Status::CapacityError(
        "sorting would spill more than ", FormatBytes(max_bytes_), " at once into ", dir_,
        "; allow more with --max-spill-bytes, or hold more in memory with --memory");
  }
  int64_t peak = peak_;
  while (held > peak && !peak_.compare_exchange_weak(peak, held)) {
  }
  written_ += room;
  const SpillExtent extent{end_.fetch_add(room), buffer->size()};
  for (int64_t done = 0; done < buffer->size();) {
    const ssize_t n = pwrite(fd_, buffer->data() + done, static_cast<size_t>(buffer->size() - done),
                             extent.offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return arrow::Status::IOError("cannot write to the spill file in ", dir_, ": ",
                                    strerror(n < 0 ? errno : ENOSPC),
                                    "; choose a folder with more space with --spill-dir");
    }
    done += n;
  }
  return extent;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> SpillFile::Read(
    const SpillExtent& extent, const std::shared_ptr<arrow::Schema>& schema) const {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(extent.bytes));
  for (int64_t done = 0; done < extent.bytes;) {
    const ssize_t n = pread(fd_, buffer->mutable_data() + done,
                            static_cast<size_t>(extent.bytes - done), extent.offset + done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      return arrow::Status::IOError("cannot read the spill file in ", dir_, ": ",
                                    n < 0 ? strerror(errno) : "it is truncated");
    }
    done += n;
  }
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  auto input = std::make_shared<arrow::io::BufferReader>(buffer);
  if (HasDictionary(*schema)) {
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(input, options));
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
    return batch;
  }
  arrow::ipc::DictionaryMemo memo;
  return arrow::ipc::ReadRecordBatch(schema, &memo, options, input.get());
}

void SpillFile::Release(const SpillExtent& extent) {
  const int64_t room = (extent.bytes + kPage - 1) / kPage * kPage;
  held_ -= room;
  // Where the file system cannot punch holes the space comes back when the file is closed.
  (void)fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, extent.offset, room);
}

}  // namespace thalweg
