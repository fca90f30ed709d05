#include "engine/libtorch/weights/safetensors.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>

#include <memory>
#include <optional>
#include <string>

#include "engine/libtorch/weights/content_hash.h"
#include "tests/engine/libtorch/safetensors_writer.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {
namespace {

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("Tensors come out of the file as they were written, and outlive the reader") {
  const TemporaryFolder folder;
  folder.Write("model.safetensors", SafetensorsOf({{"w", {{2, 3}, {1, 2, 3, 4, 5, 6}}}}));
  at::Tensor tensor;
  {
    auto weights = SafetensorsWeights::OpenFolder(folder.path());
    REQUIRE(weights.ok());
    CHECK(weights->Names() == std::vector<std::string>{"w"});
    auto read = weights->Get("w", {2, 3});
    REQUIRE(read.ok());
    tensor = *read;
  }
  CHECK(at::equal(tensor, at::tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).view({2, 3})));
}

TEST_CASE("A tensor that is not aligned in the file is read all the same") {
  const TemporaryFolder folder;
  const float value = 42.5f;
  const std::string header =
      R"({"pad":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  folder.Write("model.safetensors",
               SafetensorsBytes(header, "x" + std::string(reinterpret_cast<const char*>(&value), sizeof value)));
  auto weights = SafetensorsWeights::OpenFolder(folder.path());
  REQUIRE(weights.ok());
  CHECK(weights->Get("w")->item<float>() == value);
}

TEST_CASE("Shards named by an index are one set of weights") {
  const TemporaryFolder folder;
  folder.Write("one.safetensors", SafetensorsOf({{"a", {{1}, {1}}}}));
  folder.Write("two.safetensors", SafetensorsOf({{"b", {{1}, {2}}}}));
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  auto weights = SafetensorsWeights::OpenFolder(folder.path());
  REQUIRE(weights.ok());
  CHECK(weights->Get("a")->item<float>() == 1);
  CHECK(weights->Get("b")->item<float>() == 2);
  CHECK(weights->Has("a"));
  CHECK_FALSE(weights->Has("c"));
}

TEST_CASE("An index that reaches out of its folder, repeats a tensor or is no index is refused") {
  const TemporaryFolder folder;
  folder.Write("one.safetensors", SafetensorsOf({{"a", {{1}, {1}}}}));
  folder.Write("copy.safetensors", SafetensorsOf({{"a", {{1}, {1}}}}));
  const std::pair<const char*, const char*> cases[] = {
      {R"({"weight_map":{"a":"../one.safetensors"}})", "is not a file name"},
      {R"({"weight_map":{"a":"/etc/passwd"}})", "is not a file name"},
      {R"({"weight_map":{"a":""}})", "is not a file name"},
      {R"({"weight_map":{"a":7}})", "is not a string"},
      {R"({"weight_map":[]})", "no weight_map"},
      {R"({)", "is not valid JSON"},
      {R"([])", "no weight_map"},
      {R"({"weight_map":{"a":"one.safetensors","b":"copy.safetensors"}})", "is in another shard as well"},
      {R"({"weight_map":{"a":"gone.safetensors"}})", "gone.safetensors"},
  };
  for (const auto& [index, error] : cases) {
    CAPTURE(index);
    folder.Write("model.safetensors.index.json", index);
    auto weights = SafetensorsWeights::OpenFolder(folder.path());
    REQUIRE_FALSE(weights.ok());
    CHECK_THAT(Message(weights.status()), ContainsSubstring(error));
  }
}

TEST_CASE("Errors name the file and the tensor") {
  const TemporaryFolder folder;
  CHECK_THAT(Message(SafetensorsWeights::OpenFolder(folder.path()).status()), ContainsSubstring(folder.path()));
  CHECK(SafetensorsWeights::OpenFile(folder.File("none.safetensors")).status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(Message(SafetensorsWeights::OpenFile(folder.path()).status()), ContainsSubstring("not a regular file"));

  folder.Write("model.safetensors", SafetensorsOf({{"w", {{2, 1}, {1, 2}}}}));
  auto weights = SafetensorsWeights::OpenFolder(folder.path());
  REQUIRE(weights.ok());
  CHECK_THAT(Message(weights->Get("v").status()), ContainsSubstring("model.safetensors: no tensor 'v'"));
  CHECK(weights->Get("v").status().code() == absl::StatusCode::kNotFound);
  CHECK_THAT(Message(weights->Get("w", {1, 2}).status()),
             ContainsSubstring("model.safetensors: tensor 'w' has shape [2, 1], expected [1, 2]"));

  folder.Write("short.safetensors", SafetensorsOf({{"w", {{2, 1}, {1, 2}}}}).substr(0, 70));
  CHECK_THAT(Message(SafetensorsWeights::OpenFile(folder.File("short.safetensors")).status()),
             ContainsSubstring("short.safetensors: tensor 'w': data_offsets [0, 8] lie outside"));
}

TEST_CASE("The revision is stable, and changes with any byte of the weights") {
  const TemporaryFolder folder;
  const auto revision = [&](float value) {
    folder.Write("model.safetensors", SafetensorsOf({{"w", {{2}, {1, value}}}}));
    return SafetensorsWeights::OpenFolder(folder.path())->Revision();
  };
  const std::string first = revision(2);
  CHECK(first.size() == 16);
  CHECK(revision(2) == first);
  CHECK(revision(2.0000002f) != first);

  // Fixed for good: cached label vectors on disk are found by it.
  ContentHash hash;
  hash.Add("the same on every machine, and in every version");
  CHECK(hash.Hex() == "0cac5de7add9dbbb");
}

TEST_CASE("The content hash tells pieces, their order and their lengths apart") {
  const auto hash = [](std::initializer_list<std::string_view> pieces) {
    ContentHash h;
    for (const auto piece : pieces) h.Add(piece);
    return h.value();
  };
  const std::string zeros(200, '\0');
  CHECK(hash({"a", "b"}) != hash({"b", "a"}));
  CHECK(hash({"ab"}) != hash({"a", "b"}));
  for (size_t length = 1; length < zeros.size(); ++length) {
    CAPTURE(length);
    CHECK(hash({std::string_view(zeros).substr(0, length)}) != hash({std::string_view(zeros).substr(0, length - 1)}));
  }
  std::string text(150, 'x');
  const uint64_t before = hash({text});
  for (char& byte : text) {
    byte ^= 1;
    CHECK(hash({text}) != before);
    byte ^= 1;
  }
}

}  // namespace
}  // namespace tributary
