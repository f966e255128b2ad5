#include <algorithm>
#include <chrono>
#include <string>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/failpoint.hpp>
#include <pharos/base/object_bytes.hpp>
#include <pharos/object_store/checksum.hpp>
#include <pharos/object_store/transfer.hpp>

namespace pharos::object_store {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMagic = 0x726566736e61'7254;
constexpr auto kRelayTime = 10s;  // how long a relay waits for the next chunk that it passes on
constexpr std::size_t kReasonMax = 1000;

struct Wanted {
  std::uint64_t magic = 0;
  Location object;
  std::uint64_t from = 0;     // NodeId
  std::uint64_t insists = 0;  // 0 or 1
};
static_assert(sizeof(Wanted) == 64, "nothing between the fields that would be sent unset");
struct Offered {
  std::uint64_t size = 0;
  std::uint64_t instead = 0;  // NodeId of the node to ask instead; 0 if there is none
  std::uint32_t code = 0;     // ErrorCode; 0 if the object is offered
  std::uint32_t message = 0;  // how many bytes of the reason follow
};
struct ChunkHeader {
  std::uint64_t index = 0;
  std::uint64_t checksum = 0;
};

Error corrupt(const char* what) {
  return {ErrorCode::kCorrupt, std::string{"another node sent "} + what};
}

}  // namespace

// ---- Chunks

Chunks::Chunks(std::span<const std::byte> bytes, std::span<std::byte> memory, std::shared_ptr<const void> owner)
    : bytes_{bytes}, memory_{memory}, owner_{std::move(owner)} {
  if (memory.empty()) return;
  here_ = std::make_unique<std::atomic<bool>[]>(count());
  sums_.resize(count());
}

std::shared_ptr<Chunks> Chunks::all_of(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  return std::shared_ptr<Chunks>{new Chunks{bytes, {}, std::move(owner)}};
}

std::shared_ptr<Chunks> Chunks::none_of(std::span<std::byte> memory, std::shared_ptr<const void> owner) {
  return std::shared_ptr<Chunks>{new Chunks{memory, memory, std::move(owner)}};
}

std::span<const std::byte> Chunks::chunk(std::size_t i) const {
  return bytes_.subspan(i * kChunkBytes, std::min(kChunkBytes, bytes_.size() - i * kChunkBytes));
}

std::span<std::byte> Chunks::room_for(std::size_t i) const {
  return memory_.subspan(i * kChunkBytes, std::min(kChunkBytes, memory_.size() - i * kChunkBytes));
}

void Chunks::arrived(std::size_t i, std::uint64_t checksum) {
  {
    const std::lock_guard lock{mutex_};
    sums_[i] = checksum;
    here_[i].store(true, std::memory_order_release);
  }
  arrived_.fetch_add(1, std::memory_order_relaxed);
  changed_.notify_all();
}

void Chunks::give_up(Error why) {
  {
    const std::lock_guard lock{mutex_};
    why_given_up_ = std::move(why);
  }
  changed_.notify_all();
}

Result<std::uint64_t> Chunks::checksum_of_chunk(std::size_t i, Duration patience) {
  if (sums_.empty()) return checksum_of(chunk(i));
  std::unique_lock lock{mutex_};
  const bool came = changed_.wait_for(lock, patience, [&] { return has(i) || why_given_up_; });
  if (has(i)) return sums_[i];
  if (!came) return Error{ErrorCode::kUnavailable, "the rest of the object did not come in time"};
  return *why_given_up_;
}

// ---- Sending

Result<PullRequest> receive_pull_request(Stream& from) {
  Wanted wanted;
  PHAROS_TRY_VOID(from.receive(room_of(wanted)));
  if (wanted.magic != kMagic || wanted.insists > 1) return corrupt("bytes that are not a request for an object");
  return PullRequest{wanted.object, NodeId{wanted.from}, wanted.insists != 0};
}

Result<void> send_chunks(Stream& to, Chunks& chunks) {
  const Offered offered{.size = chunks.size()};
  PHAROS_TRY_VOID(to.send(bytes_of(offered)));
  std::vector<std::uint8_t> missing((chunks.count() + 7) / 8);
  PHAROS_TRY_VOID(to.receive(std::as_writable_bytes(std::span{missing})));
  for (std::size_t i = 0; i < chunks.count(); ++i) {
    if ((missing[i / 8] >> i % 8 & 1) == 0) continue;
    PHAROS_TRY(const std::uint64_t checksum, chunks.checksum_of_chunk(i, kRelayTime));
    const ChunkHeader header{i, failpoint(Failpoint::kChunkSent) ? ~checksum : checksum};
    PHAROS_TRY_VOID(to.send(bytes_of(header), chunks.chunk(i)));
  }
  return {};
}

// If the receiver has gone, it needs no answer.
void send_on(Stream& to, NodeId instead) {
  const Offered offered{.instead = instead.value()};
  static_cast<void>(to.send(bytes_of(offered)));
}

void refuse(Stream& to, const Error& why) {
  const std::string message = why.message().substr(0, kReasonMax);
  const Offered refused{.code = static_cast<std::uint32_t>(why.code()),
                        .message = static_cast<std::uint32_t>(message.size())};
  if (to.send(bytes_of(refused))) static_cast<void>(to.send(std::as_bytes(std::span{message})));
}

// ---- Receiving

Result<std::optional<NodeId>> ask_for(Stream& from, const PullRequest& request, std::uint64_t size) {
  const Wanted wanted{kMagic, request.object, request.from.value(), request.insists ? 1U : 0U};
  PHAROS_TRY_VOID(from.send(bytes_of(wanted)));
  Offered offered;
  PHAROS_TRY_VOID(from.receive(room_of(offered)));
  if (offered.instead != 0) return std::optional{NodeId{offered.instead}};
  if (offered.code == 0) {
    if (offered.size != size) return corrupt("an object of another size");
    return std::optional<NodeId>{};
  }
  if (offered.message > kReasonMax) return corrupt("a reason that is too long");
  std::string message(offered.message, '\0');
  PHAROS_TRY_VOID(from.receive(std::as_writable_bytes(std::span{message})));
  const auto code = static_cast<ErrorCode>(offered.code);
  if (code != ErrorCode::kOwnerDied && code != ErrorCode::kObjectLost) {
    return Error{ErrorCode::kUnavailable, std::move(message)};
  }
  return lost(request.object, code == ErrorCode::kOwnerDied);
}

Result<void> receive_chunks(Stream& from, Chunks& chunks) {
  std::vector<std::uint8_t> missing((chunks.count() + 7) / 8);
  std::size_t left = 0;
  for (std::size_t i = 0; i < chunks.count(); ++i) {
    if (chunks.has(i)) continue;
    missing[i / 8] = static_cast<std::uint8_t>(missing[i / 8] | 1U << i % 8);
    ++left;
  }
  PHAROS_TRY_VOID(from.send(std::as_bytes(std::span{missing})));
  for (; left != 0; --left) {
    ChunkHeader header;
    PHAROS_TRY_VOID(from.receive(room_of(header)));
    if (header.index >= chunks.count() || chunks.has(header.index)) return corrupt("a chunk that was not missing");
    const auto room = chunks.room_for(header.index);
    PHAROS_TRY_VOID(from.receive(room));
    if (checksum_of(room) != header.checksum) return corrupt("a chunk that was damaged on its way");
    if (failpoint(Failpoint::kChunkReceived)) {
      return Error{ErrorCode::kUnavailable, "the stream has broken, says a failpoint"};
    }
    chunks.arrived(header.index, header.checksum);
  }
  return {};
}

}  // namespace pharos::object_store
