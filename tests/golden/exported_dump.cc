// Vectors of an exported model through the whole engine, for compare_exported.py.
//   tributary-exported-dump text|image FOLDER < inputs > vectors
// Inputs, little-endian: of a text u32 count and its int32 token ids; of an image u32 side and its u8 [side, side, 3].
// Vectors: u32 dimensions and float32 each, not normalised. Exit code 1 with the reason where one fails.
#include <cstdint>
#include <cstring>
#include <future>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/libtorch/engine_factory.h"

namespace tributary {
namespace {

int Fail(const absl::Status& status) {
  std::cerr << status.message() << "\n";
  return 1;
}

uint32_t ReadCount(std::string_view bytes, size_t at) {
  uint32_t count = 0;
  std::memcpy(&count, bytes.data() + at, sizeof(count));
  return count;
}

// `ids` holds the texts' token ids, which the request's inputs refer to.
EmbedRequest ReadInputs(std::string_view bytes, bool text, std::vector<std::vector<int32_t>>* ids) {
  EmbedRequest request;
  request.kind = text ? RequestKind::kText : RequestKind::kImage;
  request.options.normalise = false;
  size_t at = 0;
  while (at + sizeof(uint32_t) <= bytes.size()) {
    const uint32_t count = ReadCount(bytes, at);
    at += sizeof(count);
    const size_t length = text ? count * sizeof(int32_t) : size_t{count} * count * 3;
    EmbedInput input;
    if (text) {
      ids->emplace_back(count);
      std::memcpy(ids->back().data(), bytes.data() + at, length);
      input.text = TextInput{.text = {}, .token_ids = ids->back()};
    } else {
      input.image =
          ImageInput{.encoded = {},
                     .raw_rgb = ImageInput::RawRgb{.bytes = bytes.substr(at, length), .width = count, .height = count}};
    }
    request.inputs.push_back(std::move(input));
    at += length;
  }
  return request;
}

int Run(const std::string& kind, const std::string& folder) {
  EngineOptions options;
  options.lanes.device = "cpu";
  options.lanes.count = 2;
  ModelOptions model;
  model.name = "exported";
  model.fusion.kind = "";
  (kind == "text" ? model.text.folder : model.image.folder) = folder;
  options.models.push_back(model);
  SteadyClock clock;
  Observer observer;
  auto engine = CreateLibtorchEngine(options, &clock, &observer);
  if (!engine.ok()) return Fail(engine.status());

  const std::string bytes(std::istreambuf_iterator<char>(std::cin), {});
  std::vector<std::vector<int32_t>> ids;
  std::promise<EmbedResponse> done;
  auto status = (*engine)->Submit(ReadInputs(bytes, kind == "text", &ids),
                                  [&](EmbedResponse response) { done.set_value(std::move(response)); });
  if (!status.ok()) return Fail(status);
  for (const EmbedResult& result : done.get_future().get().results) {
    if (!result.status.ok()) return Fail(result.status);
    const std::vector<float>& vector = kind == "text" ? result.text : result.image;
    const auto dimensions = static_cast<uint32_t>(vector.size());
    std::cout.write(reinterpret_cast<const char*>(&dimensions), sizeof(dimensions));
    std::cout.write(reinterpret_cast<const char*>(vector.data()),
                    static_cast<std::streamsize>(vector.size() * sizeof(float)));
  }
  return 0;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tributary-exported-dump text|image FOLDER\n";
    return 2;
  }
  return tributary::Run(argv[1], argv[2]);
}
