// The name the system knows the calling thread by.
#pragma once

#include <pthread.h>

#include <array>
#include <string>

namespace tributary {

inline std::string CurrentThreadName() {
  std::array<char, 16> name{};
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

}  // namespace tributary
