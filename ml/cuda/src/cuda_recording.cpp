#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>
#include <memory>

#include <pharos/ml/graph.hpp>

namespace pharos::ml {
namespace {

/// Work that was recorded as a CUDA graph. It takes memory from a pool of its own.
class CudaRecording final : public detail::Recording {
 public:
  ~CudaRecording() override {
    if (stage_ == Stage::kBegun) forget();
    ::cudaDeviceSynchronize();  // an error of the GPU stays, and is told to whoever waits next
  }

  // What other threads give to the GPU or ask it meanwhile is neither recorded nor refused.
  void begin() override {
    stream_ = c10::cuda::getCurrentCUDAStream();
    graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    stage_ = Stage::kBegun;
  }
  void end() override {
    graph_.capture_end();
    stage_ = Stage::kEnded;
  }
  void run() override { graph_.replay(); }

 private:
  /// Ends a recording that has failed, so that the stream can be used again. CUDA says once more why it has failed.
  void forget() {
    cudaGraph_t part = nullptr;
    ::cudaStreamEndCapture(stream_, &part);
    if (part != nullptr) ::cudaGraphDestroy(part);
    c10::cuda::CUDACachingAllocator::endAllocateToPool(stream_.device_index(), pool_);
    c10::cuda::CUDACachingAllocator::releasePool(stream_.device_index(), pool_);
    ::cudaGetLastError();
  }

  enum class Stage : std::uint8_t { kNew, kBegun, kEnded } stage_ = Stage::kNew;
  const c10::MempoolId_t pool_ = at::cuda::graph_pool_handle();
  c10::cuda::CUDAStream stream_ = c10::cuda::getCurrentCUDAStream();
  at::cuda::CUDAGraph graph_;
};

std::unique_ptr<detail::Recording> make_recording() {
  return std::make_unique<CudaRecording>();
}

[[maybe_unused]] const bool registers_recordings = (detail::register_recordings(&make_recording), true);

}  // namespace
}  // namespace pharos::ml
