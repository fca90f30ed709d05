// A short, stable name for the bytes of weight files: the model's revision, and the key of derived data on disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tributary {

// 64-bit hash of all bytes fed, in order; the same on every machine. Not against forgery: it tells versions apart.
// About 10 GB/s a core: 90 MB of weights cost some 10 ms once they are in the page cache.
// Source: the multiply-and-fold of wyhash (https://github.com/wangyi-fudan/wyhash), four independent streams.
class ContentHash {
 public:
  // What is hashed depends on the split into calls as well: feed the same pieces in the same order.
  void Add(std::string_view bytes);
  uint64_t value() const { return value_; }
  std::string Hex() const;  // 16 lower-case digits

 private:
  uint64_t value_ = 0;
};

}  // namespace tributary
