#include "benchmarks/client/html_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tributary::bench {
namespace {

constexpr size_t kColours = 8;  // --c0 to --c7 of html_report.css

bool NothingIn(const HtmlChart::Series& series) {
  return std::all_of(series.values.begin(), series.values.end(), [](double v) { return std::isnan(v) || v == 0; });
}

// NaN is null in JSON. Bytes that are no UTF-8 are replaced, as a browser would.
std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string EscapeHtml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string Readable(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  if (value == std::round(value)) decimals = 0;
  char text[400];  // the largest double has 309 digits
  std::snprintf(text, sizeof(text), "%.*f", decimals, size);
  std::string digits = text;
  const size_t whole = std::min(digits.find('.'), digits.size());
  for (size_t at = whole; at > 3; at -= 3) digits.insert(at - 3, ",");
  return (value < 0 ? "−" : "") + digits;
}

std::string HtmlTable::Html() const {
  std::string out = absl::StrCat("<div class=scroll tabindex=0 role=region aria-label=\"", EscapeHtml(caption),
                                 "\"><table><caption>", EscapeHtml(caption), "</caption><thead><tr>");
  for (const std::string& title : head) absl::StrAppend(&out, "<th scope=col>", EscapeHtml(title), "</th>");
  out += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    out += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&out, i == 0 ? "<th scope=row>" : "<td>", EscapeHtml(row[i]), i == 0 ? "</th>" : "</td>");
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string FactsHtml(const std::string& caption, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = absl::StrCat("<table class=facts><caption>", EscapeHtml(caption), "</caption><tbody>\n");
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&out, "<tr><th scope=row>", EscapeHtml(name), "</th><td>", EscapeHtml(value), "</td></tr>\n");
  }
  return out + "</tbody></table>\n";
}

std::string HtmlChart::Html() const {
  std::vector<const Series*> shown;
  std::vector<std::string> hidden;
  nlohmann::json drawn = nlohmann::json::array();
  const bool hide = hide_zeros && !std::all_of(series.begin(), series.end(), NothingIn);
  for (size_t i = 0; i < series.size(); ++i) {
    if (hide && NothingIn(series[i])) {
      hidden.push_back(series[i].name);
      continue;
    }
    shown.push_back(&series[i]);
    // The colour goes with the place, not with what is left: a series looks alike in all runs.
    drawn.push_back(
        {{"name", series[i].name}, {"values", series[i].values}, {"colour", i % kColours}, {"faint", series[i].faint}});
  }
  nlohmann::json chart = {{"x", x_label}, {"y", y_label}, {"x_values", x}, {"series", drawn}, {"stacked", stacked}};
  if (!x.empty()) chart["x_min"] = x.front();
  if (x.size() > 1) chart["x_max"] = x.back();
  if (y_max > 0) chart["y_max"] = y_max;

  HtmlTable table{.caption = absl::StrCat(title, ", ", y_label), .head = {x_label}, .rows = {}};
  for (const Series* one : shown) table.head.push_back(one->name);
  for (size_t at = 0; at < x.size(); ++at) {
    std::vector<std::string> row = {Readable(x[at])};
    for (const Series* one : shown) row.push_back(Readable(one->values[at]));
    table.rows.push_back(std::move(row));
  }
  std::string out = absl::StrCat("<figure><h3>", EscapeHtml(title), "</h3>");
  if (!note.empty()) absl::StrAppend(&out, "<p class=faint>", EscapeHtml(note), "</p>");
  absl::StrAppend(&out, "<div class=canvas><canvas role=img aria-label=\"",
                  EscapeHtml(absl::StrCat("Chart of ", title, "; its figures are in the table below")),
                  "\" data-chart=\"", EscapeHtml(Dump(chart)), "\"></canvas></div>");
  if (!hidden.empty()) {
    absl::StrAppend(&out, "<p class=faint>Not shown, as 0 or not measured throughout: ",
                    EscapeHtml(absl::StrJoin(hidden, ", ")), ".</p>");
  }
  absl::StrAppend(&out, "<details><summary>Figures as a table</summary>", table.Html(), "</details></figure>\n");
  return out;
}

}  // namespace tributary::bench
