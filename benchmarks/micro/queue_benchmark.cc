// The modality queue beside moodycamel::ConcurrentQueue and beside a queue on a mutex. One thread pops, the others
// push; a pusher that finds the queue full and a popper that finds it empty yield.
#include <benchmark/benchmark.h>
#include <concurrentqueue.h>

#include <memory>
#include <optional>
#include <thread>

#include "engine/base/bounded_queue.h"
#include "engine/queue/modality_queue.h"

namespace tributary {
namespace {

constexpr size_t kCapacity = 8192;  // of the text queue by default

using Entry = const int*;
constexpr int kSomething = 1;

class Own {
 public:
  struct Producer {
    explicit Producer(Own& own) : queue(own.queue_) {}
    bool TryPush(Entry entry) {
      // NOLINTNEXTLINE(performance-move-const-arg): it takes T&&
      return queue.TryPush(std::move(entry));
    }
    ModalityQueue<Entry>& queue;
  };
  std::optional<Entry> TryPop() { return queue_.TryPop(); }

 private:
  ModalityQueue<Entry> queue_{kCapacity};
};

class OnMutex {
 public:
  struct Producer {
    explicit Producer(OnMutex& own) : queue(own.queue_) {}
    bool TryPush(Entry entry) {
      // NOLINTNEXTLINE(performance-move-const-arg): it takes T&&
      return queue.TryPush(std::move(entry));
    }
    BoundedQueue<Entry>& queue;
  };
  std::optional<Entry> TryPop() { return queue_.TryPop(); }

 private:
  BoundedQueue<Entry> queue_{kCapacity};
};

// Its fastest way: a token for each producer, blocks allocated beforehand. Neither in order across producers nor
// bounded: it allocates when the blocks are used up, as its push that does not would leave them all to the producer
// that came first.
class Moodycamel {
 public:
  struct Producer {
    explicit Producer(Moodycamel& own) : queue(own.queue_), token(own.queue_) {}
    bool TryPush(Entry entry) { return queue.enqueue(token, entry); }
    moodycamel::ConcurrentQueue<Entry>& queue;
    moodycamel::ProducerToken token;
  };
  std::optional<Entry> TryPop() {
    Entry entry = nullptr;
    return queue_.try_dequeue(entry) ? std::optional<Entry>(entry) : std::nullopt;
  }

 private:
  moodycamel::ConcurrentQueue<Entry> queue_{kCapacity, /*maxExplicitProducers=*/64, /*maxImplicitProducers=*/0};
};

template <class Queue>
void PushThenPop(benchmark::State& state) {
  auto queue = std::make_unique<Queue>();
  typename Queue::Producer producer(*queue);
  for ([[maybe_unused]] auto _ : state) {
    producer.TryPush(&kSomething);
    benchmark::DoNotOptimize(queue->TryPop());
  }
  state.SetItemsProcessed(state.iterations());
}

template <class Queue>
std::unique_ptr<Queue> g_shared;

template <class Queue>
void ManyProducers(benchmark::State& state) {
  const int producers = state.threads() - 1;
  if (state.thread_index() == 0) {
    g_shared<Queue> = std::make_unique<Queue>();
    for ([[maybe_unused]] auto _ : state) {
      for (int popped = 0; popped < producers;) {
        if (g_shared<Queue>->TryPop()) {
          ++popped;
        } else {
          std::this_thread::yield();
        }
      }
    }
    state.SetItemsProcessed(state.iterations() * producers);
  } else {
    std::optional<typename Queue::Producer> producer;
    for ([[maybe_unused]] auto _ : state) {
      if (!producer) producer.emplace(*g_shared<Queue>);  // made once all threads have passed the starting line
      while (!producer->TryPush(&kSomething)) std::this_thread::yield();
    }
  }
}

BENCHMARK_TEMPLATE(PushThenPop, Own);
BENCHMARK_TEMPLATE(PushThenPop, Moodycamel);
BENCHMARK_TEMPLATE(PushThenPop, OnMutex);
BENCHMARK_TEMPLATE(ManyProducers, Own)->Threads(2)->Threads(5)->Threads(17)->UseRealTime();
BENCHMARK_TEMPLATE(ManyProducers, Moodycamel)->Threads(2)->Threads(5)->Threads(17)->UseRealTime();
BENCHMARK_TEMPLATE(ManyProducers, OnMutex)->Threads(2)->Threads(5)->Threads(17)->UseRealTime();

}  // namespace
}  // namespace tributary

BENCHMARK_MAIN();
