// tributary-tokenise: our tokeniser as the contender of benchmarks/peers/tokenise. Loads a hub folder once, then does
// what its standard input says, one line at a time, so that the script can take turns.
//
//   tributary-tokenise FOLDER MAX_TOKENS
//   load FILE      reads the texts, a JSON array of strings: answers how many
//   ids            answers all their ids, a JSON array of arrays
//   pass SECONDS   whole passes until so much CPU time is used: answers CPU seconds a pass
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "engine/prepare/text/text_preparer.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// All of a text's ids are asked for: with Truncation::kEnd we would stop at the limit.
std::vector<int32_t> Ids(const TextPreparer& preparer, const std::string& text) {
  auto sequence = preparer.Prepare({.text = text, .token_ids = {}}, Truncation::kNone);
  if (!sequence.ok()) {
    std::cerr << sequence.status() << "\n";
    std::exit(1);
  }
  return std::move(sequence->ids);
}

double PassSeconds(const TextPreparer& preparer, const std::vector<std::string>& texts, double seconds) {
  const double start = CpuSeconds();
  double used = 0;
  int passes = 0;
  size_t tokens = 0;
  do {
    for (const std::string& text : texts) tokens += Ids(preparer, text).size();
    ++passes;
    used = CpuSeconds() - start;
  } while (used < seconds);
  if (tokens == 0) std::cerr << "no tokens\n";  // keeps the work from being left out
  return used / passes;
}

int Main(const std::string& folder, size_t max_tokens) {
  const auto preparer = LoadTextPreparer(folder, max_tokens);
  if (!preparer.ok()) {
    std::cerr << preparer.status() << "\n";
    return 1;
  }
  std::vector<std::string> texts;
  for (std::string command; std::cin >> command;) {
    if (command == "load") {
      std::string path;
      std::cin >> path;
      std::ifstream file(path);
      texts = nlohmann::json::parse(file).get<std::vector<std::string>>();
      std::cout << texts.size() << std::endl;
    } else if (command == "ids") {
      auto all = nlohmann::json::array();
      for (const std::string& text : texts) all.push_back(Ids(**preparer, text));
      std::cout << all.dump() << std::endl;
    } else if (command == "pass") {
      double seconds = 0;
      std::cin >> seconds;
      std::cout << PassSeconds(**preparer, texts, seconds) << std::endl;
    } else {
      std::cerr << "no such command: " << command << "\n";
      return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tributary-tokenise FOLDER MAX_TOKENS\n";
    return 2;
  }
  return tributary::Main(argv[1], std::stoul(argv[2]));
}
