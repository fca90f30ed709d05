#include "server/metric_table.h"

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "prometheus/check_names.h"
#include "tests/support/catch.h"
#include "yaml-cpp/yaml.h"

namespace tributary {
namespace {

const std::string kSource = TRIBUTARY_SOURCE_DIR;

// Names a query may use: the table's, and a histogram's three.
std::set<std::string> QueryableNames() {
  std::set<std::string> names = {"up"};
  for (const MetricRow& row : MetricTable()) {
    const std::string name(row.name);
    if (row.kind == MetricKind::kHistogram) {
      for (const char* suffix : {"_bucket", "_sum", "_count"}) names.insert(name + suffix);
    } else {
      names.insert(name);
    }
  }
  return names;
}

// The metrics in a PromQL expression; recording rules contain a colon.
std::set<std::string> MetricsOf(const std::string& expression) {
  static const std::regex kName(R"(\b(tributary|process)[_:][a-z0-9_:]+)");
  std::set<std::string> names;
  for (std::sregex_iterator it(expression.begin(), expression.end(), kName), end; it != end; ++it) {
    names.insert(it->str());
  }
  return names;
}

struct Rules {
  std::set<std::string> recorded;
  std::vector<std::string> expressions;
};

Rules LoadRules() {
  Rules rules;
  for (const YAML::Node& group : YAML::LoadFile(kSource + "/config/prometheus/rules.yml")["groups"]) {
    for (const YAML::Node& rule : group["rules"]) {
      if (rule["record"]) rules.recorded.insert(rule["record"].as<std::string>());
      rules.expressions.push_back(rule["expr"].as<std::string>());
    }
  }
  return rules;
}

std::vector<std::string> DashboardExpressions() {
  std::ifstream file(kSource + "/config/grafana/tributary.json");
  std::vector<std::string> expressions;
  std::function<void(const nlohmann::json&)> visit = [&](const nlohmann::json& node) {
    if (node.is_object() && node.contains("expr")) expressions.push_back(node["expr"].get<std::string>());
    if (node.is_structured()) {
      for (const nlohmann::json& child : node) visit(child);
    }
  };
  visit(nlohmann::json::parse(file));
  return expressions;
}

void RequireKnown(const std::vector<std::string>& expressions, const std::set<std::string>& recorded) {
  const std::set<std::string> names = QueryableNames();
  size_t used = 0;
  for (const std::string& expression : expressions) {
    for (const std::string& metric : MetricsOf(expression)) {
      CAPTURE(expression, metric);
      REQUIRE((names.count(metric) == 1 || recorded.count(metric) == 1));
      ++used;
    }
  }
  REQUIRE(used > 0);
}

TEST_CASE("the table's rows stand in the order of their ids, with names of their own that Prometheus accepts") {
  REQUIRE(MetricTable().size() == static_cast<size_t>(MetricId::kCount));
  std::set<std::string_view> names;
  for (size_t i = 0; i < MetricTable().size(); ++i) {
    const MetricRow& row = MetricTable()[i];
    CAPTURE(std::string(row.name));
    REQUIRE(static_cast<size_t>(row.id) == i);
    REQUIRE(names.insert(row.name).second);
    REQUIRE(prometheus::CheckMetricName(std::string(row.name)));
    for (std::string_view label : row.labels) REQUIRE(prometheus::CheckLabelName(std::string(label)));
    REQUIRE_FALSE(row.help.empty());
    const bool is_total = row.name.size() > 6 && row.name.substr(row.name.size() - 6) == "_total";
    REQUIRE(is_total == (row.kind == MetricKind::kCounter));
  }
}

TEST_CASE("every metric in the Prometheus rules is one of the table or recorded by the rules themselves") {
  const Rules rules = LoadRules();
  RequireKnown(rules.expressions, rules.recorded);
}

TEST_CASE("every metric on the Grafana dashboard is one of the table or recorded by the rules") {
  RequireKnown(DashboardExpressions(), LoadRules().recorded);
}

TEST_CASE("names are found in expressions with functions, labels and recorded series") {
  REQUIRE(MetricsOf("sum by (lane) (rate(tributary_lane_busy_seconds_total{modality=\"text\"}[5m])) / tributary:x:y") ==
          std::set<std::string>{"tributary_lane_busy_seconds_total", "tributary:x:y"});
}

}  // namespace
}  // namespace tributary
