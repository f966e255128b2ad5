#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/graph.hpp>

namespace pharos::ml {
namespace {

constexpr int kCallsBefore = 3;

std::atomic<detail::MakeRecording> registered = nullptr;

[[noreturn]] void refuse_to_record(std::string what, std::string remedy) {
  throw_error(Error{ErrorCode::kFailedPrecondition, std::move(what), std::move(remedy)});
}

std::unique_ptr<detail::Recording> make_recording() {
  const detail::MakeRecording make = registered;
  if (make == nullptr) {
    refuse_to_record("work for GPUs cannot be recorded without libpharos_cuda.so",
                     "It lies beside libpharos_ml.so, if Pharos was built where CUDA is. ml::gpu() loads it.");
  }
  return make();
}

}  // namespace

void detail::register_recordings(MakeRecording make) {
  registered = make;
}

// The work is recorded on a stream of its own: CUDA cannot record its default stream. The calls before are made there,
// too, because autograd remembers on which stream a parameter's gradient was computed first.
Graph::Graph(at::Device device, std::function<void()> work) : work_{std::move(work)} {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard{device.type()};
  const c10::Stream before = guard.getStream(device);
  const c10::Stream own = guard.getNewStream(device);
  c10::Event begins{device.type()};
  c10::Event ended{device.type()};
  begins.record(before);
  {
    const c10::StreamGuard on_own{own};
    begins.block(own);
    for (int i = 0; i < kCallsBefore; ++i) work_();
    recording_ = make_recording();
    try {
      recording_->begin();
      work_();
      recording_->end();
    } catch (const c10::Error& error) {
      recording_ = nullptr;
      const std::string_view said = error.what_without_backtrace();
      refuse_to_record(
          "the work of a Graph cannot be recorded: " + std::string{said.substr(0, said.find('\n'))},
          "It may not wait for the GPU, as item() and cpu() do, nor communicate with other ranks. Let go of the "
          "losses of earlier steps: as long as one is kept, gradients go to the stream of before.");
    } catch (...) {
      recording_ = nullptr;
      throw;
    }
    ended.record(own);
  }
  ended.block(before);
}

Graph::~Graph() = default;

void Graph::run() {
  if (recording_ == nullptr) return work_();
  recording_->run();
}

}  // namespace pharos::ml
