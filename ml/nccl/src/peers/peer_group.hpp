#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include <pharos/base/result.hpp>
#include <pharos/ml/collective/backend.hpp>
#include <pharos/ml/communicator.hpp>

#include "gpu_group.hpp"
#include "gpu_memory.hpp"
#include "peers/host_pages.hpp"
#include "peers/peer_kernels.hpp"
#include "peers/peer_lines.hpp"
#include "peers/peer_memory.hpp"

namespace pharos::ml {

/// Ranks of one machine whose GPUs use each other's memory; several ranks may have the same GPU. Owned by GpuBackend.
///
/// An operation is a round, or several for much data. In a round each rank tells all others where its data is (a
/// PeerLine), its GPU waits until all have, works on its part of all data, tells that it has ended, and waits until all
/// have. All of this is work of one stream: the host gives it, and does not wait. Waiting occupies no processor of the
/// GPU, so ranks that share a GPU do not hold each other up.
///
/// Data in memory of allocate() is used where it is. Other data goes through a buffer of this rank, part by part. If
/// GPUs cannot use each other's memory, the buffers are in memory of the host.
class PeerGroup final : public GpuGroup {
 public:
  PeerGroup(const Communicator& host, int device) : host_{host}, shared_{host, device}, own_{device} {}
  ~PeerGroup() override;

  /// How the ranks reach each other's data: not at all, through memory of the host, or directly.
  enum class Reach : std::uint8_t { kNone, kHost, kDirect };
  /// All ranks call it together, and get the same answer. The ranks share memory of the host. A group that reaches
  /// nothing is of no use.
  Result<Reach> begin();

  Result<void> give(const Operation& operation, const detail::Places& places) override;
  cudaStream_t stream() const override { return stream_; }
  Result<bool> is_settled() override;
  Result<std::byte*> allocate(std::size_t bytes) override {
    return shares_ ? shared_.allocate(bytes) : own_.allocate(bytes);
  }
  void free(std::byte* memory) override {
    own_.free(memory);
    shared_.free(memory);
  }
  Result<void> begin_end() override;
  void end() override;
  void abort() override;

 private:
  struct Part;
  std::uint32_t rank() const { return host_.rank(); }
  std::uint32_t ranks() const { return host_.size(); }

  Result<bool> all_can(const Result<void>& this_one);
  Result<void> choose_buffer_size();
  Result<Reach> begin_buffers();
  Result<Reach> begin_buffers_on_host();
  Result<void> give_part(const Part& part);
  Result<PeerPlace> place_of(const Part& part);
  Result<void> work_on(const Part& part, const PeerRound& round);
  Result<void> wait_for_all(const std::uint32_t* (PeerLines::*number)(std::uint32_t writer) const);
  bool is_idle() const { return ::cudaStreamQuery(stream_) != cudaErrorNotReady; }

  Communicator host_;
  cudaStream_t stream_ = nullptr;
  std::optional<PeerLines> lines_;
  std::optional<HostPages> pages_;  // with the buffers of all ranks, if GPUs cannot use each other's memory
  bool shares_ = false;             // GPUs can use each other's memory, and there are others
  PeerMemory shared_;
  GpuMemory own_;
  std::size_t buffer_bytes_ = 0;
  PeerMemory::Addresses buffer_;
  std::uint32_t round_ = 0;  // the newest
  bool ends_ = false;
  bool has_ended_ = false;
};

}  // namespace pharos::ml
