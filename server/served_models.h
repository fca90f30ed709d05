// The models served now, as the calls see them.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/api/engine.h"
#include "engine/base/mutex.h"

namespace tributary {

// What the engine serves, the default first; never empty. Read by every call, so it is a list that is never changed,
// only replaced. Refreshed by server/admin_service after each load and unload. In between it may be one step behind the
// engine, which has the last word in Submit: a model that is gone is NOT_FOUND there, too.
// Thread-safety: all methods from any thread; a call keeps the list it began with.
// Ownership: borrows the engine.
class ServedModels {
 public:
  using List = std::shared_ptr<const std::vector<ModelInfo>>;

  explicit ServedModels(const Engine* engine) : engine_(engine) { Refresh(); }

  void Refresh() {
    auto models = std::make_shared<const std::vector<ModelInfo>>(engine_->Models());
    MutexLock lock(mutex_);
    models_.swap(models);
  }
  List Get() const {
    MutexLock lock(mutex_);
    return models_;
  }

 private:
  const Engine* const engine_;
  mutable Mutex mutex_;
  List models_ TRIBUTARY_GUARDED_BY(mutex_);
};

// Null: not among them. Empty: the default. The pointer is good as long as the list.
inline const ModelInfo* FindModel(const std::vector<ModelInfo>& models, std::string_view name) {
  if (name.empty()) return &models.front();
  for (const ModelInfo& model : models) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace tributary
