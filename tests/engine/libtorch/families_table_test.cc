// The README's table of families is the program's own.
#include "engine/libtorch/families_table.h"

#include <fstream>
#include <iterator>
#include <string>

#include "engine/libtorch/encode/image_families.h"
#include "engine/libtorch/encode/text_families.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

TEST_CASE("Every model_type of the registries has its place in the table, and what it was compared with") {
  const std::string table = FamiliesTable();
  for (const TextFamily& family : TextFamilies()) {
    CHECK_THAT(table, ContainsSubstring("`" + std::string(family.model_type) + "`"));
    CHECK_FALSE(family.verified.empty());
  }
  for (const ImageFamily& family : ImageFamilies()) {
    CHECK_THAT(table, ContainsSubstring("`" + std::string(family.model_type) + "`"));
    CHECK_FALSE(family.verified.empty());
  }
}

TEST_CASE("The README shows the table as the program prints it (tributary-server --families)") {
  std::ifstream file(TRIBUTARY_SOURCE_DIR "/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  CHECK_THAT(readme, ContainsSubstring(FamiliesTable()));
}

}  // namespace
}  // namespace tributary
