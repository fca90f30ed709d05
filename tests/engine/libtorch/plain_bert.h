// A tiny random BERT, as a model folder on disk and as a plain loop-by-loop computation in double to compare with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/libtorch/weights/hub_folder.h"
#include "tests/engine/libtorch/safetensors_writer.h"
#include "tests/engine/libtorch/text_batch.h"
#include "tests/support/temporary_folder.h"

namespace tributary {

struct BertConfig {
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t intermediate_size = 0;
  int64_t vocabulary_size = 0;
  int64_t max_positions = 0;
  int64_t token_types = 0;
  double layer_norm_eps = 1e-12;
  std::string hidden_act;
};

class PlainBert {
 public:
  PlainBert(BertConfig config, uint32_t seed);

  // config.json and model.safetensors, tensor names prefixed.
  void Write(const TemporaryFolder& folder, const std::string& prefix) const;
  std::vector<float> Embed(const TokenIds& ids, Pooling pooling) const;

  std::map<std::string, FloatTensor>& tensors() { return tensors_; }

 private:
  using Rows = std::vector<std::vector<double>>;

  const std::vector<float>& Values(const std::string& name) const { return tensors_.at(name).values; }
  Rows Dense(const Rows& x, const std::string& name) const;
  void AddAndNormalise(Rows& x, const Rows& residual, const std::string& name) const;
  Rows Attention(const Rows& x, const std::string& layer) const;
  double Activate(double x) const;

  const BertConfig config_;
  std::map<std::string, FloatTensor> tensors_;
};

}  // namespace tributary
