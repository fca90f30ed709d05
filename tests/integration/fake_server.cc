// The whole program over the torch-free fake model: what tests start as a process.
#include <memory>

#include "engine/pipeline/pipeline.h"
#include "server/program.h"
#include "tests/support/fake_model.h"

namespace {

absl::StatusOr<std::unique_ptr<tributary::Engine>> MakeEngine(const tributary::EngineOptions& options,
                                                              tributary::Clock* clock, tributary::Observer* observer) {
  // Slow enough that a test can have many calls in flight when it sends the signal.
  tributary::FakeModelOptions model;
  model.cost_per_item = std::chrono::milliseconds(10);
  model.max_batch_items = 4;
  return tributary::CreatePipeline(options, std::move(tributary::MakeFakePipelineParts(clock, model).parts), clock,
                                   observer);
}

}  // namespace

int main(int argc, char** argv) {
  return tributary::RunProgram({argv + 1, argv + argc}, MakeEngine, {.version = "0.0.0-test", .libtorch = ""});
}
