#include "engine/libtorch/encode/conse_labels.h"

#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/libtorch/weights/content_hash.h"

namespace tributary {
namespace {

constexpr std::string_view kNamePlace = "{name}";

// Start of a cache file, in the machine's byte order; the vectors follow. The cache is local to a machine.
struct CacheHeader {
  char magic[8] = {'T', 'R', 'I', 'B', 'L', 'B', 'L', '1'};
  uint64_t classes = 0;
  uint64_t dimension = 0;
  uint64_t payload_hash = 0;
};

uint64_t HashOf(const std::vector<float>& values) {
  ContentHash hash;
  hash.Add({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  return hash.value();
}

// nullopt: no such file, or not exactly what was written there.
std::optional<LabelVectors> ReadCache(const std::string& path, size_t classes) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes < sizeof(CacheHeader)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  CacheHeader header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return std::nullopt;
  if (std::memcmp(header.magic, CacheHeader().magic, sizeof(header.magic)) != 0) return std::nullopt;
  const uintmax_t floats = (bytes - sizeof(CacheHeader)) / sizeof(float);
  if (header.classes != classes || header.dimension == 0 || header.dimension > floats ||
      bytes != sizeof(CacheHeader) + classes * header.dimension * sizeof(float)) {
    return std::nullopt;
  }
  LabelVectors labels;
  labels.classes = classes;
  labels.dimension = header.dimension;
  labels.values.resize(classes * header.dimension);
  if (!file.read(reinterpret_cast<char*>(labels.values.data()),
                 static_cast<std::streamsize>(labels.values.size() * sizeof(float))) ||
      HashOf(labels.values) != header.payload_hash) {
    return std::nullopt;
  }
  return labels;
}

// Under a temporary name and then renamed: another process sees the whole file or none.
void WriteCache(const std::string& path, const LabelVectors& labels) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string temporary = absl::StrCat(path, ".", getpid());
  {
    CacheHeader header;
    header.classes = labels.classes;
    header.dimension = labels.dimension;
    header.payload_hash = HashOf(labels.values);
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof(header));
    file.write(reinterpret_cast<const char*>(labels.values.data()),
               static_cast<std::streamsize>(labels.values.size() * sizeof(float)));
    file.close();
    if (file) std::filesystem::rename(temporary, path, error);
    if (file && !error) return;
  }
  std::filesystem::remove(temporary, error);
}

absl::StatusOr<LabelVectors> Normalised(const std::vector<std::vector<float>>& rows, size_t classes) {
  if (rows.size() != classes || classes == 0) {
    return absl::InternalError(absl::StrCat(classes, " label sentences gave ", rows.size(), " vectors"));
  }
  LabelVectors labels;
  labels.classes = classes;
  labels.dimension = rows[0].size();
  for (size_t i = 0; i < classes; ++i) {
    double squares = 0;
    for (const float value : rows[i]) squares += double{value} * value;
    if (rows[i].size() != labels.dimension || !std::isfinite(squares) || squares <= 0) {
      return absl::InternalError(absl::StrCat("the vector of label sentence ", i, " cannot be used: ", rows[i].size(),
                                              " dimensions, squared length ", squares));
    }
    const double scale = 1 / std::sqrt(squares);
    for (const float value : rows[i]) labels.values.push_back(static_cast<float>(value * scale));
  }
  return labels;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadLabelSentences(const std::string& path,
                                                            const std::string& label_template) {
  const size_t place = label_template.find(kNamePlace);
  if (place == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("label_template must contain {name}, is '", label_template, "'"));
  }
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read the labels file ", path));
  std::vector<std::string> sentences;
  for (std::string name; std::getline(file, name);) {
    if (name.ends_with('\r')) name.pop_back();
    if (name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", sentences.size() + 1, ": a class name is empty"));
    }
    sentences.push_back(std::string(label_template).replace(place, kNamePlace.size(), name));
  }
  if (sentences.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " holds no class names"));
  return sentences;
}

std::string LabelCachePath(const std::vector<std::string>& sentences, const std::string& encoder_key,
                           const std::string& cache_folder) {
  ContentHash hash;
  hash.Add(encoder_key);
  for (const std::string& sentence : sentences) hash.Add(sentence);
  return absl::StrCat(cache_folder, "/label-vectors-", hash.Hex(), ".bin");
}

absl::StatusOr<LabelVectors> LoadOrComputeLabelVectors(const std::vector<std::string>& sentences,
                                                       const std::string& encoder_key, const std::string& cache_folder,
                                                       const EmbedSentences& embed) {
  const std::string path = cache_folder.empty() ? "" : LabelCachePath(sentences, encoder_key, cache_folder);
  if (!path.empty()) {
    if (auto cached = ReadCache(path, sentences.size())) return *std::move(cached);
  }
  const auto rows = embed(sentences);
  if (!rows.ok()) return rows.status();
  auto labels = Normalised(*rows, sentences.size());
  if (labels.ok() && !path.empty()) WriteCache(path, *labels);
  return labels;
}

}  // namespace tributary
