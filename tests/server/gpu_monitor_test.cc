#include "server/gpu_monitor.h"

#include <dlfcn.h>

#include <thread>

#include "tests/server/fake_nvml.h"
#include "tests/support/catch.h"
#include "tests/support/scrape.h"

namespace tributary {
namespace {

constexpr int kNotSupported = 3;
constexpr int kDriverNotLoaded = 9;
constexpr int kGpuIsLost = 15;

// Sets what the library at `path` answers, and keeps it loaded so that it stays set.
class LoadedFake {
 public:
  explicit LoadedFake(const std::string& path, const FakeNvml& fake = {}) : library_(dlopen(path.c_str(), RTLD_NOW)) {
    REQUIRE(library_ != nullptr);
    Set(fake);
  }
  ~LoadedFake() { dlclose(library_); }
  LoadedFake(const LoadedFake&) = delete;
  LoadedFake& operator=(const LoadedFake&) = delete;

  void Set(const FakeNvml& fake) {
    reinterpret_cast<void (*)(const FakeNvml*)>(dlsym(library_, "fake_nvml_set"))(&fake);
  }
  int initialised() const { return reinterpret_cast<int (*)()>(dlsym(library_, "fake_nvml_initialised"))(); }

 private:
  void* const library_;
};

// The thread's own samples are an hour apart: tests sample by hand.
GpuMonitorOptions ByHand(const std::string& library) {
  return {.enabled = true, .library = library, .period = std::chrono::hours(1)};
}

size_t CountValues(const Scrape& scrape) {
  size_t values = 0;
  for (const char* name : {"utilization_ratio", "memory_used_bytes", "memory_total_bytes", "power_watts",
                           "temperature_celsius", "sm_clock_hertz", "memory_clock_hertz"}) {
    values += scrape.count(std::string("tributary_gpu_") + name);
  }
  return values;
}

TEST_CASE("all values of every GPU are shown in base units") {
  LoadedFake fake(FAKE_NVML, {.devices = 2});
  const GpuMonitor monitor(ByHand(FAKE_NVML));
  const Scrape scrape(monitor);
  REQUIRE(monitor.problem().empty());
  REQUIRE(scrape["tributary_gpu_monitor_info{reason=\"none\"}"] == 1);
  REQUIRE(scrape["tributary_gpu_info{gpu=\"0\",name=\"Fake GPU\",uuid=\"GPU-0\"}"] == 1);
  REQUIRE(scrape["tributary_gpu_info{gpu=\"1\",name=\"Fake GPU 2\",uuid=\"GPU-1\"}"] == 1);
  REQUIRE(scrape["tributary_gpu_utilization_ratio{gpu=\"0\"}"] == Approx(0.40));
  REQUIRE(scrape["tributary_gpu_utilization_ratio{gpu=\"1\"}"] == Approx(0.41));
  REQUIRE(scrape["tributary_gpu_memory_used_bytes{gpu=\"0\"}"] == 400);
  REQUIRE(scrape["tributary_gpu_memory_total_bytes{gpu=\"0\"}"] == 1000);
  REQUIRE(scrape["tributary_gpu_power_watts{gpu=\"0\"}"] == Approx(123.5));
  REQUIRE(scrape["tributary_gpu_temperature_celsius{gpu=\"0\"}"] == 55);
  REQUIRE(scrape["tributary_gpu_sm_clock_hertz{gpu=\"0\"}"] == Approx(1.98e9));
  REQUIRE(scrape["tributary_gpu_memory_clock_hertz{gpu=\"0\"}"] == Approx(2.619e9));
  REQUIRE(scrape.count("tributary_gpu_absent_info") == 0);
}

TEST_CASE("a value that NVML does not support, as utilisation under MIG, is absent with the reason, never 0") {
  LoadedFake fake(FAKE_NVML, {.utilization = kNotSupported});
  const Scrape scrape{GpuMonitor(ByHand(FAKE_NVML))};
  REQUIRE(scrape.count("tributary_gpu_utilization_ratio") == 0);
  REQUIRE(scrape["tributary_gpu_absent_info{gpu=\"0\",value=\"tributary_gpu_utilization_ratio\",reason=\"not_"
                 "supported\"}"] == 1);
  REQUIRE(scrape["tributary_gpu_memory_used_bytes{gpu=\"0\"}"] == 400);
  REQUIRE(scrape["tributary_gpu_monitor_info{reason=\"none\"}"] == 1);
}

TEST_CASE("a function that an older library lacks takes away only its value") {
  LoadedFake fake(FAKE_NVML_NO_POWER);
  const Scrape scrape{GpuMonitor(ByHand(FAKE_NVML_NO_POWER))};
  REQUIRE(scrape.count("tributary_gpu_power_watts") == 0);
  REQUIRE(scrape["tributary_gpu_absent_info{gpu=\"0\",value=\"tributary_gpu_power_watts\",reason=\"function_"
                 "missing\"}"] == 1);
  REQUIRE(scrape["tributary_gpu_temperature_celsius{gpu=\"0\"}"] == 55);
}

TEST_CASE("when there are no values at all, one series says why") {
  struct Row {
    std::string library;
    FakeNvml fake;
    std::string reason;
    std::string problem;
  };
  for (const Row& row : {Row{FAKE_NVML_NO_COUNT, {}, "function_missing", "nvmlDeviceGetCount_v2"},
                         Row{FAKE_NVML, {.init = kDriverNotLoaded}, "nvml_error", "driver_not_loaded"},
                         Row{FAKE_NVML, {.count = 999}, "nvml_error", "unknown"},
                         Row{FAKE_NVML, {.devices = 0}, "no_devices", "no GPU"}}) {
    CAPTURE(row.reason, row.problem);
    LoadedFake fake(row.library, row.fake);
    const GpuMonitor monitor(ByHand(row.library));
    const Scrape scrape(monitor);
    REQUIRE(scrape["tributary_gpu_monitor_info{reason=\"" + row.reason + "\"}"] == 1);
    REQUIRE(scrape.count("tributary_gpu_monitor_info") == 1);
    REQUIRE(CountValues(scrape) == 0);
    REQUIRE(monitor.problem().find(row.problem) != std::string::npos);
  }
}

TEST_CASE("a machine without the library says so, and a monitor that is switched off loads nothing") {
  const GpuMonitor without(ByHand("libno-such-nvml.so.1"));
  REQUIRE(Scrape(without)["tributary_gpu_monitor_info{reason=\"library_not_found\"}"] == 1);
  REQUIRE(without.problem().find("libno-such-nvml.so.1") != std::string::npos);

  LoadedFake fake(FAKE_NVML);
  const GpuMonitor off({.enabled = false, .library = FAKE_NVML});
  REQUIRE(Scrape(off)["tributary_gpu_monitor_info{reason=\"disabled\"}"] == 1);
  REQUIRE(fake.initialised() == 0);
}

TEST_CASE("a GPU that is lost takes its values away, and they return with it") {
  LoadedFake fake(FAKE_NVML, {.devices = 2});
  GpuMonitor monitor(ByHand(FAKE_NVML));
  REQUIRE(CountValues(Scrape(monitor)) == 14);

  fake.Set({.devices = 2, .handle = {0, kGpuIsLost}});
  monitor.Sample();
  const Scrape lost(monitor);
  REQUIRE(CountValues(lost) == 7);
  REQUIRE(lost.has("tributary_gpu_utilization_ratio{gpu=\"0\"}"));
  REQUIRE(lost["tributary_gpu_absent_info{gpu=\"1\",value=\"tributary_gpu_power_watts\",reason=\"gpu_is_lost\"}"] == 1);

  fake.Set({.devices = 2});
  monitor.Sample();
  REQUIRE(CountValues(Scrape(monitor)) == 14);
}

TEST_CASE("the monitor's thread takes a sample once a period") {
  LoadedFake fake(FAKE_NVML, {.devices = 0});
  const GpuMonitor monitor({.enabled = true, .library = FAKE_NVML, .period = std::chrono::milliseconds(1)});
  // No interleaving matters: sooner or later a sample sees the change. ctest's time limit is the failure.
  fake.Set({.devices = 1});
  while (!Scrape(monitor).has("tributary_gpu_power_watts{gpu=\"0\"}")) std::this_thread::yield();
  SUCCEED();
}

TEST_CASE("NVML is started once and shut down with the monitor") {
  LoadedFake fake(FAKE_NVML);
  {
    const GpuMonitor monitor(ByHand(FAKE_NVML));
    REQUIRE(fake.initialised() == 1);
  }
  REQUIRE(fake.initialised() == 0);
}

TEST_CASE("on a machine with a GPU the real NVML gives each value or a reason for its absence", "[gpu]") {
  const GpuMonitor monitor(GpuMonitorOptions{});
  if (!monitor.problem().empty()) {
    WARN("skipped, no GPU: " << monitor.problem());
    return;
  }
  const Scrape scrape(monitor);
  const size_t gpus = scrape.count("tributary_gpu_info{");
  REQUIRE(gpus >= 1);
  REQUIRE(CountValues(scrape) + scrape.count("tributary_gpu_absent_info{") == 7 * gpus);
  REQUIRE(scrape["tributary_gpu_memory_total_bytes{gpu=\"0\"}"] > 1e9);
  REQUIRE(scrape["tributary_gpu_temperature_celsius{gpu=\"0\"}"] < 120);
}

}  // namespace
}  // namespace tributary
