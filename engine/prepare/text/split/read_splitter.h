// A pre-tokeniser as tokenizer.json writes it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "engine/prepare/text/split/splitter.h"

namespace tributary {

struct ReadSplit {
  std::unique_ptr<Splitter> splitter;  // null: the text is one piece
  // Behind the last splitter every byte stands for itself, written as one printable character: the model reads bytes.
  bool byte_level = false;
  // Has a Metaspace that asks where the input begins (prepend_scheme "first").
  bool asks_for_start = false;
};

// `part` is the value of "pre_tokenizer". Throws LoadError with the part's name where it is not supported.
ReadSplit ReadSplitter(const nlohmann::json& part);

}  // namespace tributary
