#include "engine/libtorch/weights/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/files/json_text.h"

namespace tributary {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
// The largest public models have headers of a few MiB; a parsed JSON value takes some ten times its text.
constexpr uint64_t kMaxHeaderBytes = uint64_t{32} << 20;

std::optional<SafetensorsType> TypeOf(std::string_view name) {
  static constexpr std::pair<std::string_view, SafetensorsType> kTypes[] = {
      {"F64", SafetensorsType::kF64},   {"F32", SafetensorsType::kF32}, {"F16", SafetensorsType::kF16},
      {"BF16", SafetensorsType::kBf16}, {"I64", SafetensorsType::kI64}, {"I32", SafetensorsType::kI32},
      {"I16", SafetensorsType::kI16},   {"I8", SafetensorsType::kI8},   {"U8", SafetensorsType::kU8},
      {"BOOL", SafetensorsType::kBool}};
  for (const auto& [known, type] : kTypes) {
    if (known == name) return type;
  }
  return std::nullopt;
}

absl::Status Wrong(std::string_view tensor, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", std::string(tensor), "': ", std::string(what)));
}

absl::StatusOr<SafetensorsEntry> ParseEntry(const std::string& name, const json& value, size_t data_start,
                                            size_t data_bytes) {
  if (!value.is_object()) return Wrong(name, "its description is not an object");
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || !dtype->is_string()) return Wrong(name, "dtype is missing or not a string");
  if (shape == value.end() || !shape->is_array()) return Wrong(name, "shape is missing or not an array");
  if (offsets == value.end() || !offsets->is_array() || offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    return Wrong(name, "data_offsets is missing or not two non-negative integers");
  }

  SafetensorsEntry entry;
  const auto& dtype_name = dtype->get_ref<const std::string&>();
  const auto type = TypeOf(dtype_name);
  if (!type) return Wrong(name, absl::StrCat("dtype ", dtype_name, " is not supported"));
  entry.type = *type;

  uint64_t bytes = ElementBytes(*type);
  // Whoever walks the tensor multiplies its extents, also beside one of 0, which makes it empty.
  int64_t stride = static_cast<int64_t>(bytes);
  for (const json& extent : *shape) {
    if (!extent.is_number_unsigned()) return Wrong(name, "shape holds something else than non-negative integers");
    const auto size = extent.get<uint64_t>();
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ||
        __builtin_mul_overflow(stride, std::max<int64_t>(static_cast<int64_t>(size), 1), &stride)) {
      return Wrong(name, "shape is too large");
    }
    entry.shape.push_back(static_cast<int64_t>(size));
    bytes *= size;
  }

  const auto begin = (*offsets)[0].get<uint64_t>();
  const auto end = (*offsets)[1].get<uint64_t>();
  if (begin > end || end > data_bytes) {
    return Wrong(name, absl::StrCat("data_offsets [", begin, ", ", end, "] lie outside the ", data_bytes,
                                    " data bytes of the file (cut short?)"));
  }
  if (end - begin != bytes) {
    return Wrong(name, absl::StrCat("shape and dtype need ", bytes, " bytes, data_offsets give ", end - begin));
  }
  entry.offset = data_start + begin;
  entry.bytes = bytes;
  return entry;
}

// The tensors lie side by side and fill the file, as the format wants it: bytes that two share, or that none has, are
// a file that was put together wrongly.
absl::Status CheckCover(const SafetensorsHeader& header, size_t data_start, size_t file_bytes) {
  std::vector<std::pair<const SafetensorsEntry*, std::string_view>> by_offset;
  by_offset.reserve(header.size());
  for (const auto& [name, entry] : header) by_offset.emplace_back(&entry, name);
  std::sort(by_offset.begin(), by_offset.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first->offset, a.first->bytes) < std::pair(b.first->offset, b.first->bytes);
  });
  size_t end = data_start;
  for (const auto& [entry, name] : by_offset) {
    if (entry->offset != end) {
      return Wrong(std::string(name), absl::StrCat("begins at byte ", entry->offset - data_start,
                                                   " of the data, the tensor before it ends at ", end - data_start));
    }
    end += entry->bytes;
  }
  if (end == file_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the tensors end at byte ", end, ", the file has ", file_bytes, ": not what was written"));
}

}  // namespace

size_t ElementBytes(SafetensorsType type) {
  switch (type) {
    case SafetensorsType::kF64:
    case SafetensorsType::kI64:
      return 8;
    case SafetensorsType::kF32:
    case SafetensorsType::kI32:
      return 4;
    case SafetensorsType::kF16:
    case SafetensorsType::kBf16:
    case SafetensorsType::kI16:
      return 2;
    case SafetensorsType::kI8:
    case SafetensorsType::kU8:
    case SafetensorsType::kBool:
      return 1;
  }
  return 1;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view file) {
  if (file.size() < kLengthBytes) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file: only ", file.size(), " bytes"));
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= uint64_t{static_cast<uint8_t>(file[i])} << (8 * i);  // little-endian
  }
  if (header_bytes > kMaxHeaderBytes || header_bytes > file.size() - kLengthBytes) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file, or cut short: header length ", header_bytes,
                                                   " in a file of ", file.size(), " bytes (limit ", kMaxHeaderBytes,
                                                   ")"));
  }

  const std::string_view text = file.substr(kLengthBytes, header_bytes);
  if (!JsonDepthIsBounded(text)) {
    return absl::InvalidArgumentError("not a safetensors file: the header is too deep for one");
  }
  std::set<std::string> names;
  std::optional<std::string> twice;
  const auto note_name = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth == 1 && event == json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  const json root = json::parse(text, note_name, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) {
    return absl::InvalidArgumentError("not a safetensors file: the header is not a JSON object");
  }
  if (twice) return Wrong(*twice, "named twice");

  SafetensorsHeader header;
  const size_t data_start = kLengthBytes + header_bytes;
  for (const auto& [name, value] : root.items()) {
    if (name == "__metadata__") continue;
    auto entry = ParseEntry(name, value, data_start, file.size() - data_start);
    if (!entry.ok()) return entry.status();
    header.emplace(name, *std::move(entry));
  }
  if (auto status = CheckCover(header, data_start, file.size()); !status.ok()) return status;
  return header;
}

}  // namespace tributary
