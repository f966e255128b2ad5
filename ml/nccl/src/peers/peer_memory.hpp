#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <pharos/base/result.hpp>
#include <pharos/ml/communicator.hpp>

namespace pharos::ml {

/// Memory of this rank's GPU that the GPUs of all ranks use. Owned by PeerGroup; its functions are called on the GPU's
/// device. One thread at a time.
///
/// CUDA may hand out memory of one process to another (CUDA IPC), and GPUs of one process use each other's memory
/// directly. To free memory that another process still uses is not allowed, so memory that is given back is kept, and
/// used again. The destructor frees it: all ranks should have called forget_others() before.
class PeerMemory {
 public:
  /// Where a memory is: for each rank, the address at which its GPU sees it.
  using Addresses = std::vector<std::byte*>;

  PeerMemory(Communicator host, int device) : host_{std::move(host)}, device_{device} {}
  PeerMemory(PeerMemory&&) = delete;
  ~PeerMemory();

  /// All ranks call it together, with the same size. If it fails on this rank, the others wait for it until the
  /// caller makes the host's communicator fail.
  Result<std::byte*> allocate(std::size_t bytes);
  /// The same, but nullptr on all ranks if the GPUs of two of them cannot use each other's memory. For the first
  /// memory.
  Result<std::byte*> try_allocate(std::size_t bytes);
  /// Ignores memory that it does not know.
  void free(std::byte* memory);
  /// The addresses of the byte at `begin`; nothing unless the whole range is in memory that was allocated here.
  std::optional<Addresses> find(const std::byte* begin, std::size_t bytes) const;
  /// Ends the use of other ranks' memory.
  void forget_others();

 private:
  struct FreeOnGpu {
    void operator()(std::byte* memory) const { ::cudaFree(memory); }
  };
  struct Piece {
    std::unique_ptr<std::byte, FreeOnGpu> memory{};
    std::size_t bytes = 0;
    std::uint64_t number = 0;
    Addresses addresses{};
  };
  /// What other processes need to use a piece.
  struct Card {
    std::array<std::byte, 16> process{};
    std::uint64_t address = 0;  // in that process
    std::uint64_t number = 0;   // of the piece
    cudaIpcMemHandle_t handle{};
    std::int32_t device = 0;
  };
  struct Opened {
    std::byte* memory;
    bool is_mapped;  // and not memory of this process
  };

  Result<Piece> take(std::size_t bytes);
  Result<Card> card_of(const Piece& piece) const;
  Result<std::vector<Card>> exchange(const Card& own);
  Result<void> open(const std::vector<Card>& cards);
  Error cause_of(Error refused);
  Result<std::byte*> open_one(const Card& card);
  Result<std::byte*> keep(Piece piece, const std::vector<Card>& cards);

  Communicator host_;
  const int device_;
  std::uint64_t made_ = 0;
  std::map<const std::byte*, Piece> used_;
  std::vector<Piece> spare_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, Opened> opened_;  // by rank and number
};

}  // namespace pharos::ml
