#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include <pharos/ml/communicator.hpp>

#include "backend.hpp"

namespace pharos::ml::detail {

/// What a communicator and its operations share.
class Core {
 public:
  Core(std::unique_ptr<Backend> backend, const CommunicatorOptions& options)
      : backend_{std::move(backend)}, options_{options} {}
  Core(Core&&) = delete;

  Backend& backend() { return *backend_; }
  Duration timeout() const { return options_.timeout; }

  std::shared_ptr<Work> begin(const Operation& operation, const Places& places);
  bool advance(Work& work);
  void finish(Work& work);
  /// Without throwing what has failed.
  void let_end(Work& work);
  std::string recent_operations() const;

 private:
  static constexpr std::size_t kRecent = 1000;
  struct Noted {
    std::uint64_t number;
    Operation operation;
    TimePoint began;
    TimePoint ended;  // none: it has not
  };
  void look_after(Work& work);
  void note_end(const Work& work);

  const std::unique_ptr<Backend> backend_;
  const CommunicatorOptions options_;
  std::uint64_t last_ = 0;
  TimePoint next_look_{};  // at whether all ranks live, for those that ask and do not wait
  std::deque<Noted> recent_;
};

}  // namespace pharos::ml::detail
