// A value for every code point, looked up in two steps. What the tables of this folder become once they are loaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tributary {

inline constexpr char32_t kCodePointCount = 0x110000;

// Thread-safety: const after construction.
template <class Value>
class CodePointTable {
  static_assert(std::has_unique_object_representations_v<Value>, "pages are compared byte by byte");

 public:
  // `all` has kCodePointCount values.
  explicit CodePointTable(const std::vector<Value>& all) {
    std::map<std::string_view, uint32_t> known;  // bytes of a page -> its offset
    values_.reserve(size_t{kPageSize} * 512);
    for (size_t page = 0; page < kPageCount; ++page) {
      const Value* const first = &all[page * kPageSize];
      const std::string_view bytes(reinterpret_cast<const char*>(first), kPageSize * sizeof(Value));
      const auto [found, is_new] = known.emplace(bytes, static_cast<uint32_t>(values_.size()));
      if (is_new) values_.insert(values_.end(), first, first + kPageSize);
      pages_[page] = found->second;
    }
    values_.shrink_to_fit();
  }

  Value operator[](char32_t code) const { return values_[pages_[code >> kPageBits] + (code & (kPageSize - 1))]; }

 private:
  static constexpr uint32_t kPageBits = 7;  // 128: ASCII is page 0
  static constexpr uint32_t kPageSize = 1u << kPageBits;
  static constexpr uint32_t kPageCount = kCodePointCount >> kPageBits;

  std::array<uint32_t, kPageCount> pages_;  // offset of the page in values_; equal pages are stored once
  std::vector<Value> values_;
};

}  // namespace tributary
