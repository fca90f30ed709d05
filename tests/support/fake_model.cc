#include "tests/support/fake_model.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/lane/cpu_device.h"

namespace tributary {
namespace {

uint64_t Mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Numbers in [-1, 1), never all zero.
std::vector<float> VectorOf(uint64_t hash, uint32_t dimensions) {
  std::vector<float> vector(dimensions);
  for (uint32_t i = 0; i < dimensions; ++i) {
    vector[i] = static_cast<float>(Mix(hash + i) >> 40) / static_cast<float>(1 << 23) - 1.0f;
  }
  return vector;
}

template <typename T>
uint64_t HashOf(const T* data, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; ++i) hash = Mix(hash ^ static_cast<uint64_t>(data[i]));
  return hash;
}

// Image bytes -> pixels: the trigger words survive as the first bytes, so that programs can see them.
std::vector<uint8_t> PixelsOf(std::string_view bytes, size_t pixel_bytes) {
  std::vector<uint8_t> rgb(pixel_bytes);
  const uint64_t hash = HashOf(bytes.data(), bytes.size());
  for (size_t i = 0; i < rgb.size(); ++i) rgb[i] = static_cast<uint8_t>(Mix(hash + i));
  if (bytes.rfind("fake:", 0) == 0) {
    std::fill(rgb.begin(), rgb.end(), 0);
    std::memcpy(rgb.data(), bytes.data(), std::min(bytes.size(), rgb.size()));
  }
  return rgb;
}

void ThrowOrRefuse(std::string_view bytes, absl::Status* status) {
  if (bytes == fake::kPreparerThrows) throw std::runtime_error("the preparer was told to throw");
  if (bytes == fake::kRefused) *status = absl::InvalidArgumentError("the preparer was told to refuse");
}

class FakeTextPreparer final : public TextPreparer {
 public:
  explicit FakeTextPreparer(size_t max_tokens) : max_tokens_(max_tokens) {}
  absl::StatusOr<TokenSequence> Prepare(const TextInput& input, Truncation truncation) const override {
    absl::Status status;
    TokenSequence tokens;
    if (input.token_ids) {
      tokens.ids.assign(input.token_ids->begin(), input.token_ids->end());
    } else {
      ThrowOrRefuse(input.text, &status);
      if (!status.ok()) return status;
      for (const char c : input.prompt) tokens.ids.push_back(static_cast<uint8_t>(c));
      for (const char c : input.text) tokens.ids.push_back(static_cast<uint8_t>(c));
      if (tokens.ids.empty()) tokens.ids.push_back(0);
    }
    if (tokens.ids.size() > max_tokens_) {
      if (truncation == Truncation::kNone) {
        return absl::InvalidArgumentError(
            absl::StrCat("the text has ", tokens.ids.size(), " tokens; the limit is ", max_tokens_));
      }
      tokens.truncated = true;
      if (truncation == Truncation::kStart) {
        tokens.ids.erase(tokens.ids.begin(), tokens.ids.end() - static_cast<ptrdiff_t>(max_tokens_));
      }
      tokens.ids.resize(max_tokens_);
    }
    return tokens;
  }

 private:
  const size_t max_tokens_;
};

class FakeImagePreparer final : public ImagePreparer {
 public:
  explicit FakeImagePreparer(const FakeModelOptions& options)
      : width_(options.info.image_width), height_(options.info.image_height), max_pixels_(options.max_image_pixels) {}
  absl::StatusOr<PixelBlock> Prepare(const ImageInput& input) const override {
    std::string_view bytes = input.encoded;
    if (const auto& raw = input.raw_rgb) {
      const uint64_t pixels = uint64_t{raw->width} * raw->height;
      if (pixels == 0 || pixels > max_pixels_ || raw->bytes.size() != 3 * pixels) {
        return absl::InvalidArgumentError(absl::StrCat(raw->width, "x", raw->height, " raw pixels do not fit ",
                                                       raw->bytes.size(), " bytes and the limit of ", max_pixels_));
      }
      bytes = raw->bytes;
    }
    absl::Status status;
    ThrowOrRefuse(bytes, &status);
    if (bytes.empty()) status = absl::InvalidArgumentError("the image is empty");
    if (!status.ok()) return status;
    return PixelBlock{PixelsOf(bytes, size_t{3} * width_ * height_), width_, height_};
  }

 private:
  const uint32_t width_;
  const uint32_t height_;
  const uint64_t max_pixels_;
};

// What all three programs share: the control, the cost, the trigger words.
class FakeProgram : public BatchProgram {
 public:
  FakeProgram(Modality modality, size_t device, const FakeModelOptions& options, std::shared_ptr<FakeControl> control)
      : modality_(modality), device_(device), options_(options), control_(std::move(control)) {
    control_->CountProgram(1);
  }
  ~FakeProgram() override { control_->CountProgram(-1); }
  FakeProgram(const FakeProgram&) = delete;
  FakeProgram& operator=(const FakeProgram&) = delete;
  uint32_t OutputDimension() const override { return options_.info.dimensions; }
  uint64_t MaxBatchUnits() const override { return options_.max_batch_units[static_cast<size_t>(modality_)]; }
  size_t MaxBatchItems() const override { return options_.max_batch_items; }

 protected:
  // Rows go in reverse order of the items, so that row_of_item is exercised.
  StagedBatch StageReversed(const Batch& batch) const {
    StagedBatch staged;
    staged.batch_size = batch.items.size();
    staged.row_of_item.resize(batch.items.size());
    std::iota(staged.row_of_item.rbegin(), staged.row_of_item.rend(), 0u);
    return staged;
  }
  absl::Status BeginRun(const StagedBatch& staged) const {
    absl::Status status = control_->OnRun(modality_, device_, staged.batch_size);
    const auto end = std::chrono::steady_clock::now() + options_.cost_per_batch +
                     options_.cost_per_item * static_cast<int64_t>(staged.batch_size);
    while (std::chrono::steady_clock::now() < end) continue;
    control_->OnRunDone(device_);
    return status;
  }
  static void StageTrigger(std::string_view content) {
    if (content == fake::kStageThrows) throw std::runtime_error("Stage was told to throw");
  }
  // Writes one row, or does what the trigger word says.
  absl::Status WriteRow(size_t row, std::string_view content, const std::vector<float>& vector,
                        std::byte* output) const {
    if (content == fake::kRunThrows) throw std::runtime_error("Run was told to throw");
    if (content == fake::kRunFails) return absl::InternalError("Run was told to fail");
    std::vector<float> values = vector;
    if (options_.bad_vectors && content == fake::kNotANumber) values[0] = std::numeric_limits<float>::quiet_NaN();
    if (options_.bad_vectors && content == fake::kZeroVector) std::fill(values.begin(), values.end(), 0.0f);
    std::memcpy(output + row * values.size() * sizeof(float), values.data(), values.size() * sizeof(float));
    return absl::OkStatus();
  }

  const Modality modality_;
  const size_t device_;
  const FakeModelOptions options_;
  const std::shared_ptr<FakeControl> control_;
};

class FakeTextProgram final : public FakeProgram {
 public:
  using FakeProgram::FakeProgram;
  size_t MaxInputBytes() const override {
    return std::max<size_t>(MaxBatchUnits(), options_.info.max_tokens) * sizeof(int32_t);
  }
  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    StagedBatch staged = StageReversed(batch);
    for (auto item = batch.items.rbegin(); item != batch.items.rend(); ++item) {
      const auto& ids = std::get<TokenSequence>((*item)->prepared).ids;
      StageTrigger(std::string(ids.begin(), ids.end()));
      const size_t bytes = ids.size() * sizeof(int32_t);
      if (staged.input_bytes + bytes > input.size()) return absl::InternalError("the batch is too large for its slot");
      std::memcpy(input.data() + staged.input_bytes, ids.data(), bytes);
      staged.input_bytes += bytes;
      staged.computed_units += ids.size();
      staged.lengths.push_back(static_cast<uint32_t>(ids.size()));
    }
    return staged;
  }
  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    if (absl::Status status = BeginRun(staged); !status.ok()) return status;
    for (size_t row = 0; row < staged.batch_size; ++row) {
      std::vector<int32_t> ids(staged.lengths[row]);
      std::memcpy(ids.data(), input, ids.size() * sizeof(int32_t));
      input += ids.size() * sizeof(int32_t);
      const std::string content(ids.begin(), ids.end());
      absl::Status status = WriteRow(row, content, VectorOf(HashOf(ids.data(), ids.size()), OutputDimension()), output);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

class FakeImageProgram final : public FakeProgram {
 public:
  using FakeProgram::FakeProgram;
  size_t MaxInputBytes() const override { return PixelBytes() * MaxBatchItems(); }
  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    StagedBatch staged = StageReversed(batch);
    for (auto item = batch.items.rbegin(); item != batch.items.rend(); ++item) {
      const auto& rgb = std::get<PixelBlock>((*item)->prepared).rgb;
      StageTrigger(ContentOf(rgb.data(), rgb.size()));
      if (staged.input_bytes + rgb.size() > input.size()) {
        return absl::InternalError("the batch is too large for its slot");
      }
      std::memcpy(input.data() + staged.input_bytes, rgb.data(), rgb.size());
      staged.input_bytes += rgb.size();
      staged.computed_units += rgb.size() / 3;
    }
    return staged;
  }
  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    if (absl::Status status = BeginRun(staged); !status.ok()) return status;
    for (size_t row = 0; row < staged.batch_size; ++row, input += PixelBytes()) {
      const auto* rgb = reinterpret_cast<const uint8_t*>(input);
      absl::Status status =
          WriteRow(row, ContentOf(rgb, PixelBytes()), VectorOf(HashOf(rgb, PixelBytes()), OutputDimension()), output);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static std::string_view ContentOf(const uint8_t* rgb, size_t bytes) {
    const auto* chars = reinterpret_cast<const char*>(rgb);
    return {chars, strnlen(chars, bytes)};
  }
  size_t PixelBytes() const { return size_t{3} * options_.info.image_width * options_.info.image_height; }
};

// Mean of the present parts. input f32 [B, 2, D + 1]: the presence mask, then the part.
class FakeFusionProgram final : public FakeProgram {
 public:
  using FakeProgram::FakeProgram;
  size_t MaxInputBytes() const override { return RowFloats() * sizeof(float) * MaxBatchItems(); }
  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> input) const override {
    StagedBatch staged = StageReversed(batch);
    for (auto item = batch.items.rbegin(); item != batch.items.rend(); ++item) {
      std::vector<float> row;
      for (const auto& part : std::get<FusionParts>((*item)->prepared).parts) {
        row.push_back(part.empty() ? 0.0f : 1.0f);
        row.insert(row.end(), part.begin(), part.end());
        if (part.empty()) row.resize(row.size() + OutputDimension());
      }
      const size_t bytes = row.size() * sizeof(float);
      if (staged.input_bytes + bytes > input.size()) return absl::InternalError("the batch is too large for its slot");
      std::memcpy(input.data() + staged.input_bytes, row.data(), bytes);
      staged.input_bytes += bytes;
      staged.computed_units += 1;
    }
    return staged;
  }
  absl::Status Run(const StagedBatch& staged, const std::byte* input, std::byte* output) const override {
    if (absl::Status status = BeginRun(staged); !status.ok()) return status;
    const uint32_t dimensions = OutputDimension();
    std::vector<float> row(RowFloats());
    for (size_t b = 0; b < staged.batch_size; ++b) {
      std::memcpy(row.data(), input + b * row.size() * sizeof(float), row.size() * sizeof(float));
      std::vector<float> mean(dimensions);
      const float* text = row.data();
      const float* image = text + dimensions + 1;
      for (uint32_t i = 0; i < dimensions; ++i) {
        mean[i] = (text[0] * text[i + 1] + image[0] * image[i + 1]) / (text[0] + image[0]);
      }
      absl::Status status = WriteRow(b, "", mean, output);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  size_t RowFloats() const { return size_t{2} * (OutputDimension() + 1); }
};

}  // namespace

void FakeControl::Hold(std::optional<size_t> device) {
  std::lock_guard lock(mutex_);
  if (device) {
    held_devices_.insert(*device);
  } else {
    held_ = true;
  }
}

void FakeControl::FailDevice(size_t device) {
  std::lock_guard lock(mutex_);
  failing_devices_.insert(device);
}

void FakeControl::Release() {
  {
    std::lock_guard lock(mutex_);
    held_ = false;
    held_devices_.clear();
  }
  changed_.notify_all();
}

void FakeControl::WaitUntilBegun(size_t executions) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return begun_.size() >= executions; });
}

std::vector<size_t> FakeControl::BatchSizes(Modality modality) const {
  std::lock_guard lock(mutex_);
  std::vector<size_t> sizes;
  for (const Execution& execution : begun_) {
    if (execution.modality == modality) sizes.push_back(execution.items);
  }
  return sizes;
}

size_t FakeControl::Begun() const {
  std::lock_guard lock(mutex_);
  return begun_.size();
}

size_t FakeControl::BegunOn(size_t device) const {
  std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(
      begun_.begin(), begun_.end(), [device](const Execution& execution) { return execution.device == device; }));
}

size_t FakeControl::RunningOn(size_t device) const {
  std::lock_guard lock(mutex_);
  const auto found = running_.find(device);
  return found == running_.end() ? 0 : found->second;
}

absl::Status FakeControl::OnRun(Modality modality, size_t device, size_t items) {
  std::unique_lock lock(mutex_);
  begun_.push_back({modality, device, items});
  ++running_[device];
  changed_.notify_all();
  changed_.wait(lock, [this, device] { return !held_ && !held_devices_.contains(device); });
  return failing_devices_.contains(device) ? absl::InternalError("the device was told to fail") : absl::OkStatus();
}

size_t FakeControl::LivingPrograms() const {
  std::lock_guard lock(mutex_);
  return programs_;
}

void FakeControl::WaitUntilLivingPrograms(size_t programs) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return programs_ == programs; });
}

void FakeControl::CountProgram(int change) {
  {
    std::lock_guard lock(mutex_);
    programs_ += static_cast<size_t>(change);
  }
  changed_.notify_all();
}

void FakeControl::OnRunDone(size_t device) {
  std::lock_guard lock(mutex_);
  --running_[device];
}

ServedModel MakeFakeModel(const FakeModelOptions& options, std::shared_ptr<FakeControl> control) {
  ServedModel model;
  model.info = options.info;
  model.prompts = options.prompts;
  const auto place = [&]<typename Program>(Modality modality, std::type_identity<Program>) {
    for (const size_t device : options.placement[static_cast<size_t>(modality)]) {
      model.replicas[static_cast<size_t>(modality)].push_back(
          {device, std::make_unique<Program>(modality, device, options, control)});
      if (options.fallback == FakeModelOptions::Fallback::kNone || modality == Modality::kFusion) continue;
      FakeModelOptions other = options;
      other.bad_vectors = options.fallback == FakeModelOptions::Fallback::kBad;
      model.fallbacks[static_cast<size_t>(modality)].push_back(
          {device, std::make_unique<Program>(modality, device, other, control)});
    }
  };
  if (options.info.text) {
    model.text_preparer = std::make_unique<FakeTextPreparer>(options.info.max_tokens);
    place(Modality::kText, std::type_identity<FakeTextProgram>());
  }
  if (options.info.image) {
    model.image_preparer = std::make_unique<FakeImagePreparer>(options);
    place(Modality::kImage, std::type_identity<FakeImageProgram>());
  }
  if (options.info.pair) {
    place(Modality::kFusion, std::type_identity<FakeFusionProgram>());
  }
  return model;
}

FakeParts MakeFakePipelineParts(const Clock* clock, const FakeModelOptions& options, size_t lane_count) {
  FakeParts fakes;
  fakes.control = std::make_shared<FakeControl>();
  fakes.parts.models.push_back(MakeFakeModel(options, fakes.control));
  fakes.parts.devices.push_back({CreateCpuDevice({}, clock), lane_count, 2});
  return fakes;
}

std::vector<float> FakeTextVector(std::string_view text, uint32_t dimensions) {
  std::vector<int32_t> ids;
  for (const char c : text) ids.push_back(static_cast<uint8_t>(c));
  if (ids.empty()) ids.push_back(0);
  return VectorOf(HashOf(ids.data(), ids.size()), dimensions);
}

std::vector<float> FakeImageVector(std::string_view encoded, const ModelInfo& info) {
  const std::vector<uint8_t> rgb = PixelsOf(encoded, size_t{3} * info.image_width * info.image_height);
  return VectorOf(HashOf(rgb.data(), rgb.size()), info.dimensions);
}

}  // namespace tributary
