// NCCL's contract between simulated devices. An operation is a piece of work on the caller's stream: it waits there for
// the other ranks, and the host does not. If a rank is gone, the operation waits until ncclCommAbort, and
// ncclCommGetAsyncError says ncclRemoteError. Ranks are threads or processes of one machine, and are connected by Unix
// sockets. All ranks reduce in the order of the ranks, so they get the same bits.

#include "nccl.hpp"

#include <ATen/ATen.h>
#include <nccl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/base/check.hpp>
#include <pharos/base/fd.hpp>

#include "memory.hpp"
#include "queues.hpp"

namespace {

using namespace std::chrono_literals;
using namespace pharos::simulated;
using pharos::Fd;
using Bytes = std::vector<std::byte>;

constexpr int kLookTime = 2;         // milliseconds between looks at whether the communicator was aborted
constexpr auto kLaunchTime = 100us;  // for so long a call is in progress

// ---- What the ranks send each other

struct Part {
  int peer = 0;
  Bytes bytes{};
};

/// The sockets of one rank to all others. One thread at a time.
class Mesh {
 public:
  Mesh(std::string name, int rank, int ranks)
      : name_{std::move(name)}, rank_{rank}, sockets_(static_cast<std::size_t>(ranks)) {}

  /// Connects to all ranks. Returns false if `aborted` is set before that.
  bool connect(const std::atomic<bool>& aborted);
  /// Sends each part of `out`, and receives each part of `in`, which has the size that is expected. Returns false if a
  /// rank is gone. Parts of one peer go in their order.
  bool exchange(const std::vector<Part>& out, std::vector<Part>& in, const std::atomic<bool>& aborted);

 private:
  struct Transfer {
    int socket;
    short event;
    std::byte* at;
    std::size_t left;
  };
  static bool move(Transfer& transfer);
  Fd listen() const;
  sockaddr_un address_of(int rank) const;
  bool accept_one(int listening, const std::atomic<bool>& aborted);
  bool connect_to(int rank, const std::atomic<bool>& aborted);

  const std::string name_;
  const int rank_;
  std::vector<Fd> sockets_;  // by rank
};

sockaddr_un Mesh::address_of(int rank) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "pharos-nccl-" + name_ + "-" + std::to_string(rank);
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);  // a name without a file: it ends with its process
  return address;
}

Fd Mesh::listen() const {
  Fd listening{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const sockaddr_un own = address_of(rank_);
  PHAROS_CHECK(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0, errno);
  PHAROS_CHECK(::listen(listening.get(), static_cast<int>(sockets_.size())) == 0, errno);
  return listening;
}

bool Mesh::accept_one(int listening, const std::atomic<bool>& aborted) {
  pollfd waited{.fd = listening, .events = POLLIN, .revents = 0};
  while (::poll(&waited, 1, kLookTime) == 0) {
    if (aborted) return false;
  }
  Fd socket{::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)};
  PHAROS_CHECK(static_cast<bool>(socket), errno);
  std::int32_t rank = 0;
  if (::recv(socket.get(), &rank, sizeof rank, MSG_WAITALL) != sizeof rank) return false;
  sockets_.at(static_cast<std::size_t>(rank)) = std::move(socket);
  return true;
}

bool Mesh::connect_to(int rank, const std::atomic<bool>& aborted) {
  const sockaddr_un its = address_of(rank);
  Fd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&its), sizeof its) != 0) {
    if (aborted) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{kLookTime});  // that rank does not listen yet
  }
  const std::int32_t own = rank_;
  if (::send(socket.get(), &own, sizeof own, MSG_NOSIGNAL) != sizeof own) return false;
  sockets_.at(static_cast<std::size_t>(rank)) = std::move(socket);
  return true;
}

bool Mesh::connect(const std::atomic<bool>& aborted) {
  const Fd listening = listen();
  for (int rank = 0; rank < rank_; ++rank) {
    if (!connect_to(rank, aborted)) return false;
  }
  for (auto rank = static_cast<std::size_t>(rank_) + 1; rank < sockets_.size(); ++rank) {
    if (!accept_one(listening.get(), aborted)) return false;
  }
  return true;
}

/// Moves what can be moved without waiting. Returns false if the other rank is gone.
bool Mesh::move(Transfer& transfer) {
  while (transfer.left != 0) {
    const ssize_t n = transfer.event == POLLOUT
                          ? ::send(transfer.socket, transfer.at, transfer.left, MSG_NOSIGNAL | MSG_DONTWAIT)
                          : ::recv(transfer.socket, transfer.at, transfer.left, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    transfer.at += n;
    transfer.left -= static_cast<std::size_t>(n);
  }
  return true;
}

bool Mesh::exchange(const std::vector<Part>& out, std::vector<Part>& in, const std::atomic<bool>& aborted) {
  std::vector<Transfer> transfers;
  const auto socket_of = [&](const Part& part) { return sockets_.at(static_cast<std::size_t>(part.peer)).get(); };
  for (const Part& each : out) {
    transfers.push_back({socket_of(each), POLLOUT, const_cast<std::byte*>(each.bytes.data()), each.bytes.size()});
  }
  for (Part& each : in) transfers.push_back({socket_of(each), POLLIN, each.bytes.data(), each.bytes.size()});
  while (!aborted) {
    // Several parts may go through one socket in one direction: the first goes first.
    std::vector<std::pair<int, short>> busy;
    std::vector<pollfd> waited;
    for (Transfer& each : transfers) {
      const std::pair key{each.socket, each.event};
      if (each.left == 0 || std::ranges::find(busy, key) != busy.end()) continue;
      if (!move(each)) return false;
      if (each.left == 0) continue;
      busy.push_back(key);
      waited.push_back({.fd = each.socket, .events = each.event, .revents = 0});
    }
    if (waited.empty()) return true;
    ::poll(waited.data(), waited.size(), kLookTime);
  }
  return false;
}

// ---- Communicators

at::ScalarType type_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return at::kChar;
    case ncclUint8: return at::kByte;
    case ncclInt32: return at::kInt;
    case ncclInt64: return at::kLong;
    case ncclFloat16: return at::kHalf;
    case ncclFloat32: return at::kFloat;
    case ncclFloat64: return at::kDouble;
    case ncclBfloat16: return at::kBFloat16;
  }
  return at::kByte;
}

/// A communicator, which its owner and the operations on streams share.
class State {
 public:
  State(std::string name, int rank, int ranks) : rank_{rank}, ranks_{ranks}, mesh_{std::move(name), rank, ranks} {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  void start(bool waits) {
    state_ = ncclInProgress;
    starting_ = std::thread{[this] { state_ = mesh_.connect(aborted_) ? ncclSuccess : ncclSystemError; }};
    if (waits) starting_.join();
  }
  ncclResult_t state() const {
    const ncclResult_t now = state_;
    if (now == ncclSuccess && (std::chrono::steady_clock::now() < launched_.load() + kLaunchTime || finishes())) {
      return ncclInProgress;
    }
    return now;
  }
  /// The operation that was queued last.
  void note_launch(Queue& queue, std::uint64_t work) {
    launched_ = std::chrono::steady_clock::now();
    last_queue_ = &queue;
    last_work_ = work;
  }
  void finish() { is_finished_ = true; }
  void end(bool aborts) {
    if (aborts) aborted_ = true;
    if (starting_.joinable()) starting_.join();
    if (last_queue_ != nullptr) last_queue_->wait(last_work_);
  }

  /// On a stream: exchanges parts with other ranks. If one of them is gone, waits until the communicator is aborted,
  /// and returns false.
  bool exchange(const std::vector<Part>& out, std::vector<Part>& in) {
    const std::lock_guard lock{mutex_};
    if (mesh_.exchange(out, in, aborted_)) return true;
    if (!aborted_) state_ = ncclRemoteError;
    while (!aborted_) std::this_thread::sleep_for(std::chrono::milliseconds{kLookTime});
    return false;
  }

 private:
  bool finishes() const { return is_finished_ && last_queue_ != nullptr && !last_queue_->is_idle(); }

  const int rank_;
  const int ranks_;
  Mesh mesh_;
  std::mutex mutex_;
  std::thread starting_;
  std::atomic<bool> aborted_ = false;
  std::atomic<bool> is_finished_ = false;
  std::atomic<ncclResult_t> state_ = ncclInProgress;
  std::atomic<std::chrono::steady_clock::time_point> launched_{};
  Queue* last_queue_ = nullptr;
  std::uint64_t last_work_ = 0;
};

Bytes bytes_at(const void* address, std::size_t size) {
  const auto* const begin = static_cast<const std::byte*>(address);
  return {begin, begin + size};
}

/// The parts that one rank gets from all others, in the order of the ranks; its own part is among them.
using Parts = std::vector<Bytes>;

/// Gives `piece_of(r)` to each rank r, and returns what all ranks gave to this one. Empty if that was aborted.
Parts from_all(State& state, std::size_t bytes, const std::function<Bytes(int rank)>& piece_of) {
  std::vector<Part> out;
  std::vector<Part> in;
  for (int rank = 0; rank < state.ranks(); ++rank) {
    if (rank == state.rank()) continue;
    out.push_back({rank, piece_of(rank)});
    in.push_back({rank, Bytes(bytes)});
  }
  if (!state.exchange(out, in)) return {};
  Parts parts(static_cast<std::size_t>(state.ranks()));
  for (Part& each : in) parts[static_cast<std::size_t>(each.peer)] = std::move(each.bytes);
  parts[static_cast<std::size_t>(state.rank())] = piece_of(state.rank());
  return parts;
}

void reduce(Parts& parts, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction) {
  const auto view = [&](void* memory) {
    return at::from_blob(memory, {static_cast<std::int64_t>(count)}, type_of(type));
  };
  at::Tensor sum = view(parts.front().data());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const at::Tensor next = view(parts[i].data());
    switch (reduction) {
      case ncclMax: sum.copy_(at::maximum(sum, next)); break;
      case ncclMin: sum.copy_(at::minimum(sum, next)); break;
      case ncclSum:
      case ncclAvg: sum.add_(next); break;
    }
  }
  if (reduction == ncclAvg) {
    const auto ranks = static_cast<std::int64_t>(parts.size());
    sum.copy_(sum.is_floating_point() ? at::div(sum, ranks) : at::div(sum, ranks, "trunc"));
  }
  view(to).copy_(sum);
}

/// An operation of a group of sends and receives.
struct InGroup {
  std::shared_ptr<State> state;
  Queue* queue;
  bool sends;
  const void* from;
  void* to;
  std::size_t bytes;
  int peer;
};
thread_local int group_depth = 0;
thread_local std::vector<InGroup> group;

}  // namespace

struct ncclComm {
  std::shared_ptr<State> state;
};

namespace {

/// Queues an operation that reads and writes these bytes of the device.
ncclResult_t launch(ncclComm_t comm, cudaStream_t stream, const char* name, const void* from, std::size_t from_bytes,
                    void* to, std::size_t to_bytes, std::function<void(State&, const void* from, void* to)> run) {
  Queue& queue = *reinterpret_cast<Queue*>(stream);
  const auto piece = order().begin(queue.number());
  memory().note(piece, from, from_bytes, false, name);
  memory().note(piece, to, to_bytes, true, name);
  const auto work = queue.push([state = comm->state, from = Memory::for_kernels(from), to = Memory::for_kernels(to),
                                run = std::move(run)] { run(*state, from, to); });
  comm->state->note_launch(queue, work);
  return ncclInProgress;
}

std::size_t bytes_of(std::size_t count, ncclDataType_t type) {
  return count * c10::elementSize(type_of(type));
}

/// All operations of the group run at the same time, so two ranks may send to each other.
ncclResult_t launch_group() {
  const auto all = std::exchange(group, {});
  if (all.empty()) return ncclSuccess;
  Queue& queue = *all.front().queue;
  const auto piece = order().begin(queue.number());
  for (const InGroup& each : all) {
    memory().note(piece, each.sends ? each.from : each.to, each.bytes, !each.sends,
                  each.sends ? "ncclSend" : "ncclRecv");
  }
  const auto work = queue.push([all] {
    State& state = *all.front().state;
    std::vector<Part> out;
    std::vector<Part> in;
    Bytes to_self;
    for (const InGroup& each : all) {
      if (each.peer == state.rank()) {
        if (each.sends) to_self = bytes_at(Memory::for_kernels(each.from), each.bytes);
      } else if (each.sends) {
        out.push_back({each.peer, bytes_at(Memory::for_kernels(each.from), each.bytes)});
      } else {
        in.push_back({each.peer, Bytes(each.bytes)});
      }
    }
    if (!state.exchange(out, in)) return;
    auto next = in.begin();
    for (const InGroup& each : all) {
      if (each.sends) continue;
      const Bytes& got = each.peer == state.rank() ? to_self : (next++)->bytes;
      std::memcpy(Memory::for_kernels(each.to), got.data(), got.size());
    }
  });
  all.front().state->note_launch(queue, work);
  return ncclInProgress;
}

}  // namespace

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::array<unsigned char, 8> random{};
  PHAROS_CHECK(::getrandom(random.data(), random.size(), 0) == static_cast<ssize_t>(random.size()), errno);
  *id = {};
  for (std::size_t i = 0; i < random.size(); ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    id->internal[2 * i] = kDigits[random[i] / 16];
    id->internal[2 * i + 1] = kDigits[random[i] % 16];
  }
  return ncclSuccess;
}

std::atomic<int>& pharos::simulated::nccl_communicators() {
  static std::atomic<int> made = 0;
  return made;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (rank < 0 || rank >= ranks) return ncclInvalidArgument;
  ++nccl_communicators();
  *comm = new ncclComm{std::make_shared<State>(id.internal, rank, ranks)};
  (*comm)->state->start(config->blocking != 0);
  return config->blocking != 0 ? (*comm)->state->state() : ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->state->state();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->state->finish();
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->state->end(/*aborts=*/false);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->state->end(/*aborts=*/true);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = bytes_of(count, type);
  return launch(comm, stream, "ncclAllReduce", from, bytes, to, bytes,
                [=](State& state, const void* source, void* target) {
                  Parts parts = from_all(state, bytes, [&](int) { return bytes_at(source, bytes); });
                  if (!parts.empty()) reduce(parts, target, count, type, reduction);
                });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = bytes_of(count, type);
  const auto ranks = static_cast<std::size_t>(comm->state->ranks());
  return launch(comm, stream, "ncclReduceScatter", from, bytes * ranks, to, bytes,
                [=](State& state, const void* source, void* target) {
                  Parts parts = from_all(state, bytes, [&](int rank) {
                    return bytes_at(static_cast<const std::byte*>(source) + static_cast<std::size_t>(rank) * bytes,
                                    bytes);
                  });
                  if (!parts.empty()) reduce(parts, target, count, type, reduction);
                });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const std::size_t bytes = bytes_of(count, type);
  const auto ranks = static_cast<std::size_t>(comm->state->ranks());
  return launch(comm, stream, "ncclAllGather", from, bytes, to, bytes * ranks,
                [=](State& state, const void* source, void* target) {
                  const Parts parts = from_all(state, bytes, [&](int) { return bytes_at(source, bytes); });
                  auto* place = static_cast<std::byte*>(target);
                  for (const Bytes& each : parts) place = std::copy(each.begin(), each.end(), place);
                });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t bytes = bytes_of(count, type);
  const bool is_root = comm->state->rank() == root;
  return launch(comm, stream, "ncclBroadcast", from, is_root ? bytes : 0, to, bytes,
                [=](State& state, const void* source, void* target) {
                  std::vector<Part> out;
                  std::vector<Part> in;
                  for (int rank = 0; is_root && rank < state.ranks(); ++rank) {
                    if (rank != root) out.push_back({rank, bytes_at(source, bytes)});
                  }
                  if (!is_root) in.push_back({root, Bytes(bytes)});
                  if (!state.exchange(out, in)) return;
                  std::memmove(target, is_root ? source : in.front().bytes.data(), bytes);
                });
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  group.push_back({comm->state, reinterpret_cast<Queue*>(stream), true, from, nullptr, bytes_of(count, type), peer});
  return group_depth == 0 ? launch_group() : ncclSuccess;
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  group.push_back({comm->state, reinterpret_cast<Queue*>(stream), false, nullptr, to, bytes_of(count, type), peer});
  return group_depth == 0 ? launch_group() : ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  return --group_depth == 0 ? launch_group() : ncclSuccess;
}
