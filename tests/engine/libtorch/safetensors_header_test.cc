#include "engine/libtorch/weights/safetensors_header.h"

#include <random>
#include <string>

#include "tests/engine/libtorch/safetensors_writer.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

std::string ErrorOf(const std::string& file) {
  auto header = ParseSafetensorsHeader(file);
  REQUIRE_FALSE(header.ok());
  CHECK(header.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(header.status().message());
}

// One tensor "w" with this description over 16 data bytes.
std::string WithEntry(const std::string& entry) {
  return SafetensorsBytes(R"({"w":)" + entry + "}", std::string(16, 'x'));
}

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("A safetensors header gives type, shape and place of every tensor") {
  const std::string text =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},"c":{"dtype":"I64","shape":[0,7],"data_offsets":[10,10]}})";
  const auto header = ParseSafetensorsHeader(SafetensorsBytes(text, std::string(10, 'x')));

  REQUIRE(header.ok());
  REQUIRE(header->size() == 3);
  const SafetensorsEntry& a = header->at("a");
  CHECK(a.type == SafetensorsType::kF32);
  CHECK(a.shape == std::vector<int64_t>{2, 1});
  CHECK(a.offset == 8 + text.size());
  CHECK(a.bytes == 8);
  CHECK(header->at("b").shape.empty());
  CHECK(header->at("b").offset == 8 + text.size() + 8);
  CHECK(header->at("c").bytes == 0);
}

TEST_CASE("A file too short for its header is refused") {
  CHECK(Contains(ErrorOf(""), "only 0 bytes"));
  CHECK(Contains(ErrorOf("1234567"), "only 7 bytes"));
  CHECK(Contains(ErrorOf(SafetensorsBytes("{}", "").substr(0, 9)), "header length 2 in a file of 9 bytes"));
}

TEST_CASE("A header length that overflows or is absurd is refused before anything is read") {
  CHECK(Contains(ErrorOf(std::string(8, '\xff') + "{}"), "header length 18446744073709551615"));
  std::string huge(8 + (size_t{33} << 20), ' ');
  huge.replace(0, 8, std::string("\x00\x00\x10\x02\x00\x00\x00\x00", 8));  // 33 MiB: present, but beyond the limit
  CHECK(Contains(ErrorOf(huge), "limit"));
}

TEST_CASE("A header that is not a JSON object is refused") {
  for (const char* text : {"", "[]", "7", "{", "{\"w\":}", "\xff\xfe", "{} trailing", "null"}) {
    CAPTURE(text);
    CHECK(Contains(ErrorOf(SafetensorsBytes(text, "")), "not a JSON object"));
  }
  CHECK(Contains(ErrorOf(SafetensorsBytes(std::string(1 << 20, '['), "")), "too deep"));
}

TEST_CASE("A wrong tensor description is refused with the tensor's name and what is wrong") {
  struct Case {
    const char* entry;
    const char* error;
  };
  const Case cases[] = {
      {"7", "not an object"},
      {R"({"shape":[4],"data_offsets":[0,16]})", "dtype is missing"},
      {R"({"dtype":32,"shape":[4],"data_offsets":[0,16]})", "dtype is missing or not a string"},
      {R"({"dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16]})", "dtype F8_E4M3 is not supported"},
      {R"({"dtype":"F32","data_offsets":[0,16]})", "shape is missing"},
      {R"({"dtype":"F32","shape":4,"data_offsets":[0,16]})", "shape is missing or not an array"},
      {R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})", "non-negative"},
      {R"({"dtype":"F32","shape":[4.0],"data_offsets":[0,16]})", "non-negative"},
      {R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,16]})", "shape is too large"},
      {R"({"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]})", "shape is too large"},
      {R"({"dtype":"U8","shape":[4294967296,4294967296,1],"data_offsets":[0,0]})", "shape is too large"},
      {R"({"dtype":"F32","shape":[0,4611686018427387904,4611686018427387904],"data_offsets":[0,0]})",
       "shape is too large"},
      {R"({"dtype":"F32","shape":[4]})", "data_offsets is missing"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[0]})", "data_offsets is missing or not two"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[0,-16]})", "data_offsets is missing or not two"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})", "lie outside"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[1,17]})", "lie outside the 16 data bytes"},
      {R"({"dtype":"F32","shape":[4],"data_offsets":[18446744073709551600,18446744073709551615]})", "lie outside"},
      {R"({"dtype":"F32","shape":[3],"data_offsets":[0,16]})", "need 12 bytes, data_offsets give 16"},
  };
  for (const Case& wrong : cases) {
    CAPTURE(wrong.entry);
    const std::string error = ErrorOf(WithEntry(wrong.entry));
    CHECK(Contains(error, "tensor 'w'"));
    CHECK(Contains(error, wrong.error));
  }
}

TEST_CASE("Tensors that share bytes, or leave some out, are refused as the reference does") {
  const auto error = [](const std::string& second_offsets, size_t data_bytes) {
    return ErrorOf(
        SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],)"
                         R"("data_offsets":)" +
                             second_offsets + "}}",
                         std::string(data_bytes, '0')));
  };
  CHECK(Contains(error("[0,4]", 4), "tensor 'b': begins at byte 0 of the data, the tensor before it ends at 4"));
  CHECK(Contains(error("[2,6]", 6), "tensor 'b': begins at byte 2"));
  CHECK(Contains(error("[5,9]", 9), "tensor 'b': begins at byte 5"));
  CHECK(Contains(error("[4,8]", 9), "not what was written"));
  CHECK(ParseSafetensorsHeader(SafetensorsBytes(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                                R"("b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                                "0"))
            .ok());
}

TEST_CASE("A tensor named twice is refused") {
  const std::string entry = R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})";
  CHECK(Contains(ErrorOf(SafetensorsBytes(R"({"w":)" + entry + R"(,"w":)" + entry + "}", std::string(16, 'x'))),
                 "tensor 'w': named twice"));
}

TEST_CASE("Randomly damaged headers are refused or stay within the file") {
  const std::string good =
      SafetensorsOf({{"layer.weight", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"layer.bias", {{2}, {7, 8}}}});
  std::mt19937 random(7);
  size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    const size_t edits = 1 + random() % 3;
    for (size_t i = 0; i < edits; ++i) bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    const auto header = ParseSafetensorsHeader(bad);
    if (!header.ok()) continue;
    ++accepted;
    for (const auto& [name, entry] : *header) {
      REQUIRE(entry.offset <= bad.size());
      REQUIRE(entry.bytes <= bad.size() - entry.offset);
    }
  }
  CHECK(accepted > 0);  // damage to data or names only: the loop above did look at entries
}

}  // namespace
}  // namespace tributary
