#include "tests/engine/libtorch/plain_bert.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace tributary {

PlainBert::PlainBert(BertConfig config, uint32_t seed) : config_(std::move(config)) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.5f);
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float mean = 0) {
    FloatTensor tensor{std::move(shape), {}};
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    for (int64_t i = 0; i < count; ++i) tensor.values.push_back(mean + normal(random));
    tensors_[name] = std::move(tensor);
  };
  const int64_t hidden = config_.hidden_size;
  const auto dense = [&](const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".weight", {hidden}, 1);
    add(name + ".bias", {hidden});
  };
  add("embeddings.word_embeddings.weight", {config_.vocabulary_size, hidden});
  add("embeddings.position_embeddings.weight", {config_.max_positions, hidden});
  add("embeddings.token_type_embeddings.weight", {config_.token_types, hidden});
  norm("embeddings.LayerNorm");
  for (int64_t i = 0; i < config_.layers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i) + ".";
    for (const char* part : {"query", "key", "value"}) dense(layer + "attention.self." + part, hidden, hidden);
    dense(layer + "attention.output.dense", hidden, hidden);
    norm(layer + "attention.output.LayerNorm");
    dense(layer + "intermediate.dense", config_.intermediate_size, hidden);
    dense(layer + "output.dense", hidden, config_.intermediate_size);
    norm(layer + "output.LayerNorm");
  }
}

void PlainBert::Write(const TemporaryFolder& folder, const std::string& prefix) const {
  const nlohmann::json config = {{"model_type", "bert"},
                                 {"hidden_size", config_.hidden_size},
                                 {"num_hidden_layers", config_.layers},
                                 {"num_attention_heads", config_.heads},
                                 {"intermediate_size", config_.intermediate_size},
                                 {"vocab_size", config_.vocabulary_size},
                                 {"max_position_embeddings", config_.max_positions},
                                 {"type_vocab_size", config_.token_types},
                                 {"layer_norm_eps", config_.layer_norm_eps},
                                 {"hidden_act", config_.hidden_act}};
  folder.Write("config.json", config.dump());
  std::map<std::string, FloatTensor> prefixed;
  for (const auto& [name, tensor] : tensors_) prefixed[prefix + name] = tensor;
  folder.Write("model.safetensors", SafetensorsOf(prefixed));
}

PlainBert::Rows PlainBert::Dense(const Rows& x, const std::string& name) const {
  const auto& weight = Values(name + ".weight");
  const auto& bias = Values(name + ".bias");
  Rows y(x.size(), std::vector<double>(bias.begin(), bias.end()));
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t o = 0; o < bias.size(); ++o) {
      for (size_t i = 0; i < x[t].size(); ++i) y[t][o] += x[t][i] * weight[o * x[t].size() + i];
    }
  }
  return y;
}

void PlainBert::AddAndNormalise(Rows& x, const Rows& residual, const std::string& name) const {
  const auto& gain = Values(name + ".weight");
  const auto& bias = Values(name + ".bias");
  for (size_t t = 0; t < x.size(); ++t) {
    double mean = 0, variance = 0;
    const auto size = static_cast<double>(x[t].size());
    for (size_t i = 0; i < x[t].size(); ++i) mean += (x[t][i] += residual[t][i]) / size;
    for (const double value : x[t]) variance += (value - mean) * (value - mean) / size;
    for (size_t i = 0; i < x[t].size(); ++i) {
      x[t][i] = (x[t][i] - mean) / std::sqrt(variance + config_.layer_norm_eps) * gain[i] + bias[i];
    }
  }
}

PlainBert::Rows PlainBert::Attention(const Rows& x, const std::string& layer) const {
  const Rows query = Dense(x, layer + "query");
  const Rows key = Dense(x, layer + "key");
  const Rows value = Dense(x, layer + "value");
  const auto size = static_cast<size_t>(config_.hidden_size / config_.heads);
  Rows context(x.size(), std::vector<double>(x[0].size(), 0));
  for (size_t head = 0; head < x[0].size(); head += size) {
    for (size_t t = 0; t < x.size(); ++t) {
      std::vector<double> scores(x.size());
      double sum = 0;
      for (size_t s = 0; s < x.size(); ++s) {
        double dot = 0;
        for (size_t i = head; i < head + size; ++i) dot += query[t][i] * key[s][i];
        sum += scores[s] = std::exp(dot / std::sqrt(static_cast<double>(size)));
      }
      for (size_t s = 0; s < x.size(); ++s) {
        for (size_t i = head; i < head + size; ++i) context[t][i] += scores[s] / sum * value[s][i];
      }
    }
  }
  return context;
}

double PlainBert::Activate(double x) const {
  if (config_.hidden_act == "relu") return std::max(x, 0.0);
  if (config_.hidden_act == "gelu") return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

std::vector<float> PlainBert::Embed(const TokenIds& ids, Pooling pooling) const {
  const auto hidden = static_cast<size_t>(config_.hidden_size);
  const auto row = [&](const char* table, size_t index) {
    const auto& values = Values(table);
    return std::vector<double>(values.begin() + index * hidden, values.begin() + (index + 1) * hidden);
  };
  Rows x, rest(ids.size(), row("embeddings.token_type_embeddings.weight", 0));
  for (size_t t = 0; t < ids.size(); ++t) {
    x.push_back(row("embeddings.word_embeddings.weight", static_cast<size_t>(ids[t])));
    const auto position = row("embeddings.position_embeddings.weight", t);
    for (size_t i = 0; i < hidden; ++i) rest[t][i] += position[i];
  }
  AddAndNormalise(x, rest, "embeddings.LayerNorm");
  for (int64_t i = 0; i < config_.layers; ++i) {
    const std::string layer = "encoder.layer." + std::to_string(i) + ".";
    Rows mixed = Dense(Attention(x, layer + "attention.self."), layer + "attention.output.dense");
    AddAndNormalise(mixed, x, layer + "attention.output.LayerNorm");
    Rows inner = Dense(mixed, layer + "intermediate.dense");
    for (auto& token : inner) {
      for (double& value : token) value = Activate(value);
    }
    x = Dense(inner, layer + "output.dense");
    AddAndNormalise(x, mixed, layer + "output.LayerNorm");
  }
  std::vector<float> pooled(hidden);
  for (size_t i = 0; i < hidden; ++i) {
    double sum = 0, most = x[0][i];
    for (const auto& token : x) {
      sum += token[i];
      most = std::max(most, token[i]);
    }
    const double mean = sum / static_cast<double>(x.size());
    pooled[i] = static_cast<float>(pooling == Pooling::kMean ? mean : pooling == Pooling::kCls ? x[0][i] : most);
  }
  return pooled;
}

}  // namespace tributary
