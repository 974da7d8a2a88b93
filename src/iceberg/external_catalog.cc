#include "iceberg/external_catalog.h"

#include <utility>

#include "iceberg/metadata_file.h"
#include "iceberg/rest_update.h"
#include "iceberg/s3_file_io.h"
#include "util/json.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using State = ExternalCatalog::State;

/// How a table's files are reached; the library is asked for new credentials.
S3Access AccessTo(const std::shared_ptr<const ExternalCatalog>& catalog, State* state) {
  S3Access access;
  access.properties = std::move(state->properties);
  access.renew = [catalog]() -> arrow::Result<S3Access> {
    ARROW_ASSIGN_OR_RAISE(State renewed, catalog->load());
    return AccessTo(catalog, &renewed);
  };
  return access;
}

class ExternalTable : public TableStore {
 public:
  explicit ExternalTable(ExternalCatalog catalog)
      : TableStore(std::make_shared<FileIO>()),
        catalog_(std::make_shared<ExternalCatalog>(std::move(catalog))) {}

  arrow::Result<LoadedTable> Load() override {
    ARROW_ASSIGN_OR_RAISE(State state, catalog_->load());
    return Accept(std::move(state));
  }

  arrow::Result<LoadedTable> Commit(const LoadedTable& base,
                                    const TableMetadata& updated) override {
    if (!catalog_->commit) {
      return Invalid("{} was opened to work on its files, not to commit to it", description());
    }
    ARROW_ASSIGN_OR_RAISE(const auto update, MakeRestUpdate(base.metadata, updated));
    if (update.updates.empty()) return base;
    auto state = catalog_->commit(DumpJson(update.requirements), DumpJson(update.updates));
    if (state.ok()) {
      auto committed = Accept(*std::move(state));
      // It stands; that its metadata cannot be read does not undo it.
      return committed.ok() ? committed : Find(update, committed.status());
    }
    const FailureKind kind = KindOf(state.status());
    if (kind == FailureKind::kUnknown) return Find(update, state.status());
    // The library may have sent the commit twice and have been refused because of itself. And where
    // the table has moved, that may be why it was refused.
    auto now = Load();
    if (!now.ok()) return state.status();
    ARROW_ASSIGN_OR_RAISE(const bool holds, HoldsSnapshotOf(update, now->metadata));
    if (holds) return now;
    if (kind == FailureKind::kConflict || now->metadata_location == base.metadata_location) {
      return state.status();
    }
    return Conflict("{}: another commit came first: {}", description(), state.status().message());
  }

  arrow::Result<LoadedTable> CreateTable(const TableMetadata&) override {
    return Invalid("{}: create it with the library that speaks its catalog", description());
  }

  const std::string& description() const override { return catalog_->description; }

  bool writable(std::string* why) const override {
    if (why != nullptr) why->clear();
    return true;
  }

 private:
  arrow::Result<LoadedTable> Accept(State state) {
    io_->SetS3Access(AccessTo(catalog_, &state));
    if (!state.metadata_location.empty()) return ReadMetadataFile(*io_, state.metadata_location);
    ARROW_ASSIGN_OR_RAISE(Json json, ParseJson(state.metadata, description()));
    LoadedTable table;
    ARROW_ASSIGN_OR_RAISE(table.metadata, TableMetadata::FromJson(std::move(json), description()));
    return table;
  }

  /// The table as it stands if it holds the update's snapshot; else the outcome is not known,
  /// because of `why`.
  arrow::Result<LoadedTable> Find(const RestUpdate& update, const arrow::Status& why) {
    const auto unknown = UnknownOutcome("{}: {}; whether the commit was applied is not known",
                                        description(), why.message());
    auto table = Load();
    if (!table.ok()) return unknown;
    ARROW_ASSIGN_OR_RAISE(const bool holds, HoldsSnapshotOf(update, table->metadata));
    if (!holds) return unknown;
    return table;
  }

  const std::shared_ptr<const ExternalCatalog> catalog_;
};

}  // namespace

arrow::Result<std::unique_ptr<TableStore>> OpenExternalTable(ExternalCatalog catalog) {
  return std::make_unique<ExternalTable>(std::move(catalog));
}

}  // namespace thalweg::iceberg
