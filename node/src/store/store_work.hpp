#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <pharos/async/unique_function.hpp>
#include <pharos/base/result.hpp>
#include <pharos/object_store/checksum.hpp>

#include "store/node_store.hpp"

namespace pharos::node {

/// Runs work on the files of a node's store, on threads where the work may wait for a disk.
/// Owned by StoreService; called on the node's strand. The callbacks run there too, and do not run after the end of
/// this object. Work that is under way then still ends, because it shares the store. Work that the host drops at its
/// end has no callback. `work` must not throw.
class StoreWork {
 public:
  /// Runs `work` on another thread, then `done` on the node's strand: Host::run_blocking().
  using Run = std::function<void(async::UniqueFunction<void()> work, async::UniqueFunction<void()> done)>;

  StoreWork(std::shared_ptr<NodeStore> store, Run run) : store_{std::move(store)}, run_{std::move(run)} {}
  StoreWork(StoreWork&&) = delete;

  /// Runs `work`, which is given the store, then `done` with the result of `work`.
  template <class Work, class Done>
  void run(Work work, Done done) {
    auto result = std::make_shared<std::optional<decltype(work(*store_))>>();
    run_([store = store_, work = std::move(work), result]() mutable { result->emplace(work(*store)); },
         [life = std::weak_ptr<void>{life_}, done = std::move(done), result]() mutable {
           if (!life.expired()) done(std::move(**result));
         });
  }

  /// Does the same for an object of `size` bytes, in parts, so that all threads have work. Each call of `work` gets the
  /// store and a range of the object's pieces: the first one and how many. `done` gets the first error.
  template <class Work, class Done>
  void run_in_parts(std::uint64_t size, Work work, Done done) {
    const std::size_t pieces = object_store::pieces_of(size);
    const std::size_t parts = std::clamp<std::size_t>(pieces / kPartPieces, 1, kPartsMax);
    struct State {
      std::size_t left;
      Result<void> result;
      Done done;
    };
    const auto state = std::make_shared<State>(State{parts, {}, std::move(done)});
    for (std::size_t part = 0; part < parts; ++part) {
      const std::size_t first = pieces * part / parts;
      const std::size_t count = pieces * (part + 1) / parts - first;
      run([work, first, count](NodeStore& store) -> Result<void> { return work(store, first, count); },
          [state](Result<void> result) {
            if (state->result.ok()) state->result = std::move(result);
            if (--state->left == 0) state->done(std::move(state->result));
          });
    }
  }

 private:
  static constexpr std::size_t kPartPieces = 4;  // pieces in each part, at least
  static constexpr std::size_t kPartsMax = 8;

  const std::shared_ptr<NodeStore> store_;
  const Run run_;
  const std::shared_ptr<void> life_ = std::make_shared<char>();  // expires with this object
};

}  // namespace pharos::node
