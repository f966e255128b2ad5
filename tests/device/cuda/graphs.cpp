// ml::Graph on simulated devices.

#include <memory>
#include <utility>

#include <pharos/ml/graph.hpp>

#include "recording.hpp"

namespace pharos::simulated {
namespace {

class GraphRecording final : public ml::detail::Recording {
 public:
  ~GraphRecording() override {
    if (queue_ != nullptr) queue_->record(nullptr);
    for (const Queue* const each : streams().all(Streams::device())) each->wait(each->queued());
  }
  void begin() override {
    queue_ = &streams().current(Streams::device());
    queue_->record(&work_);
  }
  void end() override { std::exchange(queue_, nullptr)->record(nullptr); }
  void run() override { work_.run_on(streams().current(Streams::device())); }

 private:
  RecordedWork work_;
  Queue* queue_ = nullptr;  // that records
};

[[maybe_unused]] const bool is_registered =
    (ml::detail::register_recordings(
         []() -> std::unique_ptr<ml::detail::Recording> { return std::make_unique<GraphRecording>(); }),
     true);

}  // namespace
}  // namespace pharos::simulated
