// How the readers of tokeniser files say what is wrong with them.
#pragma once

#include <string>

namespace tributary {

// Thrown by the readers, and turned into a status by tokenizer_files.cc; no other code sees it.
struct LoadError {
  std::string what;
};

}  // namespace tributary
