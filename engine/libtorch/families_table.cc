#include "engine/libtorch/families_table.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/libtorch/encode/image_families.h"
#include "engine/libtorch/encode/text_families.h"

namespace tributary {
namespace {

// Families of one name are one row: they differ in how their config.json is written.
struct Row {
  std::string kind;
  std::string name;
  std::vector<std::string> model_types;
  std::vector<std::string> models;
  std::string verified;
};

template <typename Families>
void AddRows(const std::string& kind, const Families& families, std::vector<Row>* rows) {
  std::map<std::string, size_t> of_name;
  for (const auto& family : families) {
    const auto [found, fresh] = of_name.try_emplace(std::string(family.name), rows->size());
    if (fresh)
      rows->push_back(
          {.kind = kind, .name = std::string(family.name), .model_types = {}, .models = {}, .verified = {}});
    Row& row = (*rows)[found->second];
    row.model_types.push_back(absl::StrCat("`", std::string(family.model_type), "`"));
    row.models.emplace_back(family.models);
    row.verified = std::string(family.verified);
  }
}

}  // namespace

std::string FamiliesTable() {
  std::vector<Row> rows;
  AddRows("text", TextFamilies(), &rows);
  AddRows("image", ImageFamilies(), &rows);
  std::string table = "| | family | model_type | for example | compared with |\n| --- | --- | --- | --- | --- |\n";
  for (const Row& row : rows) {
    absl::StrAppend(&table, "| ", row.kind, " | ", row.name, " | ", absl::StrJoin(row.model_types, ", "), " | ",
                    absl::StrJoin(row.models, "; "), " | ", row.verified, " |\n");
  }
  return table;
}

}  // namespace tributary
