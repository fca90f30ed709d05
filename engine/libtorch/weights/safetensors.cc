#include "engine/libtorch/weights/safetensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/files/json_text.h"
#include "engine/libtorch/weights/content_hash.h"

namespace tributary {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

at::ScalarType ScalarTypeOf(SafetensorsType type) {
  switch (type) {
    case SafetensorsType::kF64:
      return at::kDouble;
    case SafetensorsType::kF32:
      return at::kFloat;
    case SafetensorsType::kF16:
      return at::kHalf;
    case SafetensorsType::kBf16:
      return at::kBFloat16;
    case SafetensorsType::kI64:
      return at::kLong;
    case SafetensorsType::kI32:
      return at::kInt;
    case SafetensorsType::kI16:
      return at::kShort;
    case SafetensorsType::kI8:
      return at::kChar;
    case SafetensorsType::kU8:
      return at::kByte;
    case SafetensorsType::kBool:
      return at::kBool;
  }
  return at::kByte;
}

absl::Status WithFile(const std::string& path, const absl::Status& status) {
  return {status.code(), absl::StrCat(path, ": ", status.message())};
}

// The shard names in an index file. They are names of files beside it, never paths: an index cannot reach elsewhere.
absl::StatusOr<std::set<std::string>> ShardNames(const std::string& index_path) {
  const auto read = ReadJsonFile(index_path);
  if (!read.ok()) return read.status();
  const nlohmann::json& root = *read;
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(index_path, ": no weight_map object"));
  }
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : root["weight_map"].items()) {
    if (!shard.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(index_path, ": the file of tensor '", tensor, "' is not a string"));
    }
    const auto& name = shard.get_ref<const std::string&>();
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
      return absl::InvalidArgumentError(absl::StrCat(index_path, ": '", name, "' is not a file name"));
    }
    shards.insert(name);
  }
  if (shards.empty()) return absl::InvalidArgumentError(absl::StrCat(index_path, ": weight_map names no file"));
  return shards;
}

}  // namespace

absl::StatusOr<SafetensorsWeights> SafetensorsWeights::OpenFile(const std::string& path) {
  SafetensorsWeights weights;
  if (auto status = weights.AddFile(path); !status.ok()) return status;
  return weights;
}

absl::StatusOr<SafetensorsWeights> SafetensorsWeights::OpenFolder(const std::string& folder) {
  const std::string single = absl::StrCat(folder, "/", kSingleFile);
  const std::string index = absl::StrCat(folder, "/", kIndexFile);
  std::error_code ignored;
  if (std::filesystem::exists(single, ignored)) return OpenFile(single);
  if (!std::filesystem::exists(index, ignored)) {
    return absl::NotFoundError(absl::StrCat(folder, " holds neither ", kSingleFile, " nor ", kIndexFile));
  }
  auto shards = ShardNames(index);
  if (!shards.ok()) return shards.status();
  SafetensorsWeights weights;
  for (const std::string& shard : *shards) {
    if (auto status = weights.AddFile(absl::StrCat(folder, "/", shard)); !status.ok()) return status;
  }
  return weights;
}

absl::Status SafetensorsWeights::AddFile(const std::string& path) {
  auto file = MappedFile::Open(path);
  if (!file.ok()) return file.status();
  auto header = ParseSafetensorsHeader((*file)->bytes());
  if (!header.ok()) return WithFile(path, header.status());
  files_.push_back(*std::move(file));
  for (auto& [name, entry] : *header) {
    if (!tensors_.try_emplace(name, Place{files_.size() - 1, std::move(entry)}).second) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", name, "' is in another shard as well"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> SafetensorsWeights::Names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, place] : tensors_) names.push_back(name);
  return names;
}

std::string SafetensorsWeights::Files() const {
  return absl::StrCat(files_.front()->path(), files_.size() > 1 ? " and its sister files" : "");
}

absl::StatusOr<std::string> SafetensorsWeights::PrefixOf(std::string_view name) const {
  std::optional<std::string> prefix;
  for (const auto& [full, place] : tensors_) {
    if (!full.ends_with(name)) continue;
    std::string before = full.substr(0, full.size() - name.size());
    if (!before.empty() && before.back() != '.') continue;
    if (prefix) {
      return absl::InvalidArgumentError(absl::StrCat(Files(), ": both '", *prefix, std::string(name), "' and '", full,
                                                     "': which model is meant is not clear"));
    }
    prefix = std::move(before);
  }
  if (prefix) return *std::move(prefix);
  return absl::NotFoundError(absl::StrCat(Files(), ": no tensor '", std::string(name), "', with or without a prefix"));
}

absl::StatusOr<at::Tensor> SafetensorsWeights::Get(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    return absl::NotFoundError(absl::StrCat(Files(), ": no tensor '", std::string(name), "'"));
  }
  const auto& [index, entry] = found->second;
  const std::shared_ptr<const MappedFile>& file = files_[index];
  const auto options = at::TensorOptions().dtype(ScalarTypeOf(entry.type));
  const char* data = file->bytes().data() + entry.offset;
  if (reinterpret_cast<uintptr_t>(data) % ElementBytes(entry.type) != 0) {
    // Allowed by the format, though writers align: such a tensor is copied.
    at::Tensor copy = at::empty(entry.shape, options);
    std::memcpy(copy.data_ptr(), data, entry.bytes);
    return copy;
  }
  return at::from_blob(const_cast<char*>(data), entry.shape, [file](void*) {}, options);
}

absl::StatusOr<at::Tensor> SafetensorsWeights::Get(std::string_view name, const std::vector<int64_t>& shape) const {
  auto tensor = Get(name);
  if (tensor.ok() && tensor->sizes() != at::IntArrayRef(shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat(files_[tensors_.find(name)->second.file]->path(), ": tensor '", std::string(name), "' has shape [",
                     absl::StrJoin(tensor->sizes(), ", "), "], expected [", absl::StrJoin(shape, ", "), "]"));
  }
  return tensor;
}

absl::StatusOr<at::Tensor> SafetensorsWeights::GetFloats(std::string_view name,
                                                         const std::vector<int64_t>& shape) const {
  auto tensor = Get(name, shape);
  if (tensor.ok() && !tensor->is_floating_point()) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", std::string(name), "' is not of a floating point type"));
  }
  return tensor;
}

std::string SafetensorsWeights::Revision() const {
  ContentHash hash;
  for (const auto& file : files_) hash.Add(file->bytes());
  return hash.Hex();
}

}  // namespace tributary
