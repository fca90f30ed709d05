// Comparing a model with reference vectors while it loads: what passes, what stops the load, what is no reference.
#include "engine/libtorch/self_check.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/libtorch/device/torch_thread.h"
#include "engine/libtorch/model_loader.h"
#include "tests/engine/libtorch/text_goldens.h"
#include "tests/support/catch.h"
#include "tests/support/fake_model.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

ServedModel FakeModel() { return MakeFakeModel({}, std::make_shared<FakeControl>()); }

ModelPlacement OnCpu() {
  const std::vector<PlacedDevice> cpu(1);
  return {cpu, cpu, cpu};
}

nlohmann::json TextEntry(const std::string& text) {
  return {{"text", text}, {"vector", FakeTextVector(text, FakeModelOptions().info.dimensions)}};
}

// The reference file of a fake model, with what a test needs.
class Reference {
 public:
  Reference() {
    root_ = {{"format", 1}, {"texts", {TextEntry("one"), TextEntry("two words")}}};
    folder_.Write("picture", "picture bytes");
    root_["images"] = {{{"file", "picture"}, {"vector", FakeImageVector("picture bytes", FakeModelOptions().info)}}};
  }

  nlohmann::json& root() { return root_; }
  SelfCheckOptions Options() const {
    folder_.Write("reference.json", root_.dump());
    return {.file = folder_.File("reference.json")};
  }
  std::string Message() const { return MessageOf(Options()); }
  static std::string MessageOf(const SelfCheckOptions& options) {
    ServedModel model = FakeModel();
    return std::string(CheckAgainstReference(options, OnCpu(), model).message());
  }

 private:
  TemporaryFolder folder_;
  nlohmann::json root_;
};

TEST_CASE("A model that gives its reference vectors passes, and says how near it came") {
  const Reference reference;
  ServedModel model = FakeModel();

  const absl::Status status = CheckAgainstReference(reference.Options(), OnCpu(), model);

  CAPTURE(std::string(status.message()));
  REQUIRE(status.ok());
  REQUIRE(model.info.self_check.has_value());
  CHECK(model.info.self_check->passed);
  CHECK(model.info.self_check->lowest_cosine == Approx(1).margin(1e-6));
}

TEST_CASE("Without a reference nothing is checked") {
  ServedModel model = FakeModel();
  CHECK(CheckAgainstReference({}, OnCpu(), model).ok());
  CHECK_FALSE(model.info.self_check.has_value());
}

TEST_CASE("A vector that differs stops the load, naming entry, cosine and limit; where it is allowed it is only said") {
  Reference reference;
  auto& vector = reference.root()["texts"][1]["vector"];
  vector[0] = vector[0].get<float>() + 1000.0f;
  const SelfCheckOptions options = reference.Options();

  ServedModel model = FakeModel();
  const absl::Status refused = CheckAgainstReference(options, OnCpu(), model);
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(refused.message()), ContainsSubstring("texts[1]") && ContainsSubstring("at least 0.9999"));

  SelfCheckOptions lenient = options;
  lenient.allow_mismatch = true;
  ServedModel served = FakeModel();
  REQUIRE(CheckAgainstReference(lenient, OnCpu(), served).ok());
  CHECK_FALSE(served.info.self_check->passed);
  CHECK(served.info.self_check->lowest_cosine < 0.9999);

  SelfCheckOptions low = options;
  low.min_cosine = 0.0001;
  const double cosine = served.info.self_check->lowest_cosine;
  CHECK(CheckAgainstReference(low, OnCpu(), model).ok() == (cosine >= 0.0001));
}

TEST_CASE("The limit follows the type the encoder runs in") {
  Reference reference;
  // A cosine of about 0.9995: one number more, at right angles to the rest as near as it comes.
  std::vector<float> vector = FakeTextVector("one", FakeModelOptions().info.dimensions);
  double norm = 0;
  for (const float value : vector) norm += double{value} * value;
  vector[0] += static_cast<float>(0.03 * std::sqrt(norm));
  reference.root()["texts"][0]["vector"] = vector;
  const SelfCheckOptions options = reference.Options();

  ServedModel fp32 = FakeModel();
  CHECK_FALSE(CheckAgainstReference(options, OnCpu(), fp32).ok());
  ServedModel bf16 = FakeModel();
  bf16.info.compute_type = "bf16";
  CHECK(CheckAgainstReference(options, OnCpu(), bf16).ok());
}

TEST_CASE("A vector that is not finite fails whatever the limit") {
  Reference reference;
  reference.root()["texts"].push_back({{"text", std::string(fake::kNotANumber)},
                                       {"vector", std::vector<float>(FakeModelOptions().info.dimensions, 1.0f)}});
  SelfCheckOptions options = reference.Options();
  options.allow_mismatch = true;
  ServedModel model = FakeModel();
  REQUIRE(CheckAgainstReference(options, OnCpu(), model).ok());
  CHECK_FALSE(model.info.self_check->passed);
  CHECK(model.info.self_check->lowest_cosine == -1);
}

TEST_CASE("What is no reference is refused by file and entry") {
  Reference reference;
  CHECK_THAT(Reference::MessageOf({.file = "/nowhere/reference.json"}), ContainsSubstring("/nowhere/reference.json"));

  SECTION("another format") {
    reference.root()["format"] = 2;
    CHECK_THAT(reference.Message(), ContainsSubstring("\"format\": 1"));
  }
  SECTION("a key that is not known") {
    reference.root()["text"] = nlohmann::json::array();
    CHECK_THAT(reference.Message(), ContainsSubstring("unknown key 'text'"));
  }
  SECTION("nothing to compare with") {
    reference.root() = {{"format", 1}};
    CHECK_THAT(reference.Message(), ContainsSubstring("neither texts nor images"));
  }
  SECTION("an entry without a vector") {
    reference.root()["texts"][0].erase("vector");
    CHECK_THAT(reference.Message(), ContainsSubstring("texts[0]"));
  }
  SECTION("a vector of something else than numbers") {
    reference.root()["texts"][1]["vector"][0] = "1";
    CHECK_THAT(reference.Message(), ContainsSubstring("texts[1].vector"));
  }
  SECTION("a vector of another length") {
    reference.root()["texts"][0]["vector"].push_back(1);
    CHECK_THAT(reference.Message(), ContainsSubstring("9 numbers, the model's have 8"));
  }
  SECTION("a picture that is not there") {
    reference.root()["images"][0]["file"] = "missing.png";
    CHECK_THAT(reference.Message(), ContainsSubstring("missing.png"));
  }
  SECTION("an input the model refuses") {
    reference.root()["texts"][0]["text"] = std::string(fake::kRefused);
    CHECK_THAT(reference.Message(), ContainsSubstring("texts[0]"));
  }
  SECTION("images for a model of texts") {
    ServedModel model = FakeModel();
    model.replicas[static_cast<size_t>(Modality::kImage)].clear();
    const absl::Status status = CheckAgainstReference(reference.Options(), OnCpu(), model);
    CHECK_THAT(std::string(status.message()), ContainsSubstring("which the model does not take"));
  }
}

TEST_CASE("MiniLM passes a check against sentence-transformers while it loads, and a changed vector stops the load") {
  InitTorchThread();
  nlohmann::json texts = nlohmann::json::array();
  for (const TextGolden& golden : LoadTextGoldens()) {
    if (texts.size() < 5) texts.push_back({{"text", golden.text}, {"vector", golden.vector}});
  }
  const TemporaryFolder folder;
  ModelOptions model;
  model.name = "minilm";
  model.text.folder = TRIBUTARY_DEPS_DIR "/models/all-minilm-l6-v2";
  model.text.dtype = "fp32";
  model.self_check.file = folder.File("reference.json");
  folder.Write("reference.json", nlohmann::json{{"format", 1}, {"texts", texts}}.dump());

  const auto served = LoadModel({}, model, OnCpu());

  CAPTURE(std::string(served.status().message()));
  REQUIRE(served.ok());
  REQUIRE(served->info.self_check.has_value());
  CHECK(served->info.self_check->lowest_cosine >= 0.9999);

  texts[4]["vector"] = texts[3]["vector"];
  folder.Write("reference.json", nlohmann::json{{"format", 1}, {"texts", texts}}.dump());
  const auto refused = LoadModel({}, model, OnCpu());
  CHECK(refused.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(refused.status().message()),
             ContainsSubstring("model 'minilm'") && ContainsSubstring("texts[4]"));
}

}  // namespace
}  // namespace tributary
