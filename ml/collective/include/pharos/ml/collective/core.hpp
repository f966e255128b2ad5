#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator_options.hpp>

namespace pharos::ml::detail {

/// The state of a communicator, shared by its copies, Pendings and Buffers. It owns the backend, and turns the
/// backend's errors into exceptions: advance() and finish() throw the failure of all ranks, while begin() never does.
/// The backend, and with it the connections, ends with the last owner. One thread at a time.
class Core {
 public:
  Core(std::unique_ptr<Backend> backend, const CommunicatorOptions& options)
      : backend_{std::move(backend)}, options_{options} {}
  Core(Core&&) = delete;

  Backend& backend() { return *backend_; }
  const Backend& backend() const { return *backend_; }
  const CommunicatorOptions& options() const { return options_; }
  Duration timeout() const { return options_.timeout; }

  std::shared_ptr<Work> begin(const Operation& operation, const Places& places);
  bool advance(Work& work);
  void finish(Work& work);
  void join(Work& work);
  /// Waits like finish(), but does not throw if the operation fails.
  void let_end(Work& work);
  std::string recent_operations() const;

  /// The communicator over GPUs that was made of this one for that GPU, if anything still uses it; else nullptr.
  std::shared_ptr<Core> over_gpu(int gpu) const { return gpu == gpu_ ? over_gpu_.lock() : nullptr; }
  void set_over_gpu(int gpu, const std::shared_ptr<Core>& core) {
    gpu_ = gpu;
    over_gpu_ = core;
  }

 private:
  static constexpr std::size_t kRecent = 1000;
  struct Noted {
    std::uint64_t number;
    Operation operation;
    TimePoint began;
    TimePoint ended;  // TimePoint{} while the operation is under way
  };
  void look_after(Work& work);
  void note_end(const Work& work);

  const std::unique_ptr<Backend> backend_;
  const CommunicatorOptions options_;
  std::uint64_t last_ = 0;
  TimePoint next_look_{};  // when advance() next checks that all ranks are alive
  std::deque<Noted> recent_;
  int gpu_ = -1;
  std::weak_ptr<Core> over_gpu_;
};

}  // namespace pharos::ml::detail
