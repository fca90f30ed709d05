#include "engine/libtorch/lazy_program.h"

#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/support/catch.h"

namespace tributary {
namespace {

class FixedProgram final : public BatchProgram {
 public:
  explicit FixedProgram(uint32_t dimension) : dimension_(dimension) {}
  uint32_t OutputDimension() const override { return dimension_; }
  uint64_t MaxBatchUnits() const override { return 8; }
  size_t MaxBatchItems() const override { return 4; }
  size_t MaxInputBytes() const override { return 64; }
  absl::StatusOr<StagedBatch> Stage(const Batch& batch, std::span<std::byte> /*input*/) const override {
    StagedBatch staged;
    staged.batch_size = batch.items.size();
    staged.input_bytes = 7;
    return staged;
  }
  absl::Status Run(const StagedBatch& /*staged*/, const std::byte* /*input*/, std::byte* /*output*/) const override {
    return absl::OkStatus();
  }

 private:
  const uint32_t dimension_;
};

struct Lazy {
  explicit Lazy(LazyProgram::Load load)
      : program(FixedProgram(3), [this, load = std::move(load)] {
          ++loads;
          return load();
        }) {}
  absl::StatusOr<StagedBatch> Stage() { return program.Stage(Batch(), {}); }

  int loads = 0;
  LazyProgram program;
};

using Loaded = absl::StatusOr<std::unique_ptr<BatchProgram>>;

TEST_CASE("A program on demand is loaded with its first batch, once, and promises what the one beside it has") {
  Lazy lazy([]() -> Loaded { return std::make_unique<FixedProgram>(3); });
  CHECK(lazy.program.OutputDimension() == 3);
  CHECK(lazy.program.MaxBatchUnits() == 8);
  CHECK(lazy.program.MaxBatchItems() == 4);
  CHECK(lazy.program.MaxInputBytes() == 64);
  CHECK(lazy.loads == 0);
  for (int i = 0; i < 2; ++i) {
    const auto staged = lazy.Stage();
    REQUIRE(staged.ok());
    CHECK(staged->input_bytes == 7);
    CHECK(lazy.program.Run(*staged, nullptr, nullptr).ok());
  }
  CHECK(lazy.loads == 1);
}

TEST_CASE("A load that failed is the error of every batch") {
  Lazy lazy([]() -> Loaded { return absl::NotFoundError("no such file"); });
  for (int i = 0; i < 2; ++i) CHECK(lazy.Stage().status() == absl::NotFoundError("no such file"));
  CHECK(lazy.loads == 1);
}

TEST_CASE("A load that threw leaves an error behind, not a hole") {
  Lazy lazy([]() -> Loaded { throw std::runtime_error("LibTorch had a bad day"); });
  CHECK_THROWS_AS(lazy.Stage(), std::runtime_error);
  CHECK(lazy.Stage().status().code() == absl::StatusCode::kInternal);
  CHECK(lazy.program.Run(StagedBatch(), nullptr, nullptr).code() == absl::StatusCode::kInternal);
  CHECK(lazy.loads == 1);
}

TEST_CASE("A program that is another one than promised is refused") {
  Lazy lazy([]() -> Loaded { return std::make_unique<FixedProgram>(5); });
  CHECK(lazy.Stage().status().code() == absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace tributary
