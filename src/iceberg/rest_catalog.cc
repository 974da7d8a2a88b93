#include "iceberg/rest_catalog.h"

#include "iceberg/rest_client.h"
#include "iceberg/rest_update.h"
#include "util/crash_point.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using Properties = std::map<std::string, std::string>;

constexpr char kLoadEndpoint[] = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}";
constexpr char kCommitEndpoint[] = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}";
constexpr char kCreateEndpoint[] = "POST /v1/{prefix}/namespaces/{namespace}/tables";

void Merge(const Json& object, const char* key, Properties* properties) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return;
  for (const auto& [name, value] : found->items()) {
    if (value.is_string()) (*properties)[name] = value.get<std::string>();
  }
}

/// The table in a server's answer; its metadata is taken out of the answer.
arrow::Result<LoadedTable> TableOf(Json* answer, const std::string& what) {
  LoadedTable table;
  ARROW_ASSIGN_OR_RAISE(table.metadata_location, GetString(*answer, "metadata-location", what));
  ARROW_RETURN_NOT_OK(GetObject(*answer, "metadata", what).status());
  ARROW_ASSIGN_OR_RAISE(table.metadata,
                        TableMetadata::FromJson(std::move((*answer)["metadata"]), what));
  return table;
}

/// Asks the catalog for new credentials for a table's files.
struct RenewAccess {
  std::shared_ptr<RestClient> client;
  std::string path;
  arrow::Result<S3Access> operator()() const {
    ARROW_ASSIGN_OR_RAISE(const auto answer, client->Get(path, "snapshots=refs"));
    if (answer.status != 200) return client->Refused("renew access to files", answer);
    S3Access access = StorageAccess(client->config().properties, answer.body);
    access.renew = *this;
    return access;
  }
};

class RestTable : public TableStore {
 public:
  RestTable(std::shared_ptr<FileIO> io, std::shared_ptr<RestClient> client, TableIdentifier table)
      : TableStore(std::move(io)),
        client_(std::move(client)),
        table_(std::move(table)),
        path_(client_->NamespacePath(table_.name_space) + "/tables/" + PercentEncode(table_.name)),
        description_(fmt::format("table {} in {}", table_.ToString(), client_->name())) {}

  arrow::Result<LoadedTable> Load() override {
    ARROW_RETURN_NOT_OK(client_->CheckEndpoint(kLoadEndpoint));
    ARROW_ASSIGN_OR_RAISE(auto answer, client_->Get(path_, "snapshots=all"));
    if (answer.status == 404) return NoSuchTable(answer);
    if (answer.status != 200) return client_->Refused("load table " + table_.ToString(), answer);
    return Accept(&answer.body);
  }

  arrow::Result<LoadedTable> Commit(const LoadedTable& base,
                                    const TableMetadata& updated) override {
    ARROW_RETURN_NOT_OK(client_->CheckEndpoint(kCommitEndpoint));
    ARROW_ASSIGN_OR_RAISE(const auto update, MakeRestUpdate(base.metadata, updated));
    if (update.updates.empty()) return base;
    RestClient::Post post;
    post.path = path_;
    post.body = Json{{"identifier", Identifier()},
                     {"requirements", update.requirements},
                     {"updates", update.updates}};
    if (client_->config().idempotency_keys) post.idempotency_key = NewUuid();
    {
      std::lock_guard lock(mutex_);
      post.token = token_;
    }
    post.interruptible = false;  // what was sent is waited for: its outcome matters
    CrashPoint("before-rest-commit");
    auto answer = client_->Send(post);
    CrashPoint("after-rest-commit");
    if (!answer.ok()) {
      if (KindOf(answer.status()) != FailureKind::kUnknown) return answer.status();
      return Unknown(answer.status().message());
    }
    switch (VerdictOf(answer->status)) {
      case CommitVerdict::kCommitted: {
        auto committed = TableOf(&answer->body, description_);
        // Not to be read: the table tells, which may come from a cache that lags.
        return committed.ok() ? committed : Find(update, committed.status().message());
      }
      case CommitVerdict::kConflict:
        return Conflicting(base, update, *answer);
      case CommitVerdict::kRefused:
        return Rejected(base, update, *answer);
      case CommitVerdict::kUnknown:
        break;
    }
    return Unknown(answer->error);
  }

  arrow::Result<LoadedTable> CreateTable(const TableMetadata& metadata) override {
    ARROW_RETURN_NOT_OK(client_->CheckEndpoint(kCreateEndpoint));
    const Json& json = metadata.json();
    ARROW_ASSIGN_OR_RAISE(const Json* schemas, GetArray(json, "schemas", description_));
    if (schemas->size() != 1) return Invalid("{}: a new table has one schema", description_);
    Json properties = Json::object();
    for (const auto& [key, value] : metadata.properties()) properties[key] = value;
    properties["format-version"] = std::to_string(metadata.format_version());
    RestClient::Post post;
    post.path = client_->NamespacePath(table_.name_space) + "/tables";
    post.body = Json{{"name", table_.name},
                     {"schema", (*schemas)[0]},
                     {"partition-spec", json["partition-specs"][0]},
                     {"write-order", json["sort-orders"][0]},
                     {"stage-create", false},
                     {"properties", std::move(properties)}};
    if (!metadata.location().empty()) post.body["location"] = metadata.location();
    if (client_->config().idempotency_keys) post.idempotency_key = NewUuid();
    post.interruptible = false;
    ARROW_ASSIGN_OR_RAISE(auto answer, SendCreate(post));
    if (answer.status == 404) {
      ARROW_RETURN_NOT_OK(CreateNamespace(table_.name_space));
      // An answer is kept under its key.
      if (!post.idempotency_key.empty()) post.idempotency_key = NewUuid();
      ARROW_ASSIGN_OR_RAISE(answer, SendCreate(post));
    }
    switch (VerdictOf(answer.status)) {
      case CommitVerdict::kCommitted: {
        auto created = Accept(&answer.body);
        return created.ok() ? created : Load();
      }
      case CommitVerdict::kConflict:
        return arrow::Status::AlreadyExists("there is already a ", description_);
      case CommitVerdict::kRefused:
        return client_->Refused("create table " + table_.ToString(), answer);
      case CommitVerdict::kUnknown:
        break;
    }
    return UnknownCreation(answer.error);
  }

  const std::string& description() const override { return description_; }
  bool writable(std::string* why) const override {
    if (why != nullptr) why->clear();
    return true;
  }

 private:
  Json Identifier() const { return Json{{"namespace", table_.name_space}, {"name", table_.name}}; }

  /// Takes the table and the access to its files out of an answer.
  arrow::Result<LoadedTable> Accept(Json* answer) {
    ARROW_ASSIGN_OR_RAISE(auto table, TableOf(answer, description_));
    S3Access access = StorageAccess(client_->config().properties, *answer);
    access.renew = RenewAccess{client_, path_};  // the IO may outlive the store
    Properties config;
    Merge(*answer, "config", &config);
    {
      std::lock_guard lock(mutex_);
      token_ = config["token"];
    }
    io_->SetS3Access(std::move(access));
    return table;
  }

  arrow::Status NoSuchTable(const RestAnswer& answer) const {
    return arrow::Status::KeyError("there is no table ", table_.ToString(), " in ", client_->name(),
                                   ": ", answer.error);
  }

  arrow::Status Unknown(const std::string& why) const {
    return UnknownOutcome("{}: {}; whether the commit was applied is not known", description_, why);
  }
  arrow::Status UnknownCreation(const std::string& why) const {
    return UnknownOutcome("{}: {}; whether the table was created is not known", description_, why);
  }

  /// The table as it stands if it holds the update's snapshot; else the outcome is not known,
  /// because of `why`.
  arrow::Result<LoadedTable> Find(const RestUpdate& update, const std::string& why) {
    auto table = Load();
    if (!table.ok()) return Unknown(why);
    ARROW_ASSIGN_OR_RAISE(const bool holds, HoldsSnapshotOf(update, table->metadata));
    if (update.snapshot_id && !holds) return Unknown(why);
    return table;
  }

  /// The server found a requirement unmet.
  arrow::Result<LoadedTable> Conflicting(const LoadedTable& base, const RestUpdate& update,
                                         const RestAnswer& answer) {
    const auto conflict = Conflict("{}: another commit came first: {}", description_, answer.error);
    if (!answer.resent) return conflict;
    // It may have met the effect of our own earlier sending, or that one may be under way still:
    // only where the main branch has moved can it no longer arrive.
    auto table = Load();
    if (!table.ok() || !update.snapshot_id) return Unknown(answer.error);
    ARROW_ASSIGN_OR_RAISE(const bool holds, HoldsSnapshotOf(update, table->metadata));
    if (holds) return table;
    const bool moved = table->metadata.current_snapshot_id() != base.metadata.current_snapshot_id();
    return moved ? conflict : Unknown(answer.error);
  }

  /// The server refused. Where the table has moved meanwhile that may be why: then it is a conflict
  /// (a commit to another branch, say, takes the sequence number).
  arrow::Result<LoadedTable> Rejected(const LoadedTable& base, const RestUpdate& update,
                                      const RestAnswer& answer) {
    const auto refused = client_->Refused("commit to table " + table_.ToString(), answer);
    if (answer.status != 400 && answer.status != 422 && !answer.resent) return refused;
    auto table = Load();
    if (!table.ok()) return answer.resent ? Unknown(answer.error) : refused;
    ARROW_ASSIGN_OR_RAISE(const bool holds, HoldsSnapshotOf(update, table->metadata));
    if (holds) return table;
    if (answer.resent) return Unknown(answer.error);
    const bool moved = table->metadata_location != base.metadata_location;
    return moved ? Conflict("{}: another commit came first: {}", description_, answer.error)
                 : refused;
  }

  arrow::Result<RestAnswer> SendCreate(const RestClient::Post& post) {
    auto answer = client_->Send(post);
    if (!answer.ok() && KindOf(answer.status()) == FailureKind::kUnknown) {
      return UnknownCreation(answer.status().message());
    }
    return answer;
  }

  /// Makes the namespace and, where the server wants them, those that it lies in.
  arrow::Status CreateNamespace(const std::vector<std::string>& name_space) {
    RestClient::Post post;
    post.path = "v1/" + client_->config().prefix + "namespaces";
    post.body = Json{{"namespace", name_space}, {"properties", Json::object()}};
    if (client_->config().idempotency_keys) post.idempotency_key = NewUuid();
    for (bool again = false;; again = true) {
      ARROW_ASSIGN_OR_RAISE(const auto answer, client_->Send(post));
      const bool exists = answer.status == 409;
      if ((answer.status >= 200 && answer.status < 300) || exists) return arrow::Status::OK();
      if (again || answer.status != 404 || name_space.size() < 2) {
        return client_->Refused("create the namespace " + table_.NamespaceText(), answer);
      }
      ARROW_RETURN_NOT_OK(CreateNamespace({name_space.begin(), name_space.end() - 1}));
      if (!post.idempotency_key.empty()) post.idempotency_key = NewUuid();
    }
  }

  const std::shared_ptr<RestClient> client_;
  const TableIdentifier table_;
  const std::string path_;
  const std::string description_;
  std::mutex mutex_;
  std::string token_;  ///< of the table itself, for commits to it
};

}  // namespace

S3Access StorageAccess(const Properties& catalog, const Json& answer) {
  S3Access access;
  access.properties = catalog;
  if (!answer.is_object()) return access;
  Merge(answer, "config", &access.properties);
  const auto credentials = answer.find("storage-credentials");
  if (credentials == answer.end() || !credentials->is_array()) return access;
  for (const auto& credential : *credentials) {
    if (!credential.is_object()) continue;
    const auto prefix = credential.find("prefix");
    if (prefix == credential.end() || !prefix->is_string()) continue;
    S3Access::Credential& added = access.credentials.emplace_back();
    added.prefix = prefix->get<std::string>();
    Merge(credential, "config", &added.properties);
  }
  return access;
}

CommitVerdict VerdictOf(int status) {
  if (status >= 200 && status < 300) return CommitVerdict::kCommitted;
  if (status == 409) return CommitVerdict::kConflict;
  // What gateways answer when they lost patience: the request may still have come through.
  if (status == 408 || status == 499) return CommitVerdict::kUnknown;
  // 4xx: the server did not do it. 501: it cannot.
  if ((status >= 400 && status < 500) || status == 501) return CommitVerdict::kRefused;
  return CommitVerdict::kUnknown;
}

arrow::Result<std::unique_ptr<TableStore>> OpenRestTable(const std::string& catalog_name,
                                                         const Properties& properties,
                                                         const TableIdentifier& table) {
  if (table.name_space.empty() || table.name.empty()) {
    return Invalid("table {} of catalog {}: a namespace and a name are needed", table.ToString(),
                   catalog_name);
  }
  ARROW_ASSIGN_OR_RAISE(auto client, RestClient::Connect(catalog_name, properties));
  auto io = std::make_shared<FileIO>(client->config().properties);
  return std::make_unique<RestTable>(std::move(io), std::move(client), table);
}

}  // namespace thalweg::iceberg
