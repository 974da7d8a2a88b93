#include "table/address.h"

#include <pwd.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "util/status.h"
#include "util/text.h"

extern char** environ;

namespace thalweg {
namespace {

namespace fs = std::filesystem;
using Properties = std::map<std::string, std::string>;
using Catalogs = std::map<std::string, Properties>;

constexpr char kFileName[] = ".pyiceberg.yaml";
// A configuration file is small; YAML aliases can make a small file expand without end.
constexpr int kMaxDepth = 16;
constexpr size_t kMaxProperties = 10000;
constexpr uintmax_t kMaxFileBytes = 16 << 20;

/// Part of a variable's name as a key: "__" is '.', '_' is '-'.
std::string NormalPart(std::string_view part) {
  std::string normal;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '_') {
      normal += part[i];
    } else if (i + 1 < part.size() && part[i + 1] == '_') {
      normal += '.';
      ++i;
    } else {
      normal += '-';
    }
  }
  return normal;
}

std::string Join(const std::vector<std::string>& parts, const char* separator) {
  std::string joined;
  for (const auto& part : parts) joined += (joined.empty() ? "" : separator) + part;
  return joined;
}

/// "scheme:/…": two characters at least, so that nothing is mistaken for a drive letter.
bool HasScheme(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon < 2 || text.substr(colon, 2) != ":/") return false;
  return std::all_of(text.begin(), text.begin() + static_cast<ptrdiff_t>(colon), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
  });
}

/// Absolute, without "." and repeated or trailing slashes. ".." stays: a symbolic link may stand
/// before it.
arrow::Result<std::string> AbsolutePath(const std::string& text) {
  std::error_code error;
  const fs::path absolute = fs::absolute(text, error);
  if (error) return Invalid("{}: {}", text, error.message());
  fs::path clean;
  for (const auto& part : absolute) {
    if (!part.empty() && part != ".") clean /= part;
  }
  return clean.string();
}

/// The folders that may hold the configuration file, in the order in which they are asked.
std::vector<std::string> ConfigFolders() {
  std::vector<std::string> folders;
  if (const char* set = std::getenv("PYICEBERG_HOME"); set != nullptr && *set != '\0') {
    folders.emplace_back(set);
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr) {
    const passwd* user = getpwuid(getuid());
    home = user == nullptr ? nullptr : user->pw_dir;
  }
  if (home != nullptr && *home != '\0') folders.emplace_back(home);
  std::error_code error;
  const fs::path here = fs::current_path(error);
  if (!error) folders.push_back(here.string());
  return folders;
}

/// Scalars of a mapping; nested mappings become dotted keys. All scalars are text, as PyIceberg
/// reads them.
arrow::Status Flatten(const YAML::Node& node, const std::string& prefix, int depth,
                      const std::string& file, Properties* properties) {
  if (depth > kMaxDepth || properties->size() > kMaxProperties) {
    return Invalid("{}: nested too deeply or too large for a catalog configuration", file);
  }
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) continue;
    const std::string key = prefix + Lower(entry.first.Scalar());
    if (entry.second.IsMap()) {
      ARROW_RETURN_NOT_OK(Flatten(entry.second, key + ".", depth + 1, file, properties));
    } else if (!entry.second.IsSequence()) {
      (*properties)[key] = entry.second.IsScalar() ? entry.second.Scalar() : "";
    }
  }
  return arrow::Status::OK();
}

arrow::Result<Catalogs> ParseConfig(const std::string& text, const std::string& file) {
  Catalogs catalogs;
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return catalogs;
    if (!root.IsMap()) return Invalid("{}: expected a mapping with the key \"catalog\"", file);
    for (const auto& top : root) {
      if (!top.first.IsScalar() || Lower(top.first.Scalar()) != "catalog") continue;
      if (top.second.IsNull()) continue;
      if (!top.second.IsMap()) {
        return Invalid("{}: \"catalog\" must be a mapping from catalog names to properties", file);
      }
      for (const auto& catalog : top.second) {
        if (!catalog.first.IsScalar()) continue;
        const std::string name = Lower(catalog.first.Scalar());
        if (!catalog.second.IsMap() && !catalog.second.IsNull()) {
          return Invalid("{}: \"catalog.{}\" must be a mapping of properties", file, name);
        }
        Properties properties;
        if (catalog.second.IsMap()) {
          ARROW_RETURN_NOT_OK(Flatten(catalog.second, "", 0, file, &properties));
        }
        catalogs[name] = std::move(properties);
      }
    }
  } catch (const YAML::Exception& error) {
    return Invalid("{}: not valid YAML at line {}: {}", file, error.mark.line + 1, error.msg);
  } catch (const std::exception& error) {
    return Invalid("{}: cannot be read as YAML: {}", file, error.what());
  }
  return catalogs;
}

/// The first configuration file that is there and not empty.
arrow::Result<Catalogs> ReadConfigFile() {
  for (const auto& folder : ConfigFolders()) {
    const fs::path path = fs::path(folder) / kFileName;
    std::error_code error;
    if (!fs::is_regular_file(path, error)) continue;
    if (fs::file_size(path, error) > kMaxFileBytes || error) {
      return Invalid("{}: too large for a configuration file", path.string());
    }
    std::ifstream stream(path);
    std::stringstream text;
    text << stream.rdbuf();
    if (!stream) return Invalid("{}: cannot be read; check its permissions", path.string());
    if (text.str().find_first_not_of(" \t\r\n") == std::string::npos) continue;
    return ParseConfig(text.str(), path.string());
  }
  return Catalogs{};
}

/// PYICEBERG_CATALOG__NAME__KEY=value: split at the first two "__" only, then "__" is '.' and '_'
/// is '-' in every part.
void AddEnvironment(Catalogs* catalogs) {
  constexpr std::string_view kPrefix = "pyiceberg_catalog__";
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name = Lower(std::string(text.substr(0, equals)));
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    const std::string rest = name.substr(kPrefix.size());
    const size_t split = rest.find("__");
    if (split == std::string::npos) continue;
    (*catalogs)[NormalPart(rest.substr(0, split))][NormalPart(rest.substr(split + 2))] =
        std::string(text.substr(equals + 1));
  }
}

arrow::Result<std::string> InferType(const std::string& catalog, const Properties& properties) {
  const auto uri = properties.find("uri");
  if (uri == properties.end() || uri->second.empty()) {
    return Usage(
        "catalog \"{}\" has no uri: set it with --catalog-property uri=…, in the environment or in "
        "{}",
        catalog, kFileName);
  }
  static constexpr std::pair<std::string_view, const char*> kSchemes[] = {
      {"http", "rest"},      {"thrift", "hive"},      {"sqlite", "sql"},
      {"postgresql", "sql"}, {"jdbc:sqlite:", "sql"}, {"jdbc:postgresql:", "sql"}};
  for (const auto& [prefix, type] : kSchemes) {
    if (uri->second.compare(0, prefix.size(), prefix) == 0) return type;
  }
  return Usage(
      "catalog \"{}\": its type cannot be told from the uri \"{}\": add --catalog-property type=…",
      catalog, uri->second);
}

}  // namespace

arrow::Result<TableAddress> ParseTableAddress(const std::string& text) {
  if (text.empty())
    return Usage("the table's name is empty: give a path or CATALOG.NAMESPACE.TABLE");
  TableAddress address;
  address.text = text;
  std::error_code error;
  const bool lance = text.size() > 6 && text.compare(text.size() - 6, 6, ".lance") == 0;
  if (lance || text.find('/') != std::string::npos || fs::exists(text, error)) {
    address.is_path = true;
    if (HasScheme(text)) {
      address.path = text;
      const size_t root = text.find(":/") + 2;
      while (address.path.size() > root && address.path.back() == '/') address.path.pop_back();
    } else {
      ARROW_ASSIGN_OR_RAISE(address.path, AbsolutePath(text));
    }
    return address;
  }
  std::vector<std::string> parts;
  std::stringstream stream(text + ".");
  for (std::string part; std::getline(stream, part, '.');) {
    if (part.empty()) {
      return Usage(
          "\"{}\" is not a table's name: write CATALOG.NAMESPACE.TABLE, or a path with a /", text);
    }
    parts.push_back(part);
  }
  if (parts.size() == 1) {
    return Usage(
        "\"{0}\" is neither an existing path nor a catalog's table: write ./{0} for a path, or "
        "CATALOG.NAMESPACE.{0}",
        text);
  }
  address.catalog = parts.front();
  address.table = parts.back();
  address.name_space.assign(parts.begin() + 1, parts.end() - 1);
  return address;
}

arrow::Result<std::map<std::string, std::string>> CatalogProperties(
    const std::string& catalog, const std::map<std::string, std::string>& overrides) {
  ARROW_ASSIGN_OR_RAISE(Catalogs catalogs, ReadConfigFile());
  AddEnvironment(&catalogs);
  const auto found = catalogs.find(Lower(catalog));
  if (found == catalogs.end() && overrides.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, properties] : catalogs) names.push_back(name);
    std::string variable = catalog;
    for (char& c : variable) {
      c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return Usage(
        "catalog \"{}\" is not known (looked at PYICEBERG_CATALOG__{}__… and {} in {}; known: {}): "
        "configure it, or pass --catalog-property uri=…",
        catalog, variable, kFileName, Join(ConfigFolders(), ", "),
        names.empty() ? "none" : Join(names, ", "));
  }
  Properties properties = found == catalogs.end() ? Properties{} : found->second;
  for (const auto& [key, value] : overrides) {
    // An empty value leaves what is configured, as in PyIceberg.
    std::string& slot = properties[key];
    if (!value.empty()) slot = value;
  }
  if (std::string& type = properties["type"]; type.empty()) {
    ARROW_ASSIGN_OR_RAISE(type, InferType(catalog, properties));
  } else {
    type = Lower(type);
  }
  return properties;
}

}  // namespace thalweg
