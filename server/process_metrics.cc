#include "server/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>

#include "server/metric_sheet.h"

namespace tributary {
namespace {

// Fields of /proc/self/stat by their number in proc(5), from 3 on (after the name, which may hold blanks).
class StatFields {
 public:
  StatFields() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    std::istringstream rest(line.substr(line.rfind(')') + 1));
    fields_.assign(std::istream_iterator<std::string>(rest), {});
  }
  std::optional<double> operator[](size_t number) const {
    const size_t index = number - 3;
    if (index >= fields_.size()) return std::nullopt;
    return std::stod(fields_[index]);
  }

 private:
  std::vector<std::string> fields_;
};

// Seconds since 1970, from /proc/stat.
std::optional<double> BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("btime ", 0) == 0) return std::stod(line.substr(6));
  }
  return std::nullopt;
}

std::optional<double> OpenFds() {
  std::error_code error;
  std::filesystem::directory_iterator folder("/proc/self/fd", error);
  if (error) return std::nullopt;
  return static_cast<double>(std::distance(folder, {})) - 1;  // without the one that lists them
}

std::optional<double> MaxFds() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  MetricSheet sheet;
  sheet.Set(MetricId::kBuildInfo, {build_.version, build_.libtorch}, 1);

  auto set = [&sheet](MetricId id, std::optional<double> value, double scale = 1) {
    sheet.Declare(id);
    if (value) sheet.Set(id, {}, *value * scale);
  };
  const double seconds_per_tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  const StatFields stat;
  const std::optional<double> user = stat[14];
  const std::optional<double> system = stat[15];
  set(MetricId::kProcessCpu, user && system ? std::optional(*user + *system) : std::nullopt, seconds_per_tick);
  set(MetricId::kProcessThreads, stat[20]);
  set(MetricId::kProcessVirtual, stat[23]);
  set(MetricId::kProcessResident, stat[24], static_cast<double>(sysconf(_SC_PAGESIZE)));
  const std::optional<double> started = stat[22];
  const std::optional<double> booted = BootTime();
  set(MetricId::kProcessStart, started && booted ? std::optional(*booted + *started * seconds_per_tick) : std::nullopt);
  set(MetricId::kProcessOpenFds, OpenFds());
  set(MetricId::kProcessMaxFds, MaxFds());
  return sheet.Take();
}

}  // namespace tributary
