// --check-model: what it says of a folder that can be served, and of folders that cannot.
#include "engine/libtorch/check_model.h"

#include "tests/engine/libtorch/family_goldens.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("A folder that can be served is described, and its self-check passes") {
  const auto report = CheckModelFolder(TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2");

  CAPTURE(std::string(report.status().message()));
  REQUIRE(report.ok());
  CHECK_THAT(*report, ContainsSubstring("at most 256 tokens of 30522"));
  CHECK_THAT(*report, ContainsSubstring("384 numbers, normalised"));
  CHECK_THAT(*report, ContainsSubstring("parameters       22"));
  CHECK_THAT(*report, ContainsSubstring("6 texts, 0 images: finite, and the same alone and in a batch"));
}

TEST_CASE("A folder that cannot be served is an error that names what is wrong") {
  CHECK(CheckModelFolder("/nowhere").status().message() == "/nowhere is not a folder");
  const FamilyCopy broken("bert");  // has no tokenizer
  CHECK_THAT(std::string(CheckModelFolder(broken.path()).status().message()), ContainsSubstring(broken.path()));
}

}  // namespace
}  // namespace tributary
