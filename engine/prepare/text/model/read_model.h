// A model as tokenizer.json writes it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "engine/prepare/text/model/model.h"
#include "engine/prepare/text/model/word_piece_model.h"

namespace tributary {

struct ReadModel {
  std::unique_ptr<TokenModel> model;
  int32_t largest_id = -1;  // of its pieces
};

// The type of a model, which old files leave out.
std::string ModelType(const nlohmann::json& part);

// `part` is the value of "model"; `byte_level`: its pieces are written in ByteLevel's characters. Throws LoadError.
ReadModel ReadTokenModel(const nlohmann::json& part, bool byte_level);
WordPieceOptions ReadWordPiece(const nlohmann::json& part);

// What the reference asks a model when it adds tokens: the id of a piece, and the number of pieces.
class Vocabulary {
 public:
  // `part` outlives it.
  explicit Vocabulary(const nlohmann::json& part);
  std::optional<int32_t> Find(const std::string& piece) const;
  int32_t size() const { return size_; }

 private:
  const nlohmann::json& vocab_;  // an object, or Unigram's list
  absl::flat_hash_map<std::string_view, int32_t, std::hash<std::string_view>> listed_;
  int32_t size_ = 0;
};

}  // namespace tributary
