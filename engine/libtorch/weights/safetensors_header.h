// The header of a safetensors file: which tensor lies where. Torch-free, so that it can be fuzzed on its own;
// weights/safetensors.h makes tensors of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

enum class SafetensorsType : uint8_t { kF64, kF32, kF16, kBf16, kI64, kI32, kI16, kI8, kU8, kBool };
size_t ElementBytes(SafetensorsType type);

struct SafetensorsEntry {
  SafetensorsType type = SafetensorsType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  size_t offset = 0;           // of the first element, from the start of the file
  size_t bytes = 0;            // product of shape x element size; offset + bytes <= file size
};

// By tensor name.
using SafetensorsHeader = std::map<std::string, SafetensorsEntry, std::less<>>;

// Parses and checks the header at the start of `file` (the whole file's bytes). The file is untrusted: every length,
// offset, shape and type is checked against it before use.
// Errors: INVALID_ARGUMENT saying what is wrong and naming the tensor; the caller adds the file's name.
// Source: https://github.com/huggingface/safetensors#format
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view file);

}  // namespace tributary
