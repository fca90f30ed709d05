#include "server/server_config.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/config_fields.h"
#include "yaml-cpp/yaml.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;

// ${NAME} and ${NAME:-default}; every other '$' stands for itself. Without an environment both are errors.
absl::StatusOr<std::string> Expand(const std::string& text, const Environment& environment) {
  std::string out;
  size_t position = 0;
  while (true) {
    const size_t begin = text.find("${", position);
    if (begin == std::string::npos) return out + text.substr(position);
    if (environment == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' has ${, the environment is not read here"));
    }
    const size_t end = text.find('}', begin);
    if (end == std::string::npos) return absl::InvalidArgumentError(absl::StrCat("'", text, "' has ${ without }"));
    out += text.substr(position, begin - position);
    const std::string inside = text.substr(begin + 2, end - begin - 2);
    const size_t separator = inside.find(":-");
    const std::string name = inside.substr(0, separator);
    if (std::optional<std::string> value = environment(name)) {
      out += *value;
    } else if (separator != std::string::npos) {
      out += inside.substr(separator + 2);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("the environment variable ", name, " is not set (${", name, ":-...} gives a default)"));
    }
    position = end + 1;
  }
}

const ConfigField* FindField(const std::vector<ConfigField>& fields, const std::string& key) {
  for (const ConfigField& field : fields) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

bool IsGroup(const std::vector<ConfigField>& fields, const std::string& key) {
  for (const ConfigField& field : fields) {
    if (absl::StartsWith(field.key, key + ".")) return true;
  }
  return false;
}

// Reads YAML into a configuration or one model. Errors carry file, line and key.
class YamlLoader {
 public:
  // `name` stands for the file in messages; `folder` is where relative paths begin.
  YamlLoader(std::string name, fs::path folder, const Environment& environment)
      : path_(std::move(name)), folder_(std::move(folder)), environment_(environment) {}

  absl::Status LoadFile(ServerConfig* config) {
    std::ifstream file(path_);
    std::stringstream text;
    if (!file || !(text << file.rdbuf())) return absl::NotFoundError(absl::StrCat("cannot read ", path_));
    config_ = config;
    return Load(text.str(), ConfigFields(config));
  }

  absl::Status LoadModel(const std::string& text, ModelOptions* model) { return Load(text, ModelFields(model)); }

 private:
  absl::Status Load(const std::string& text, const std::vector<ConfigField>& fields) {
    try {
      const YAML::Node root = YAML::Load(text);
      if (!root.IsMap()) return absl::InvalidArgumentError(absl::StrCat(path_, ":1: expected keys and values"));
      return LoadGroup(root, fields, "", "");
    } catch (const YAML::Exception& error) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ":", error.mark.line + 1, ": ", error.msg));
    }
  }

  absl::Status Error(const YAML::Node& at, const std::string& key, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", at.Mark().line + 1, ": ", key, ": ", what));
  }

  // `place` is put before keys in messages: "models[0].".
  absl::Status LoadGroup(const YAML::Node& group, const std::vector<ConfigField>& fields, const std::string& prefix,
                         const std::string& place) {
    for (const auto& entry : group) {
      if (!entry.first.IsScalar()) return Error(entry.first, place + prefix, "expected a key");
      const std::string key = prefix + entry.first.Scalar();
      if (!seen_.insert(place + key).second) return Error(entry.first, place + key, "the key is repeated");
      if (absl::Status status = LoadEntry(entry.first, entry.second, fields, key, place); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status LoadEntry(const YAML::Node& name, const YAML::Node& value, const std::vector<ConfigField>& fields,
                         const std::string& key, const std::string& place) {
    if (key == "models" && place.empty() && config_ != nullptr) return LoadModels(name, value);
    if (const ConfigField* field = FindField(fields, key)) return LoadValue(name, value, *field, place + key);
    if (!IsGroup(fields, key)) return Error(name, place + key, "unknown key");
    if (value.IsNull()) return absl::OkStatus();
    if (!value.IsMap()) return Error(name, place + key, "expected keys below it, found a value");
    return LoadGroup(value, fields, key + ".", place);
  }

  absl::Status LoadModels(const YAML::Node& name, const YAML::Node& value) {
    if (!value.IsSequence()) return Error(name, "models", "expected a list of models");
    for (const YAML::Node& entry : value) {
      const std::string place = absl::StrCat("models[", config_->engine.models.size(), "]");
      if (!entry.IsMap()) return Error(entry, place, "expected keys and values");
      ModelOptions model;
      if (absl::Status status = LoadGroup(entry, ModelFields(&model), "", place + "."); !status.ok()) return status;
      config_->engine.models.push_back(std::move(model));
    }
    return absl::OkStatus();
  }

  absl::Status LoadValue(const YAML::Node& name, const YAML::Node& value, const ConfigField& field,
                         const std::string& key) {
    std::string text;
    if (value.IsScalar()) {
      absl::StatusOr<std::string> single = Scalar(value, field);
      if (!single.ok()) return Error(value, key, single.status().message());
      text = *std::move(single);
    } else if (value.IsSequence() && field.is_list) {
      for (const YAML::Node& item : value) {
        if (!item.IsScalar()) return Error(item, key, absl::StrCat("expected ", field.type));
        absl::StatusOr<std::string> part = Scalar(item, field);
        if (!part.ok()) return Error(item, key, part.status().message());
        absl::StrAppend(&text, text.empty() ? "" : ",", *part);
      }
    } else {
      return Error(name, key,
                   absl::StrCat("expected ", field.type, ", found ", value.IsNull() ? "nothing" : "a group"));
    }
    absl::Status status = field.set(text);
    return status.ok() ? status : Error(value, key, status.message());
  }

  absl::StatusOr<std::string> Scalar(const YAML::Node& value, const ConfigField& field) const {
    absl::StatusOr<std::string> text = Expand(value.Scalar(), environment_);
    if (text.ok() && field.is_path && !text->empty() && fs::path(*text).is_relative()) {
      return (folder_ / *text).lexically_normal().string();
    }
    return text;
  }

  const std::string path_;
  const fs::path folder_;
  const Environment& environment_;
  ServerConfig* config_ = nullptr;  // of a model: none
  std::set<std::string> seen_;      // a key may be written as groups or with dots, but once
};

absl::Status ApplyOverride(const std::string& assignment, const Environment& environment, ServerConfig* config) {
  auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("--set ", assignment, ": ", what));
  };
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos) return error("expected KEY=VALUE");
  std::string key = assignment.substr(0, equals);
  std::vector<ConfigField> fields = ConfigFields(config);
  if (absl::StartsWith(key, "models.")) {
    const size_t dot = key.find('.', 7);
    size_t index = 0;
    if (dot == std::string::npos || !absl::SimpleAtoi(key.substr(7, dot - 7), &index) ||
        index >= config->engine.models.size()) {
      return error(absl::StrCat("expected models.N.KEY with N below ", config->engine.models.size()));
    }
    key = key.substr(dot + 1);
    fields = ModelFields(&config->engine.models[index]);
  }
  const ConfigField* field = FindField(fields, key);
  if (field == nullptr) return error("unknown key");
  absl::StatusOr<std::string> value = Expand(assignment.substr(equals + 1), environment);
  if (!value.ok()) return error(value.status().message());
  absl::Status status = field->set(*value);
  return status.ok() ? status : error(status.message());
}

// HOST:PORT. What listens would take the port modulo 65536.
absl::Status CheckAddress(const std::string& key, const std::string& address) {
  if (absl::StartsWith(address, "unix")) return absl::OkStatus();
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " must be HOST:PORT with a port of 0..65535, is '", address, "'"));
  }
  return absl::OkStatus();
}

absl::Status CheckAdmin(const AdminOptions& admin) {
  if (admin.listen.empty()) return absl::OkStatus();
  if (absl::Status status = CheckAddress("admin.listen", admin.listen); !status.ok()) return status;
  if (!admin.token_file.empty() || IsLocalAddress(admin.listen)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("admin.listen is ", admin.listen,
                   ", which other machines can reach: admin.token_file must be given, or a "
                   "loopback address (127.0.0.1:PORT) or unix: address"));
}

absl::Status CheckTls(const TlsOptions& tls) {
  if (tls.certificate.empty() != tls.key.empty()) {
    return absl::InvalidArgumentError("server.tls.certificate and server.tls.key must be given together");
  }
  if (!tls.client_ca.empty() && tls.certificate.empty()) {
    return absl::InvalidArgumentError("server.tls.client_ca needs server.tls.certificate and server.tls.key");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsLocalAddress(const std::string& address) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) return true;
  std::string host = address.substr(0, address.rfind(':'));
  if (host == "localhost") return true;
  std::array<uint8_t, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1) return bytes[0] == 127;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1 &&
         std::equal(bytes.begin(), bytes.end(), std::begin(in6addr_loopback.s6_addr));
}

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    auto get = [](const char* variable) -> std::optional<std::string> {
      const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
    if (auto value = get(name.c_str()); value || name != "TRIBUTARY_DEPS") return value;
    if (auto cache = get("XDG_CACHE_HOME")) return *cache + "/tributary";
    if (auto home = get("HOME")) return *home + "/.cache/tributary";
    return std::nullopt;
  };
}

absl::StatusOr<ServerConfig> LoadConfig(const std::string& path, const std::vector<std::string>& overrides,
                                        const Environment& environment) {
  ServerConfig config;
  config.folder = fs::path(path).parent_path().string();
  YamlLoader loader(path, config.folder, environment);
  if (absl::Status status = loader.LoadFile(&config); !status.ok()) return status;
  for (const std::string& assignment : overrides) {
    if (absl::Status status = ApplyOverride(assignment, environment, &config); !status.ok()) return status;
  }
  if (absl::Status status = CheckTls(config.server.tls); !status.ok()) return status;
  if (absl::Status status = CheckAdmin(config.admin); !status.ok()) return status;
  if (absl::Status status = Validate(config.engine); !status.ok()) return status;
  if (absl::Status status = CheckAddress("server.listen", config.server.listen); !status.ok()) return status;
  if (!config.metrics.listen.empty()) {
    if (absl::Status status = CheckAddress("metrics.listen", config.metrics.listen); !status.ok()) return status;
  }
  return config;
}

absl::StatusOr<ModelOptions> ParseModel(const std::string& text, const std::string& name, const std::string& folder) {
  ModelOptions model;
  if (absl::Status status = YamlLoader(name, folder, nullptr).LoadModel(text, &model); !status.ok()) return status;
  return model;
}

std::string PrintConfig(const ServerConfig& config) {
  ServerConfig copy = config;
  std::string out;
  for (const ConfigField& field : ConfigFields(&copy)) absl::StrAppend(&out, field.key, ": ", field.print(), "\n");
  for (size_t i = 0; i < copy.engine.models.size(); ++i) {
    for (const ConfigField& field : ModelFields(&copy.engine.models[i])) {
      absl::StrAppend(&out, "models.", i, ".", field.key, ": ", field.print(), "\n");
    }
  }
  return out;
}

}  // namespace tributary
