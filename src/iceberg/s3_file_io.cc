#include "iceberg/s3_file_io.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>

#include "util/number.h"
#include "util/status.h"
#include "util/text.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using Properties = S3Access::Properties;

/// Credentials are renewed this long before they expire.
constexpr int64_t kRenewAheadMillis = 5 * 60 * 1000;
/// … and not more often than this, for catalogs whose credentials do not last.
constexpr int64_t kRenewalPauseMillis = 30 * 1000;
constexpr char kExpiresAt[] = "s3.session-token-expires-at-ms";

/// The first of the properties that is there and not empty.
std::string First(const Properties& properties, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto found = properties.find(key);
    if (found != properties.end() && !found->second.empty()) return found->second;
  }
  return "";
}

arrow::Result<bool> Flag(const Properties& properties, const char* key, bool fallback) {
  const std::string text = Lower(First(properties, {key}));
  if (text.empty()) return fallback;
  for (const char* word : {"true", "1", "yes", "y", "t", "on"}) {
    if (text == word) return true;
  }
  for (const char* word : {"false", "0", "no", "n", "f", "off"}) {
    if (text == word) return false;
  }
  return Invalid("property {}: \"{}\" is neither true nor false", key, text);
}

arrow::Result<double> Seconds(const Properties& properties, const char* key) {
  const std::string text = First(properties, {key});
  if (text.empty()) return -1.0;
  const auto seconds = ParseNumber<double>(text);
  if (!seconds || !(*seconds > 0)) {
    return Invalid("property {}: \"{}\" is no number of seconds", key, text);
  }
  return *seconds;
}

std::atomic<bool> s3_used{false};

arrow::Status Initialize() {
  s3_used = true;
  return arrow::fs::EnsureS3Initialized();
}

/// What is asked for and cannot be done: objects must not be written otherwise than as the
/// configuration says.
arrow::Status CheckSupported(const Properties& properties) {
  const bool has_keys = !First(properties, {"s3.access-key-id", "client.access-key-id"}).empty();
  ARROW_ASSIGN_OR_RAISE(const bool remote, Flag(properties, "s3.remote-signing-enabled", false));
  if (!has_keys && (remote || !First(properties, {"s3.signer"}).empty())) {
    return arrow::Status::NotImplemented(
        "S3 requests signed by the catalog (s3.signer, s3.remote-signing-enabled) are not "
        "supported by this version; it needs credentials");
  }
  for (const char* key : {"s3.sse.type", "s3.server-side-encryption"}) {
    const std::string type = First(properties, {key});
    if (!type.empty() && type != "none") {
      return arrow::Status::NotImplemented(
          fmt::format("property {}={}: encryption settings for S3 are not supported by this "
                      "version; the bucket's default encryption is",
                      key, type));
    }
  }
  const std::string profile = First(properties, {"s3.profile-name", "client.profile-name"});
  if (!has_keys && !profile.empty()) {
    return Invalid(
        "the AWS profile \"{}\" cannot be taken from the catalog's properties: set AWS_PROFILE in "
        "the environment",
        profile);
  }
  return arrow::Status::OK();
}

/// Of the properties, else of the environment as the AWS tools read it; "" for AWS itself.
std::string EndpointOf(const Properties& properties) {
  std::string endpoint = First(properties, {"s3.endpoint"});
  if (!endpoint.empty()) return endpoint;
  for (const char* variable : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

arrow::Status SetEndpoint(std::string endpoint, arrow::fs::S3Options* options) {
  if (endpoint.empty()) return arrow::Status::OK();
  const auto scheme = endpoint.find("://");
  if (scheme != std::string::npos) {
    options->scheme = endpoint.substr(0, scheme);
    if (options->scheme != "http" && options->scheme != "https") {
      return Invalid("s3.endpoint: \"{}\" is neither http:// nor https://", endpoint);
    }
    endpoint.erase(0, scheme + 3);
  }
  while (endpoint.ends_with('/')) endpoint.pop_back();
  options->endpoint_override = endpoint;
  return arrow::Status::OK();
}

/// The error of a file system in one line that names the location.
arrow::Status Named(std::string_view action, const std::string& location,
                    const arrow::Status& status) {
  std::string reason = status.message();
  std::replace_if(
      reason.begin(), reason.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  const std::string message = fmt::format("cannot {} {}: {}", action, location, reason);
  if (status.IsCancelled() || status.IsOutOfMemory()) return status;
  return arrow::Status::IOError(message);
}

/// An upload that is given up unless it is closed, so that half a file never appears.
class NewObject : public arrow::io::OutputStream {
 public:
  NewObject(std::shared_ptr<arrow::io::OutputStream> stream, std::string location)
      : stream_(std::move(stream)), location_(std::move(location)) {
    set_mode(arrow::io::FileMode::WRITE);
  }
  ~NewObject() override {
    if (stream_) (void)stream_->Abort();
  }
  arrow::Status Close() override {
    if (!stream_) return arrow::Status::OK();
    const auto stream = std::exchange(stream_, nullptr);
    auto status = stream->Close();
    if (status.ok()) return status;
    (void)stream->Abort();
    return Named("write", location_, status);
  }
  arrow::Status Abort() override {
    if (!stream_) return arrow::Status::OK();
    return std::exchange(stream_, nullptr)->Abort();
  }
  bool closed() const override { return stream_ == nullptr; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, int64_t size) override {
    ARROW_RETURN_NOT_OK(CheckOpen());
    auto status = stream_->Write(data, size);
    if (!status.ok()) return Named("write", location_, status);
    position_ += size;
    return status;
  }
  arrow::Status Write(const std::shared_ptr<arrow::Buffer>& data) override {
    ARROW_RETURN_NOT_OK(CheckOpen());
    auto status = stream_->Write(data);
    if (!status.ok()) return Named("write", location_, status);
    position_ += data->size();
    return status;
  }
  arrow::Status Flush() override { return arrow::Status::OK(); }

 private:
  arrow::Status CheckOpen() const {
    return stream_ ? arrow::Status::OK()
                   : Invalid("cannot write {}: the file is closed", location_);
  }

  std::shared_ptr<arrow::io::OutputStream> stream_;
  std::string location_;
  int64_t position_ = 0;
};

}  // namespace

Properties S3Access::For(const std::string& location) const {
  const std::string canonical = FileIO::Canonical(location);
  const Credential* best = nullptr;
  for (const auto& credential : credentials) {
    const bool fits = location.starts_with(credential.prefix) ||
                      canonical.starts_with(FileIO::Canonical(credential.prefix));
    if (fits && (best == nullptr || credential.prefix.size() > best->prefix.size())) {
      best = &credential;
    }
  }
  if (best == nullptr) return properties;
  Properties merged = best->properties;
  merged.insert(properties.begin(), properties.end());
  // Keys belong together: a token of other keys must not stay beside the credential's own.
  if (best->properties.contains("s3.access-key-id") &&
      !best->properties.contains("s3.session-token")) {
    merged.erase("s3.session-token");
    merged.erase("client.session-token");
  }
  return merged;
}

std::optional<int64_t> S3Access::ExpiresAtMillis() const {
  std::optional<int64_t> earliest;
  auto look = [&](const Properties& from) {
    const auto found = from.find(kExpiresAt);
    const auto at = found == from.end() ? std::nullopt : ParseCount(found->second);
    if (at && (!earliest || *at < *earliest)) earliest = at;
  };
  look(properties);
  for (const auto& credential : credentials) look(credential.properties);
  return earliest;
}

bool IsS3Location(std::string_view location) {
  return location.starts_with("s3://") || location.starts_with("s3a://") ||
         location.starts_with("s3n://");
}

arrow::Result<std::string> S3PathOf(const std::string& location) {
  if (location.find('\0') != std::string::npos) {
    return Invalid("the location {}\\0... holds a NUL character", location.c_str());
  }
  std::string path = location.substr(location.find("://") + 3);
  while (path.ends_with('/')) path.pop_back();
  if (path.empty() || path.starts_with('/')) {
    return Invalid("{}: names no bucket (s3://bucket/key)", location);
  }
  return path;
}

arrow::Result<arrow::fs::S3Options> S3OptionsFor(const Properties& properties) {
  ARROW_RETURN_NOT_OK(CheckSupported(properties));
  ARROW_RETURN_NOT_OK(Initialize());
  arrow::fs::S3Options options;
  const std::string access = First(properties, {"s3.access-key-id", "client.access-key-id"});
  const std::string secret =
      First(properties, {"s3.secret-access-key", "client.secret-access-key"});
  const std::string role = First(properties, {"s3.role-arn", "client.role-arn"});
  ARROW_ASSIGN_OR_RAISE(const bool anonymous, Flag(properties, "s3.anonymous", false));
  if (access.empty() != secret.empty()) {
    return Invalid("s3.access-key-id and s3.secret-access-key go together: only one is set");
  }
  if (anonymous) {
    options.ConfigureAnonymousCredentials();
  } else if (!access.empty()) {
    options.ConfigureAccessKey(access, secret,
                               First(properties, {"s3.session-token", "client.session-token"}));
  } else if (!role.empty()) {
    options.ConfigureAssumeRoleCredentials(
        role, First(properties, {"s3.role-session-name", "client.role-session-name"}));
  } else {
    options.ConfigureDefaultCredentials();
  }
  options.region = First(properties, {"s3.region", "client.region"});
  ARROW_RETURN_NOT_OK(SetEndpoint(EndpointOf(properties), &options));
  ARROW_ASSIGN_OR_RAISE(options.force_virtual_addressing,
                        Flag(properties, "s3.force-virtual-addressing", false));
  const std::string proxy = First(properties, {"s3.proxy-uri"});
  if (!proxy.empty()) {
    auto parsed = arrow::fs::S3ProxyOptions::FromUri(proxy);
    if (!parsed.ok()) return Invalid("property s3.proxy-uri is not the address of a proxy");
    options.proxy_options = *std::move(parsed);
  }
  ARROW_ASSIGN_OR_RAISE(options.connect_timeout, Seconds(properties, "s3.connect-timeout"));
  ARROW_ASSIGN_OR_RAISE(options.request_timeout, Seconds(properties, "s3.request-timeout"));
  // Small objects go up in one request, and nothing is there before the stream is closed.
  options.allow_delayed_open = true;
  options.check_directory_existence_before_creation = true;
  return options;
}

void FinalizeS3() {
  if (s3_used.exchange(false)) (void)arrow::fs::EnsureS3Finalized();
}

void S3FileIO::SetAccess(S3Access access) {
  std::lock_guard lock(mutex_);
  access_ = std::move(access);
  file_systems_.clear();  // streams that are open keep theirs
}

arrow::Status S3FileIO::RenewAccess() {
  const auto expires = access_.ExpiresAtMillis();
  const int64_t now = NowMillis();
  if (!expires || !access_.renew || *expires - kRenewAheadMillis > now || now < next_renewal_) {
    return arrow::Status::OK();
  }
  next_renewal_ = now + kRenewalPauseMillis;
  auto renewed = access_.renew();
  if (renewed.ok()) {
    access_ = *std::move(renewed);
    file_systems_.clear();
  } else if (now >= *expires) {
    return renewed.status();
  }
  return arrow::Status::OK();
}

arrow::Result<S3FileIO::Place> S3FileIO::Find(const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(std::string path, S3PathOf(location));
  std::lock_guard lock(mutex_);
  ARROW_RETURN_NOT_OK(RenewAccess());
  Properties properties = access_.For(location);
  ARROW_ASSIGN_OR_RAISE(const bool resolve, Flag(properties, "s3.resolve-region", false));
  const bool elsewhere = !EndpointOf(properties).empty();
  if (resolve || (First(properties, {"s3.region", "client.region"}).empty() && !elsewhere)) {
    properties["bucket"] = path.substr(0, path.find('/'));  // each may be in a region of its own
  }
  auto& file_system = file_systems_[properties];
  if (!file_system) {
    ARROW_ASSIGN_OR_RAISE(auto options, S3OptionsFor(properties));
    if (properties.contains("bucket")) {
      auto region = arrow::fs::ResolveS3BucketRegion(properties["bucket"]);
      if (region.ok()) options.region = *region;
    }
    auto made = arrow::fs::S3FileSystem::Make(options);
    if (!made.ok()) return Named("reach", location, made.status());
    file_system = *std::move(made);
  }
  return Place{file_system, std::move(path)};
}

arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> S3FileIO::OpenInput(
    const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const Place place, Find(location));
  auto file = place.file_system->OpenInputFile(place.path);
  if (!file.ok()) return Named("read", location, file.status());
  return file;
}

arrow::Result<std::string> S3FileIO::ReadAll(const std::string& location, int64_t max_bytes) {
  ARROW_ASSIGN_OR_RAISE(const auto file, OpenInput(location));
  auto size = file->GetSize();
  if (!size.ok()) return Named("read", location, size.status());
  if (*size > max_bytes) {
    return Invalid("{}: {} bytes, more than the {} that are expected at most", location, *size,
                   max_bytes);
  }
  std::string bytes(static_cast<size_t>(*size), '\0');
  if (bytes.empty()) return bytes;
  auto read = file->ReadAt(0, *size, bytes.data());
  if (!read.ok()) return Named("read", location, read.status());
  if (*read != *size) return Named("read", location, Invalid("it ended before its length"));
  return bytes;
}

arrow::Result<std::shared_ptr<arrow::io::OutputStream>> S3FileIO::Open(
    const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const Place place, Find(location));
  if (place.path.find('/') == std::string::npos) {
    return Invalid("cannot write {}: it names a bucket, not an object", location);
  }
  auto stream = place.file_system->OpenOutputStream(place.path, nullptr);
  if (!stream.ok()) return Named("write", location, stream.status());
  return std::make_shared<NewObject>(*std::move(stream), location);
}

arrow::Result<std::shared_ptr<arrow::io::OutputStream>> S3FileIO::Create(
    const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const auto size, Size(location));
  if (size) return arrow::Status::AlreadyExists("cannot create ", location, ": File exists");
  return Open(location);
}

arrow::Status S3FileIO::Write(const std::string& location, std::string_view bytes) {
  ARROW_ASSIGN_OR_RAISE(const auto stream, Open(location));
  ARROW_RETURN_NOT_OK(stream->Write(bytes.data(), static_cast<int64_t>(bytes.size())));
  return stream->Close();
}

arrow::Status S3FileIO::WriteNew(const std::string& location, std::string_view bytes) {
  ARROW_ASSIGN_OR_RAISE(const auto stream, Create(location));
  ARROW_RETURN_NOT_OK(stream->Write(bytes.data(), static_cast<int64_t>(bytes.size())));
  return stream->Close();
}

arrow::Status S3FileIO::Replace(const std::string& location, std::string_view bytes) {
  return Write(location, bytes);
}

arrow::Result<std::optional<int64_t>> S3FileIO::Size(const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const Place place, Find(location));
  auto info = place.file_system->GetFileInfo(place.path);
  if (!info.ok()) return Named("look up", location, info.status());
  return info->IsFile() ? std::optional<int64_t>(info->size()) : std::nullopt;
}

arrow::Status S3FileIO::Delete(const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(const auto size, Size(location));
  if (!size) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const Place place, Find(location));
  auto status = place.file_system->DeleteFile(place.path);
  if (status.ok()) return status;
  ARROW_ASSIGN_OR_RAISE(const auto left, Size(location));  // another process may have been faster
  return left ? Named("delete", location, status) : arrow::Status::OK();
}

arrow::Result<std::vector<FileIO::Listed>> S3FileIO::List(const std::string& folder,
                                                          bool recursive) {
  ARROW_ASSIGN_OR_RAISE(const Place place, Find(folder));
  arrow::fs::FileSelector selector;
  selector.base_dir = place.path;
  selector.allow_not_found = true;
  selector.recursive = recursive;
  auto infos = place.file_system->GetFileInfo(selector);
  if (!infos.ok()) return Named("list", folder, infos.status());
  std::vector<FileIO::Listed> files;
  for (const auto& info : *infos) {
    if (!info.IsFile() || info.path().size() <= place.path.size()) continue;
    const auto modified =
        std::chrono::duration_cast<std::chrono::milliseconds>(info.mtime().time_since_epoch());
    files.push_back({JoinLocation(folder, info.path().substr(place.path.size() + 1)), info.size(),
                     modified.count()});
  }
  return files;
}

}  // namespace thalweg::iceberg
