#include "server/command_line.h"

#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("flags take their value after '=' or as the next argument, with either kind of dash") {
  const auto line = ParseCommandLine({"--config=a.yaml", "--set", "lanes.count=2", "--listen", "h:1",
                                      "--set=log.level=off", "--metrics_listen=h:2", "--port-file", "p"});
  REQUIRE(line.ok());
  CHECK(line->action == CommandLine::Action::kServe);
  CHECK(line->config == "a.yaml");
  CHECK(line->port_file == "p");
  CHECK(line->overrides ==
        std::vector<std::string>{"lanes.count=2", "server.listen=h:1", "log.level=off", "metrics.listen=h:2"});
}

TEST_CASE("the actions are known in both spellings") {
  CHECK(ParseCommandLine({"--version"})->action == CommandLine::Action::kVersion);
  CHECK(ParseCommandLine({"--check-config"})->action == CommandLine::Action::kCheckConfig);
  CHECK(ParseCommandLine({"--check_config", "--config", "x"})->action == CommandLine::Action::kCheckConfig);
  CHECK(ParseCommandLine({"--help"})->action == CommandLine::Action::kHelp);
  const auto health = ParseCommandLine({"--check-health", "127.0.0.1:1"});
  CHECK(health->action == CommandLine::Action::kCheckHealth);
  CHECK(health->health_address == "127.0.0.1:1");
  const auto model = ParseCommandLine({"--check-model=models/a"});
  CHECK(model->action == CommandLine::Action::kCheckModel);
  CHECK(model->model_folder == "models/a");
  CHECK(ParseCommandLine({"--families"})->action == CommandLine::Action::kFamilies);
}

TEST_CASE("what is no flag is an error that names it") {
  CHECK(ParseCommandLine({"--confg=x"}).status().message() == "unknown flag '--confg=x' (--help lists the flags)");
  CHECK(ParseCommandLine({"x"}).status().message() == "unexpected argument 'x' (--help lists the flags)");
  CHECK(ParseCommandLine({"--config"}).status().message() == "--config needs a value");
  CHECK(ParseCommandLine({"--check-model"}).status().message() == "--check-model needs a value");
  CHECK(ParseCommandLine({"--version=1"}).status().message() == "--version takes no value");
}

TEST_CASE("every flag is in the help") {
  for (const char* flag : {"--config", "--set", "--listen", "--metrics-listen", "--port-file", "--check-config",
                           "--check-health", "--check-model", "--families", "--version", "--help"}) {
    CHECK(HelpText().find(flag) != std::string_view::npos);
  }
}

}  // namespace
}  // namespace tributary
