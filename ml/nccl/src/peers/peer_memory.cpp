#include "peers/peer_memory.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <pharos/base/check.hpp>
#include <pharos/base/log.hpp>
#include <pharos/ml/nccl/failpoints.hpp>

#include "cuda_calls.hpp"

namespace pharos::ml {
namespace {

// CUDA hands out whole blocks of this size. A piece that is smaller would lie somewhere in a block.
constexpr std::size_t kBlock = std::size_t{2} << 20;
constexpr std::size_t kWasteMax = 2;  // a piece may be this many times as large as needed
constexpr Duration kDyingTime = std::chrono::seconds{1};
constexpr Duration kLookForDeathTime = std::chrono::milliseconds{10};

using ProcessId = std::array<std::byte, 16>;
/// Tells this process from all others, also from those of other containers.
const ProcessId& this_process() {
  static const ProcessId id = [] {
    ProcessId random{};
    PHAROS_CHECK(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()), errno);
    return random;
  }();
  return id;
}

}  // namespace

PeerMemory::~PeerMemory() {
  forget_others();
}

Result<std::byte*> PeerMemory::allocate(std::size_t bytes) {
  PHAROS_TRY(Piece piece, take(bytes));
  PHAROS_TRY(const Card own, card_of(piece));
  PHAROS_TRY(const auto cards, exchange(own));
  PHAROS_TRY_VOID(open(cards));
  return keep(std::move(piece), cards);
}

Result<std::byte*> PeerMemory::try_allocate(std::size_t bytes) {
  PHAROS_TRY(Piece piece, take(bytes));
  Result<Card> own = card_of(piece);
  PHAROS_TRY(const auto cards, exchange(own ? *own : Card{}));
  const Result<void> opened = own ? open(cards) : own.error();
  std::int32_t lacks = opened ? 0 : 1;
  PHAROS_TRY_VOID(tried([&] { host_.all_reduce(std::span{&lacks, 1}, Reduction::kMax); }));
  if (lacks == 0) return keep(std::move(piece), cards);
  if (!opened) {
    log(LogLevel::kWarn, "this GPU and those of the other ranks cannot use each other's memory",
        {kv("why", opened.error().to_string())});
  }
  forget_others();
  // Nobody frees memory that another process still uses.
  PHAROS_TRY_VOID(tried([&] { host_.barrier(); }));
  return nullptr;
}

void PeerMemory::free(std::byte* memory) {
  const auto found = used_.find(memory);
  if (found == used_.end()) return;
  spare_.push_back(std::move(found->second));
  used_.erase(found);
}

std::optional<PeerMemory::Addresses> PeerMemory::find(const std::byte* begin, std::size_t bytes) const {
  auto found = used_.upper_bound(begin);
  if (found == used_.begin()) return std::nullopt;
  const Piece& piece = (--found)->second;
  const auto offset = static_cast<std::size_t>(begin - piece.memory.get());
  if (offset > piece.bytes || bytes > piece.bytes - offset) return std::nullopt;
  Addresses all = piece.addresses;
  for (std::byte*& each : all) each += offset;
  return all;
}

void PeerMemory::forget_others() {
  for (const auto& [key, each] : opened_) {
    if (each.is_mapped) ::cudaIpcCloseMemHandle(each.memory);
  }
  opened_.clear();
}

Result<PeerMemory::Piece> PeerMemory::take(std::size_t bytes) {
  const std::size_t whole = std::max<std::size_t>((bytes + kBlock - 1) / kBlock, 1) * kBlock;
  const auto fits = std::ranges::find_if(
      spare_, [&](const Piece& each) { return each.bytes >= whole && each.bytes / kWasteMax <= whole; });
  if (fits != spare_.end()) {
    Piece piece = std::move(*fits);
    spare_.erase(fits);
    return piece;
  }
  void* memory = nullptr;
  PHAROS_TRY_VOID(done(::cudaMalloc(&memory, whole),
                       "taking " + std::to_string(whole) + " bytes of GPU " + std::to_string(device_)));
  Piece piece;
  piece.memory.reset(static_cast<std::byte*>(memory));
  piece.bytes = whole;
  piece.number = ++made_;
  return piece;
}

Result<PeerMemory::Card> PeerMemory::card_of(const Piece& piece) const {
  Card card{.process = this_process(),
            .address = reinterpret_cast<std::uint64_t>(piece.memory.get()),
            .number = piece.number,
            .device = device_};
  PHAROS_TRY_VOID(done(::cudaIpcGetMemHandle(&card.handle, piece.memory.get()), "sharing memory of the GPU"));
  return card;
}

Result<std::vector<PeerMemory::Card>> PeerMemory::exchange(const Card& own) {
  static_assert(std::is_trivially_copyable_v<Card>);
  std::vector<Card> all(host_.size());
  PHAROS_TRY_VOID(tried([&] {
    host_.all_gather(std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}));
  }));
  return all;
}

Result<void> PeerMemory::open(const std::vector<Card>& cards) {
  for (std::uint32_t rank = 0; rank < cards.size(); ++rank) {
    const std::pair key{rank, cards[rank].number};
    if (rank == host_.rank() || opened_.contains(key)) continue;
    auto memory = open_one(cards[rank]);
    if (!memory) return cause_of(std::move(memory).error());
    opened_.emplace(key, Opened{*memory, cards[rank].process != this_process()});
  }
  failpoint(failpoints::kGpuMemoryShared);
  return {};
}

// A process that dies loses its memory first, and the others see its end a little later.
Error PeerMemory::cause_of(Error refused) {
  for (Duration waited{}; waited < kDyingTime; waited += kLookForDeathTime) {
    if (auto fine = tried([&] { host_.check(); }); !fine) return std::move(fine).error();
    std::this_thread::sleep_for(kLookForDeathTime);
  }
  return refused;
}

Result<std::byte*> PeerMemory::open_one(const Card& card) {
  const std::string what = "using the memory of another rank's GPU";
  if (card.number == 0) return Error{ErrorCode::kFailedPrecondition, what + ": that rank cannot share it", ""};
  if (card.process != this_process()) {
    void* memory = nullptr;
    PHAROS_TRY_VOID(done(::cudaIpcOpenMemHandle(&memory, card.handle, cudaIpcMemLazyEnablePeerAccess), what));
    return static_cast<std::byte*>(memory);
  }
  if (card.device != device_) {
    const cudaError_t enabled = ::cudaDeviceEnablePeerAccess(card.device, 0);
    if (enabled != cudaErrorPeerAccessAlreadyEnabled) PHAROS_TRY_VOID(done(enabled, what));
    ::cudaGetLastError();  // CUDA keeps the error of the second time
  }
  return reinterpret_cast<std::byte*>(card.address);
}

/// Each rank tells each other at which address it sees the other's piece.
Result<std::byte*> PeerMemory::keep(Piece piece, const std::vector<Card>& cards) {
  std::vector<std::int64_t> told(cards.size());
  for (std::uint32_t rank = 0; rank < cards.size(); ++rank) {
    const std::byte* const seen =
        rank == host_.rank() ? piece.memory.get() : opened_.at({rank, cards[rank].number}).memory;
    told[rank] = reinterpret_cast<std::int64_t>(seen);
  }
  std::vector<std::int64_t> heard(cards.size());
  PHAROS_TRY_VOID(tried([&] { host_.all_to_all(std::span<const std::int64_t>{told}, std::span{heard}); }));
  piece.addresses.clear();
  std::ranges::transform(heard, std::back_inserter(piece.addresses),
                         [](std::int64_t each) { return reinterpret_cast<std::byte*>(each); });
  std::byte* const memory = piece.memory.get();
  used_.emplace(memory, std::move(piece));
  return memory;
}

}  // namespace pharos::ml
