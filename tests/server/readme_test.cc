// The README's table of metrics says what the program exports: the test writes the table anew and compares.
#include <fstream>
#include <sstream>
#include <string>

#include "server/metric_table.h"
#include "tests/support/catch.h"

namespace tributary {
namespace {

std::string_view KindName(MetricKind kind) {
  switch (kind) {
    case MetricKind::kCounter:
      return "counter";
    case MetricKind::kGauge:
      return "gauge";
    case MetricKind::kHistogram:
      return "histogram";
  }
  return "";
}

std::string RowText(const MetricRow& row) {
  std::ostringstream text;
  text << "| `" << row.name << "` | " << KindName(row.kind) << " | ";
  for (size_t i = 0; i < row.labels.size(); ++i) text << (i == 0 ? "" : ", ") << row.labels[i];
  text << " | " << row.help << " |\n";
  return text.str();
}

TEST_CASE("The README's metrics table is the program's, row by row") {
  std::ifstream file(TRIBUTARY_SOURCE_DIR "/README.md");
  std::stringstream readme;
  readme << file.rdbuf();
  std::string expected = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n";
  for (const MetricRow& row : MetricTable()) expected += RowText(row);
  INFO("put this into README.md:\n" << expected);
  CHECK(readme.str().find(expected) != std::string::npos);
}

}  // namespace
}  // namespace tributary
