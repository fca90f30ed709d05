// Trial runs of an exported text module while it loads: does it do what its manifest says? Torch-free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/lane/batch_program.h"
#include "engine/libtorch/device/program_device.h"
#include "engine/libtorch/exported/export_manifest.h"
#include "engine/libtorch/exported/padded_groups.h"

namespace tributary {

// Call cost so large that a batch is always one group: then a trial says what shape the module is run on.
inline constexpr uint64_t kOneGroup = uint64_t{1} << 40;

// `program` runs the module of `manifest` by `rules`, whose call_cost is kOneGroup. All outlive it.
// Errors: INVALID_ARGUMENT naming the module's file, the run and what came out; RESOURCE_EXHAUSTED no memory.
class TextTrial {
 public:
  TextTrial(const ExportManifest& manifest, const PaddingRules& rules, const ProgramDevice& device,
            const BatchProgram& program)
      : manifest_(manifest), rules_(rules), device_(device), program_(program) {}

  // One text, the longest, as many as a batch may hold, and a mixed pair: shapes and types as said, numbers finite.
  absl::Status CheckShapes() const;
  // A text alone and beside a longer one has the same vector.
  absl::Status CheckPadding() const;
  // Every length batches are padded to (up to 512 tokens), and of powers of two as many texts as a budget of
  // `max_batch_tokens` holds: with other numbers of texts there are too many shapes to run them all.
  absl::Status Warm(uint64_t max_batch_tokens) const;

 private:
  using Ids = std::vector<int32_t>;

  Ids Text(size_t length) const;
  // f32 [texts, D]. `texts`: longest first.
  absl::StatusOr<std::vector<float>> Run(const std::vector<Ids>& texts) const;

  const ExportManifest& manifest_;
  const PaddingRules& rules_;
  const ProgramDevice& device_;
  const BatchProgram& program_;
};

}  // namespace tributary
