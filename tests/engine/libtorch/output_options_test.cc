#include "engine/libtorch/output_options.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

ModelInfo Model() {
  ModelInfo model;
  model.dimensions = 384;
  return model;
}

std::string ErrorOf(const ModelOptions& options, const TextModelFolder& folder) {
  ModelInfo model = Model();
  const absl::Status status = SetOutputs(options, folder, &model);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_CASE("Shorter sizes are the configuration's, else the folder's without the full size, in order") {
  ModelInfo model = Model();
  TextModelFolder folder;
  REQUIRE(SetOutputs({}, folder, &model).ok());
  CHECK(model.matryoshka_dimensions.empty());
  folder.matryoshka_dimensions = {384, 128, 32, 128};
  REQUIRE(SetOutputs({}, folder, &model).ok());
  CHECK(model.matryoshka_dimensions == std::vector<uint32_t>{32, 128});
  ModelOptions options;
  options.matryoshka_dimensions = {64, 256};
  REQUIRE(SetOutputs(options, folder, &model).ok());
  CHECK(model.matryoshka_dimensions == std::vector<uint32_t>{64, 256});
}

TEST_CASE("A shorter size over the full one is an error with both") {
  ModelOptions options;
  options.matryoshka_dimensions = {64, 512};
  CHECK(ErrorOf(options, {}) == "matryoshka_dimensions has 512, the vectors have 384 numbers");
  TextModelFolder folder;
  folder.matryoshka_dimensions = {768};
  CHECK(ErrorOf({}, folder) == "matryoshka_dimensions has 768, the vectors have 384 numbers");
}

TEST_CASE("The default prompt is the configuration's, else the folder's, and must be one of its prompts") {
  TextModelFolder folder;
  folder.prompts = {{"query", "q: "}, {"document", ""}};
  folder.default_prompt = "document";
  ModelInfo model = Model();
  REQUIRE(SetOutputs({}, folder, &model).ok());
  CHECK(model.default_prompt == "document");
  ModelOptions options;
  options.text.default_prompt = "query";
  REQUIRE(SetOutputs(options, folder, &model).ok());
  CHECK(model.default_prompt == "query");
  options.text.default_prompt = "passage";
  CHECK(ErrorOf(options, folder) == "text.default_prompt is 'passage', the folder's prompts are document, query");
  CHECK(ErrorOf(options, {}) == "text.default_prompt is 'passage', the folder has no prompts");
}

}  // namespace
}  // namespace tributary
