#include "server/server_config.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "server/config_fields.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;

// A folder with one configuration file, removed at the end.
class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text)
      : folder_(fs::temp_directory_path() / ("tributary-config-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    std::ofstream(path()) << text;
  }
  ~ConfigFile() { fs::remove_all(folder_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;
  std::string path() const { return folder_ / "test.yaml"; }
  std::string folder() const { return folder_; }

 private:
  const fs::path folder_;
};

Environment Variables(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
}

constexpr char kModel[] = "models:\n  - name: m\n    text: {folder: /models/t}\n";

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const ConfigFile file(text);
  const auto config = LoadConfig(file.path(), overrides, Variables({}));
  if (config.ok()) return "OK";
  std::string message(config.status().message().data(), config.status().message().size());
  const size_t at = message.find(file.path());
  return at == std::string::npos ? message : message.replace(at, file.path().size(), "FILE");
}

TEST_CASE("a file sets what it names and leaves the defaults elsewhere") {
  const ConfigFile file(std::string("server:\n  listen: 127.0.0.1:0\nschedule:\n  text: {weight: 2.5}\n"
                                    "  drop_late: false\n  image:\n    max_wait_millis: 1.5\n"
                                    "lanes: {cpu_affinity: [0, 1]}\nadmission:\n") +
                        kModel);
  const auto config = LoadConfig(file.path(), {}, Variables({}));
  REQUIRE(config.ok());
  CHECK(config->server.listen == "127.0.0.1:0");
  CHECK(config->engine.schedule.modalities[0].weight == 2.5);
  CHECK(config->engine.schedule.modalities[1].max_wait == std::chrono::microseconds(1500));
  CHECK_FALSE(config->engine.schedule.drop_late);
  CHECK(config->engine.lanes.cpu_affinity == std::vector<int>{0, 1});
  CHECK(config->engine.admission.max_inputs_per_call == 1024);
  REQUIRE(config->engine.models.size() == 1);
  CHECK(config->engine.models[0].text.folder == "/models/t");
}

TEST_CASE("what is wrong in the file is named with file, line and key") {
  CHECK(ErrorOf("server:\n  listen: a:1\n  lisen: b:2\n") == "FILE:3: server.lisen: unknown key");
  CHECK(ErrorOf("admission:\n  max_items: many\n") ==
        "FILE:2: admission.max_items: expected an integer in 1..16777216, found 'many'");
  CHECK(ErrorOf("admission:\n  max_items: 0\n") ==
        "FILE:2: admission.max_items: expected an integer in 1..16777216, found '0'");
  CHECK(ErrorOf("admission:\n  max_items: -1\n").find("FILE:2: admission.max_items: expected") == 0);
  CHECK(ErrorOf("schedule:\n  text:\n    weight: .nan\n").find("FILE:3: schedule.text.weight: expected a number") == 0);
  CHECK(ErrorOf("schedule:\n  drop_late: 1\n") == "FILE:2: schedule.drop_late: expected true or false, found '1'");
  CHECK(ErrorOf("schedule:\n  drop_late:\n") == "FILE:2: schedule.drop_late: expected true/false, found nothing");
  CHECK(ErrorOf("server:\n  listen: [a, b]\n") == "FILE:2: server.listen: expected text, found a group");
  CHECK(ErrorOf("server: 5\n") == "FILE:1: server: expected keys below it, found a value");
  CHECK(ErrorOf("log: {level: loud}\n") ==
        "FILE:1: log.level: expected one of debug, info, warning, error, off, found 'loud'");
  CHECK(ErrorOf("lanes:\n  cpu_affinity: [0, x]\n") ==
        "FILE:2: lanes.cpu_affinity: expected integers, each 0..1023, found '0,x'");
  CHECK(ErrorOf("cache_folder: a\n\ncache_folder: b\n") == "FILE:3: cache_folder: the key is repeated");
  CHECK(ErrorOf("server: {listen: a}\nserver.listen: b\n") == "FILE:2: server.listen: the key is repeated");
  CHECK(ErrorOf("server.listen: b\nserver:\n  listen: a\n") == "FILE:3: server.listen: the key is repeated");
  CHECK(ErrorOf("models:\n  - {text.folder: a, text: {folder: b}}\n") ==
        "FILE:2: models[0].text.folder: the key is repeated");
  CHECK(ErrorOf("models:\n  - name: m\n    text:\n      folders: x\n") ==
        "FILE:4: models[0].text.folders: unknown key");
  CHECK(ErrorOf("models:\n  name: m\n") == "FILE:1: models: expected a list of models");
  CHECK(ErrorOf("models:\n  - name: m\n    text: {dtype: int4}\n").find("FILE:3: models[0].text.dtype: expected one") ==
        0);
  CHECK(ErrorOf("- a\n") == "FILE:1: expected keys and values");
  CHECK(ErrorOf("server: {listen: \"x\n").find("FILE:") == 0);
}

TEST_CASE("what contradicts itself is named by key") {
  CHECK(ErrorOf("server: {listen: a}\n").find("models must be") == 0);
  CHECK(ErrorOf(std::string("server: {tls: {key: k}}\n") + kModel) ==
        "server.tls.certificate and server.tls.key must be given together");
  CHECK(ErrorOf(std::string("server: {tls: {client_ca: k}}\n") + kModel).find("server.tls.client_ca needs") == 0);
  for (const char* address : {"", "nonsense", "127.0.0.1:abc", "127.0.0.1:65536", "127.0.0.1:-1"}) {
    const std::string rule = " must be HOST:PORT with a port of 0..65535, is '" + std::string(address) + "'";
    CHECK(ErrorOf(kModel, {"server.listen=" + std::string(address)}) == "server.listen" + rule);
    if (*address != 0) CHECK(ErrorOf(kModel, {"metrics.listen=" + std::string(address)}) == "metrics.listen" + rule);
  }
  CHECK(ErrorOf(kModel, {"server.listen=[::]:65535", "metrics.listen="}) == "OK");
  CHECK(ErrorOf(std::string("lanes: {device: gpu}\n") + kModel).find("lanes.device must be") == 0);
}

TEST_CASE("an admin port that others can reach needs a token") {
  for (const char* local : {"127.0.0.1:1", "127.8.9.10:1", "localhost:1", "[::1]:1", "unix:/run/admin"}) {
    INFO(local);
    CHECK(IsLocalAddress(local));
    CHECK(ErrorOf(kModel, {"admin.listen=" + std::string(local)}) == "OK");
  }
  for (const char* open : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.evil.example:1", "localhost.example:1", "[::2]:1",
                           "[::ffff:127.0.0.1]:1", "unixhost:1", ":1"}) {
    INFO(open);
    CHECK_FALSE(IsLocalAddress(open));
    CHECK(ErrorOf(kModel, {"admin.listen=" + std::string(open)}).find("admin.listen is " + std::string(open)) == 0);
    CHECK(ErrorOf(kModel, {"admin.listen=" + std::string(open), "admin.token_file=/t"}) == "OK");
  }
  CHECK(ErrorOf(kModel, {"admin.listen=nonsense"}).find("admin.listen must be HOST:PORT") == 0);
}

TEST_CASE("one model's entry is read as the file reads it, without the environment") {
  const auto model = ParseModel("name: m\ntext: {folder: t, max_tokens: 7}\nimage.folder: /abs\n", "config", "/etc/x");
  REQUIRE(model.ok());
  CHECK(model->name == "m");
  CHECK(model->text.folder == "/etc/x/t");
  CHECK(model->text.max_tokens == 7);
  CHECK(model->image.folder == "/abs");
  const auto error = [](const std::string& text) {
    return std::string(ParseModel(text, "config", "").status().message());
  };
  CHECK(error("name: m\ntext:\n  folder: a\n  folder: b\n") == "config:4: text.folder: the key is repeated");
  CHECK(error("models: []\n") == "config:1: models: unknown key");
  CHECK(error("- name: m\n") == "config:1: expected keys and values");
  CHECK(error("name: ${HOME:-x}\n") == "config:1: name: '${HOME:-x}' has ${, the environment is not read here");
  CHECK(error("matryoshka_dimensions: [64, 0]\n") ==
        "config:1: matryoshka_dimensions: expected integers, each 1..65536, found '64,0'");
}

TEST_CASE("a file that cannot be read is named") {
  const auto config = LoadConfig("/nowhere/x.yaml", {}, Variables({}));
  CHECK(config.status().code() == absl::StatusCode::kNotFound);
  CHECK(config.status().message() == "cannot read /nowhere/x.yaml");
}

TEST_CASE("values take environment variables, with defaults, and an unset one is an error") {
  const ConfigFile file(
      "server: {listen: \"${HOST}:${PORT:-7}\"}\nlanes: {count: \"${LANES:-3}\"}\n"
      "models:\n  - name: cost$5\n    text: {folder: \"${ROOT}/t\"}\n");
  const auto config = LoadConfig(file.path(), {}, Variables({{"HOST", "h"}, {"ROOT", "/r"}}));
  REQUIRE(config.ok());
  CHECK(config->server.listen == "h:7");
  CHECK(config->engine.lanes.count == 3);
  CHECK(config->engine.models[0].text.folder == "/r/t");
  CHECK(config->engine.models[0].name == "cost$5");
  CHECK(ErrorOf("server:\n  listen: ${NOPE}\n") ==
        "FILE:2: server.listen: the environment variable NOPE is not set (${NOPE:-...} gives a default)");
  CHECK(ErrorOf("server:\n  listen: ${NOPE\n") == "FILE:2: server.listen: '${NOPE' has ${ without }");
}

TEST_CASE("relative paths in the file are relative to it, absolute ones stay") {
  const ConfigFile file("cache_folder: ../c\nmodels:\n  - name: m\n    text: {folder: sub/t}\n");
  const auto config = LoadConfig(file.path(), {"models.0.image.folder=here", "models.0.image.labels=l"}, Variables({}));
  REQUIRE(config.ok());
  CHECK(config->engine.models[0].text.folder == file.folder() + "/sub/t");
  CHECK(config->engine.cache_folder == fs::path(file.folder()).parent_path() / "c");
  CHECK(config->engine.models[0].image.folder == "here");
}

TEST_CASE("a list of paths is resolved path by path, from the file with variables, from an override as it is") {
  const ConfigFile file(std::string("op_libraries: [ops/a.so, '${LIBRARIES}/b.so']\n") + kModel);
  auto config = LoadConfig(file.path(), {}, Variables({{"LIBRARIES", "/usr/lib"}}));
  REQUIRE(config.ok());
  CHECK(config->engine.op_libraries == std::vector<std::string>{file.folder() + "/ops/a.so", "/usr/lib/b.so"});
  config = LoadConfig(file.path(), {"op_libraries=/x.so,y.so"}, Variables({{"LIBRARIES", ""}}));
  REQUIRE(config.ok());
  CHECK(config->engine.op_libraries == std::vector<std::string>{"/x.so", "y.so"});
  CHECK(ErrorOf(std::string("op_libraries: [{a: b}]\n") + kModel) == "FILE:1: op_libraries: expected list of paths");
}

TEST_CASE("overrides win over the file, the last one over the others") {
  const ConfigFile file(std::string("lanes: {count: 2}\n") + kModel);
  const auto config =
      LoadConfig(file.path(), {"lanes.count=3", "lanes.count=4", "models.0.text.dtype=fp32", "lanes.cpu_affinity=1,2"},
                 Variables({}));
  REQUIRE(config.ok());
  CHECK(config->engine.lanes.count == 4);
  CHECK(config->engine.models[0].text.dtype == "fp32");
  CHECK(config->engine.lanes.cpu_affinity == std::vector<int>{1, 2});
  const auto placed = LoadConfig(file.path(), {"models.0.image.placement=cuda:0, cpu"}, Variables({}));
  REQUIRE(placed.ok());
  CHECK(placed->engine.models[0].image.placement == Placement{"cuda:0", "cpu"});
  CHECK(placed->engine.models[0].text.placement.empty());
  CHECK(ErrorOf(kModel, {"lanes.counts=1"}) == "--set lanes.counts=1: unknown key");
  CHECK(ErrorOf(kModel, {"lanes.count"}) == "--set lanes.count: expected KEY=VALUE");
  CHECK(ErrorOf(kModel, {"lanes.count=x"}) == "--set lanes.count=x: expected an integer in 0..1024, found 'x'");
  CHECK(ErrorOf(kModel, {"models.1.name=x"}) == "--set models.1.name=x: expected models.N.KEY with N below 1");
}

TEST_CASE("the printed configuration is a full list of keys that overrides accept") {
  const ConfigFile file(std::string("lanes: {count: 2}\n") + kModel);
  const auto config = LoadConfig(file.path(), {}, Variables({}));
  REQUIRE(config.ok());
  const std::string printed = PrintConfig(*config);
  CHECK(printed.find("lanes.count: 2\n") != std::string::npos);
  CHECK(printed.find("models.0.text.folder: /models/t\n") != std::string::npos);
  ServerConfig defaults;
  for (const ConfigField& field : ConfigFields(&defaults)) {
    CHECK(printed.find(field.key + ": ") != std::string::npos);
  }
}

TEST_CASE("every default is within its own range") {
  ServerConfig config;
  ModelOptions model;
  std::vector<ConfigField> fields = ConfigFields(&config);
  for (const ConfigField& field : ModelFields(&model)) fields.push_back(field);
  for (const ConfigField& field : fields) {
    if (field.is_list) continue;
    const std::string before = field.print();
    INFO(field.key);
    CHECK(field.set(before).ok());
    CHECK(field.print() == before);
  }
}

TEST_CASE("the table in config/README.md states exactly the program's keys, types, ranges and defaults") {
  ServerConfig config;
  ModelOptions model;
  std::vector<std::string> expected;
  auto add = [&](const std::string& prefix, const ConfigField& field) {
    const std::string value = field.print();
    expected.push_back("| `" + prefix + field.key + "` | " + field.type + " | " + field.range + " | " +
                       (value.empty() ? "" : "`" + value + "`") + " | ");
  };
  for (const ConfigField& field : ConfigFields(&config)) add("", field);
  for (const ConfigField& field : ModelFields(&model)) add("models[].", field);

  std::vector<std::string> rows;
  std::ifstream readme(TRIBUTARY_SOURCE_DIR "/config/README.md");
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("| `", 0) == 0) rows.push_back(line);
  }
  REQUIRE(rows.size() == expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    INFO(rows[i]);
    CHECK(rows[i].rfind(expected[i], 0) == 0);
    CHECK(rows[i].size() > expected[i].size() + 10);  // and says what the key means
  }
}

TEST_CASE("the default configuration loads, and its labels lie beside it") {
  const auto config =
      LoadConfig(TRIBUTARY_SOURCE_DIR "/config/tributary.yaml", {}, Variables({{"TRIBUTARY_DEPS", "/deps"}}));
  REQUIRE(config.ok());
  REQUIRE(config->engine.models.size() == 1);
  CHECK(config->engine.models[0].text.folder == "/deps/models/all-minilm-l6-v2");
  std::ifstream labels(config->engine.models[0].image.labels);
  size_t count = 0;
  for (std::string line; std::getline(labels, line);) ++count;
  CHECK(count == 1000);
}

}  // namespace
}  // namespace tributary
