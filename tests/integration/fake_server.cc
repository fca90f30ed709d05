// The whole program over the torch-free fake model: what tests start as a process.
#include <cstdlib>
#include <memory>
#include <utility>

#include "engine/pipeline/pipeline.h"
#include "server/program.h"
#include "tests/support/fake_model.h"

namespace tributary {
namespace {

// Executes nothing until it is told to admit no more, so that a test knows what is in flight when the drain begins.
class HeldUntilDrain final : public Engine {
 public:
  HeldUntilDrain(std::unique_ptr<Engine> engine, std::shared_ptr<FakeControl> control)
      : engine_(std::move(engine)), control_(std::move(control)) {
    control_->Hold();
  }
  absl::Status Submit(EmbedRequest request, Completion done) override {
    return engine_->Submit(std::move(request), std::move(done));
  }
  std::vector<ModelInfo> Models() const override { return engine_->Models(); }
  absl::StatusOr<ModelInfo> LoadModel(const ModelOptions& options) override { return engine_->LoadModel(options); }
  absl::Status UnloadModel(const std::string& name, Duration timeout,
                           const std::function<void()>& on_removed) override {
    return engine_->UnloadModel(name, timeout, on_removed);
  }
  EngineSnapshot Snapshot() const override { return engine_->Snapshot(); }
  void StopAdmitting() override {
    engine_->StopAdmitting();
    control_->Release();
  }
  bool WaitUntilIdle(Duration timeout) override { return engine_->WaitUntilIdle(timeout); }

 private:
  const std::unique_ptr<Engine> engine_;
  const std::shared_ptr<FakeControl> control_;
};

absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const EngineOptions& options, Clock* clock, Observer* observer) {
  FakeParts fakes = MakeFakePipelineParts(clock);
  auto engine = CreatePipeline(options, std::move(fakes.parts), clock, observer);
  if (!engine.ok() || std::getenv("TRIBUTARY_FAKE_HELD_UNTIL_DRAIN") == nullptr) return engine;
  return std::make_unique<HeldUntilDrain>(*std::move(engine), std::move(fakes.control));
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  return tributary::RunProgram({argv + 1, argv + argc}, tributary::MakeEngine,
                               {.check = [](const std::string& folder) -> absl::StatusOr<std::string> {
                                  if (folder == "/nothing") return absl::NotFoundError("/nothing is not a folder");
                                  return "folder           " + folder + "\n";
                                },
                                .families = [] { return std::string("| kind |\n"); }},
                               {.version = "0.0.0-test", .libtorch = ""});
}
