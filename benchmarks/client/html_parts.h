// What the HTML report is made of: text, numbers for people, tables, charts. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tributary::bench {

std::string EscapeHtml(const std::string& text);
// For people: "1,234,567", "12.3", "0.045"; "–" for NaN.
std::string Readable(double value);

struct HtmlTable {
  std::string caption;
  std::vector<std::string> head;               // of the columns; the first one names the rows
  std::vector<std::vector<std::string>> rows;  // as text

  std::string Html() const;
};

// Names and their values, as text.
std::string FactsHtml(const std::string& caption, const std::vector<std::pair<std::string, std::string>>& facts);

// A line chart, or, stacked, one of areas, with its table. What it needs of Chart.js is in html_report.js.
struct HtmlChart {
  struct Series {
    std::string name;
    std::vector<double> values = {};  // one for each x; NaN: a gap
    bool faint = false;               // what the others are seen against
  };
  std::string title;
  std::string note;     // beneath the title; may be empty
  std::string x_label;  // with units
  std::string y_label;
  std::vector<double> x;
  std::vector<Series> series;
  bool stacked = false;
  double y_max = 0;  // 0: as the values ask
  // Series that are 0, or not measured, throughout are named in a sentence and not drawn, as long as another is left.
  bool hide_zeros = false;

  std::string Html() const;
};

}  // namespace tributary::bench
