#include "benchmarks/client/requests.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/client/generated_image.h"

namespace tributary::bench {
namespace {

// Endless running text: consecutive words of the corpus, from a random place.
class TextSource {
 public:
  static absl::StatusOr<TextSource> Create(const std::string& path) {
    std::ifstream file(path);
    TextSource source;
    for (std::string word; file >> word;) source.words_.push_back(word);
    if (source.words_.empty())
      return absl::NotFoundError(absl::StrCat("corpus '", path, "' has no words or is missing"));
    return source;
  }
  std::string Draw(size_t words, Random& random) const {
    const size_t first = random() % words_.size();
    std::string text;
    for (size_t i = 0; i < words; ++i) absl::StrAppend(&text, i == 0 ? "" : " ", words_[(first + i) % words_.size()]);
    return text;
  }

 private:
  std::vector<std::string> words_;
};

absl::StatusOr<std::vector<std::string>> ReadImages(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".webp") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());  // the same seed gives the same run
  std::vector<std::string> images;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    images.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (images.empty()) {
    return absl::NotFoundError(absl::StrCat("image folder '", folder, "' has no .jpg, .jpeg, .png or .webp files"));
  }
  return images;
}

absl::StatusOr<std::vector<std::string>> MakeImages(const RequestOptions& options) {
  if (!options.image_folder.empty()) return ReadImages(options.image_folder);
  constexpr size_t kImagesPerSize = 16;
  std::vector<std::string> images;
  for (const auto& [width, height] : options.image_sizes) {
    for (size_t i = 0; i < kImagesPerSize; ++i) {
      auto image = GenerateJpeg(width, height, options.seed * kImagesPerSize + i);
      if (!image.ok()) return image.status();
      images.push_back(*std::move(image));
    }
  }
  if (images.empty()) return absl::InvalidArgumentError("the mix has images: a folder or at least one size is needed");
  return images;
}

}  // namespace

absl::StatusOr<Requests> Requests::Create(const RequestOptions& options) {
  Random random(options.seed);
  const bool pairs = options.mix.Has(Kind::kPair);
  TextSource source;
  if (options.mix.Has(Kind::kText) || pairs) {
    auto created = TextSource::Create(options.corpus);
    if (!created.ok()) return created.status();
    source = *std::move(created);
  }
  std::vector<std::string> images;
  if (options.mix.Has(Kind::kImage) || pairs) {
    auto made = MakeImages(options);
    if (!made.ok()) return made.status();
    images = *std::move(made);
  }
  const auto text = [&] { return source.Draw(options.words.Draw(random), random); };
  const auto image = [&]() -> const std::string& { return images[random() % images.size()]; };

  Requests requests;
  for (size_t i = 0; i < options.requests_per_kind; ++i) {
    if (options.mix.Has(Kind::kText)) {
      auto& request = requests.texts_.emplace_back();
      *request.mutable_options() = options.options;
      for (size_t j = 0; j < options.inputs_per_call; ++j) request.add_texts()->set_text(text());
    }
    if (options.mix.Has(Kind::kImage)) {
      auto& request = requests.images_.emplace_back();
      *request.mutable_options() = options.options;
      for (size_t j = 0; j < options.inputs_per_call; ++j) request.add_images()->set_encoded(image());
    }
    if (pairs) {
      auto& request = requests.pairs_.emplace_back();
      *request.mutable_options() = options.options;
      for (size_t j = 0; j < options.inputs_per_call; ++j) {
        auto* pair = request.add_pairs();
        pair->mutable_text()->set_text(text());
        pair->mutable_image()->set_encoded(image());
      }
    }
  }
  return requests;
}

}  // namespace tributary::bench
