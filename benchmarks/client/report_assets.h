// What the HTML report carries inside itself; from files, at build time (CMakeLists.txt).
#pragma once

#include <string>

namespace tributary::bench {

std::string ChartLibrary();  // Chart.js
std::string ReportScript();  // html_report.js
std::string ReportStyle();   // html_report.css

}  // namespace tributary::bench
