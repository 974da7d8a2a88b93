#include "util/status.h"

#include <memory>

namespace thalweg {
namespace {

constexpr char kTypeId[] = "thalweg::FailureKind";

class KindDetail : public arrow::StatusDetail {
 public:
  explicit KindDetail(FailureKind kind) : kind(kind) {}
  const char* type_id() const override { return kTypeId; }
  std::string ToString() const override {
    switch (kind) {
      case FailureKind::kUsage:
        return "usage";
      case FailureKind::kConflict:
        return "conflict";
      case FailureKind::kUnknown:
        return "unknown outcome";
      default:
        return "error";
    }
  }
  const FailureKind kind;
};

}  // namespace

arrow::Status Failure(FailureKind kind, std::string message) {
  return arrow::Status(arrow::StatusCode::Invalid, std::move(message),
                       std::make_shared<KindDetail>(kind));
}

FailureKind KindOf(const arrow::Status& status) {
  const auto& detail = status.detail();
  if (detail && std::string_view(detail->type_id()) == kTypeId) {
    return static_cast<const KindDetail&>(*detail).kind;
  }
  return FailureKind::kError;
}

}  // namespace thalweg
