// A normaliser as tokenizer.json writes it.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "engine/prepare/text/char_table.h"
#include "engine/prepare/text/normalise/normaliser.h"

namespace tributary {

// `part` is the value of "normalizer"; null: nothing. Throws LoadError with the part's name where it is not supported.
std::unique_ptr<Normaliser> ReadNormaliser(const nlohmann::json& part);

// The switches of a BertNormalizer.
NormaliserOptions ReadBertNormaliser(const nlohmann::json& part);

// strip_accents of BertNormalizer, which may be null: then as lowercase.
bool ReadStripAccents(const nlohmann::json& part, bool lowercase);

}  // namespace tributary
