// The table of configuration keys: each bound to its place in the options, with its type, range and text form. The
// loader, the printed configuration and the test of config/README.md all read this one table.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/server_config.h"

namespace tributary {

struct ConfigField {
  std::string key;    // "schedule.text.weight"; of a model, without its prefix: "text.dtype"
  std::string type;   // "integer", "number", "true/false", "text", "path", "list of integers", "list of paths"
  std::string range;  // "1..1024", "auto, fp32"; empty: any
  bool is_path = false;
  bool is_list = false;
  // The message says what was expected and what was found; the caller adds where.
  std::function<absl::Status(const std::string& text)> set;
  std::function<std::string()> print;
};

// Bound to `config`, which must outlive them. All keys but those of models.
std::vector<ConfigField> ConfigFields(ServerConfig* config);
// The keys of one entry of `models`.
std::vector<ConfigField> ModelFields(ModelOptions* model);

}  // namespace tributary
