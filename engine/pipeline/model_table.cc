#include "engine/pipeline/model_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/heap.h"

namespace tributary {

bool Served::serves(RequestKind kind) const {
  switch (kind) {
    case RequestKind::kText:
      return route.info.text;
    case RequestKind::kImage:
      return route.info.image;
    case RequestKind::kPair:
      return route.info.pair;
  }
  return false;
}

void ModelTable::Start() {
  thread_ = WorkerThread("trib-retire", [this] { Loop(); });
}

void ModelTable::Close() {
  std::vector<std::shared_ptr<const Served>> serving;
  {
    MutexLock lock(mutex_);
    serving.swap(serving_);
  }
  serving.clear();  // to Leave, which takes the lock
  {
    MutexLock lock(mutex_);
    closed_ = true;
  }
  changed_.NotifyAll();
  thread_.Join();
  std::unique_ptr<Served> left;
  {
    MutexLock lock(mutex_);
    left = std::move(leaving_);
  }
  while (left) left = std::move(left->next);
  while (kept_) kept_ = std::move(kept_->next);
}

std::shared_ptr<const Served> ModelTable::Find(const std::string& name) const {
  MutexLock lock(mutex_);
  for (const auto& model : serving_) {
    if (name.empty() || model->route.info.name == name) return model;
  }
  return nullptr;
}

std::vector<ModelInfo> ModelTable::List() const {
  MutexLock lock(mutex_);
  std::vector<ModelInfo> models;
  models.reserve(serving_.size());
  for (const auto& model : serving_) models.push_back(model->route.info);
  return models;
}

EncoderIndex ModelTable::TakeEncoderIndex() {
  MutexLock lock(mutex_);
  free_indices_.reserve(size_t{next_index_} + 1);  // giving one back takes no memory
  if (free_indices_.empty()) return next_index_++;
  const EncoderIndex index = free_indices_.back();
  free_indices_.pop_back();
  return index;
}

void ModelTable::Put(std::unique_ptr<Served> model) {
  Served& served = *model;  // nobody else sees it yet
  std::shared_ptr<const Served> shared(model.release(), [this](const Served* last) {
    Leave(std::unique_ptr<Served>(const_cast<Served*>(last)));  // it was made from a mutable one
  });
  std::shared_ptr<const Served> replaced;  // let go after the lock
  MutexLock lock(mutex_);
  served.number = ++last_number_;
  living_.emplace(served.number, served.route.info.name);
  serving_.reserve(serving_.size() + 1);
  const auto found = std::find_if(serving_.begin(), serving_.end(),
                                  [&](const auto& other) { return other->route.info.name == served.route.info.name; });
  served.route.info.is_default = found == serving_.begin();  // also of an empty table
  if (found == serving_.end()) {
    serving_.push_back(std::move(shared));
  } else {
    replaced = std::exchange(*found, std::move(shared));
  }
}

absl::StatusOr<uint64_t> ModelTable::Remove(const std::string& name) {
  std::shared_ptr<const Served> removed;  // let go after the lock
  MutexLock lock(mutex_);
  const auto found =
      std::find_if(serving_.begin(), serving_.end(), [&](const auto& model) { return model->route.info.name == name; });
  if (found == serving_.end()) return absl::NotFoundError(absl::StrCat("no model '", name, "' is served"));
  if (found == serving_.begin()) {
    return absl::FailedPreconditionError(
        absl::StrCat("model '", name, "' is the default: it can be replaced, not unloaded"));
  }
  removed = std::move(*found);
  serving_.erase(found);
  return removed->number;
}

bool ModelTable::Living(const std::string& name, uint64_t number) const {
  return std::any_of(living_.begin(), living_.upper_bound(number),
                     [&](const auto& model) { return model.second == name; });
}

bool ModelTable::WaitUntilGone(const std::string& name, uint64_t number, Duration timeout) {
  const TimePoint now = SteadyClock().Now();
  const TimePoint wake_at = timeout >= kNoDeadline - now ? kNoDeadline : now + timeout;
  MutexLock lock(mutex_);
  while (Living(name, number) && !waiting_stopped_) {
    if (!changed_.WaitUntil(mutex_, wake_at)) break;
  }
  return !Living(name, number);
}

void ModelTable::StopWaiting() {
  {
    MutexLock lock(mutex_);
    waiting_stopped_ = true;
  }
  changed_.NotifyAll();
}

size_t ModelTable::ServingCount() const {
  MutexLock lock(mutex_);
  return serving_.size();
}

size_t ModelTable::LivingCount() const {
  MutexLock lock(mutex_);
  return living_.size();
}

// On whatever thread let go last: takes the lock, and no memory.
void ModelTable::Leave(std::unique_ptr<Served> model) {
  {
    MutexLock lock(mutex_);
    model->next = std::move(leaving_);
    leaving_ = std::move(model);
  }
  changed_.NotifyAll();
}

void ModelTable::Loop() {
  for (;;) {
    std::unique_ptr<Served> model;
    {
      MutexLock lock(mutex_);
      while (!leaving_ && !closed_) changed_.Wait(mutex_);
      if (!leaving_) return;
      model = std::move(leaving_);
      leaving_ = std::move(model->next);
    }
    if (!retire_(*model)) {
      model->next = std::move(kept_);
      kept_ = std::move(model);
      continue;
    }
    const uint64_t number = model->number;
    const std::vector<EncoderIndex> indices = std::move(model->encoders);
    model.reset();  // seconds, where a device must be waited for
    // The allocator keeps what was freed; a model's weights are worth giving back to the system.
    TrimHeap();
    {
      MutexLock lock(mutex_);
      free_indices_.insert(free_indices_.end(), indices.begin(), indices.end());
      living_.erase(number);
    }
    changed_.NotifyAll();
  }
}

}  // namespace tributary
