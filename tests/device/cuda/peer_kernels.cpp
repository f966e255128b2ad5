// The kernels of ml/nccl for simulated devices: the same work, by the thread of a stream. The order checker sees what
// is done with this rank's own memory, as if this rank's work did all of it; that other ranks write to it only between
// the two waits, the results show.

#include "peers/peer_kernels.hpp"

#include <atomic>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <pharos/ml/collective/operation.hpp>

#include "memory.hpp"
#include "queues.hpp"

namespace pharos::ml {
namespace {

using simulated::memory;
using simulated::order;

simulated::Queue& queue_of(cudaStream_t stream) {
  return *reinterpret_cast<simulated::Queue*>(stream);
}

/// The address that a kernel uses.
std::byte* place_of(const void* address) {
  const bool is_of_device = memory().device_of(address).has_value();
  return static_cast<std::byte*>(is_of_device ? simulated::Memory::for_kernels(address) : const_cast<void*>(address));
}

bool has_ended(const PeerRound& round) {
  return std::atomic_ref{*const_cast<std::uint32_t*>(round.ended)}.load(std::memory_order_acquire) != 0;
}

/// Where the data of each rank begins; nothing if there is nothing to do.
struct Data {
  std::vector<std::byte*> at{};
  std::vector<std::uint64_t> stride{};
};
Data read_lines(const PeerRound& round) {
  if (has_ended(round)) return {};
  Data data;
  for (std::uint32_t writer = 0; writer < round.ranks; ++writer) {
    PeerLine& line = round.lines[round.rank * round.ranks + writer];
    const std::uint64_t what = std::atomic_ref{line.what}.load(std::memory_order_acquire);
    if (what != round.what || line.elements != round.elements) return {};
    data.at.push_back(place_of(reinterpret_cast<const void*>(line.at)));
    data.stride.push_back(line.stride);
  }
  return data;
}

template <class T>
auto widened(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return to_float(value);
  } else {
    return value;
  }
}
template <class T, class W>
T narrowed(W value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_half(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
T element_at(const std::byte* data, std::uint64_t i) {
  T element;
  std::memcpy(&element, data + i * sizeof element, sizeof element);
  return element;
}

template <class T>
void reduce_as(const std::vector<std::byte*>& from, const PeerReduction& what) {
  using W = decltype(widened(T{}));
  std::byte* const to_one = what.to == nullptr ? nullptr : place_of(what.to);
  for (std::uint64_t i = 0; i < what.elements; ++i) {
    W sum = widened(element_at<T>(from[0], i));
    for (std::size_t rank = 1; rank < from.size(); ++rank) {
      const W next = widened(element_at<T>(from[rank], i));
      switch (what.reduction) {
        case Reduction::kMax: sum = sum > next || sum != sum ? sum : next; break;
        case Reduction::kMin: sum = sum < next || sum != sum ? sum : next; break;
        case Reduction::kSum:
        case Reduction::kMean: sum = static_cast<W>(sum + next); break;
      }
    }
    if (what.reduction == Reduction::kMean) sum = static_cast<W>(sum / static_cast<W>(from.size()));
    const T out = narrowed<T>(sum);
    if (to_one != nullptr) {
      std::memcpy(to_one + i * sizeof out, &out, sizeof out);
    } else {
      for (std::byte* const each : from) std::memcpy(each + i * sizeof out, &out, sizeof out);
    }
  }
}

void reduce(const std::vector<std::byte*>& from, const PeerReduction& what) {
  switch (what.dtype) {
    case DType::kU8: return reduce_as<std::uint8_t>(from, what);
    case DType::kI8: return reduce_as<std::int8_t>(from, what);
    case DType::kI32: return reduce_as<std::int32_t>(from, what);
    case DType::kI64: return reduce_as<std::int64_t>(from, what);
    case DType::kF16: return reduce_as<Half>(from, what);
    case DType::kBF16: return reduce_as<BFloat16>(from, what);
    case DType::kF32: return reduce_as<float>(from, what);
    case DType::kF64: return reduce_as<double>(from, what);
  }
}

/// Tells all ranks a number in their lines of this one.
void tell(const PeerRound& round, const std::function<void(PeerLine& line, std::uint32_t reader)>& write) {
  if (has_ended(round)) return;
  for (std::uint32_t reader = 0; reader < round.ranks; ++reader) {
    write(round.lines[reader * round.ranks + round.rank], reader);
  }
}
void store(std::uint32_t& place, std::uint32_t number) {
  std::atomic_ref{place}.store(number, std::memory_order_release);
}

}  // namespace

cudaError_t tell_here(const PeerRound& round, const PeerPlace& place, cudaStream_t stream) {
  simulated::Queue& queue = queue_of(stream);
  constexpr int kKindBegins = 48;
  const bool writes = (round.what >> kKindBegins & 0xff) == static_cast<std::uint64_t>(Operation::Kind::kAllReduce);
  memory().note(order().begin(queue.number()), reinterpret_cast<const void*>(place.at[round.rank]), 1, writes,
                "tell_here");
  queue.push([round, place] {
    tell(round, [&](PeerLine& line, std::uint32_t reader) {
      line.at = place.at[reader];
      line.stride = place.stride;
      line.elements = round.elements;
      std::atomic_ref{line.what}.store(round.what, std::memory_order_release);
      store(line.came, round.number);
      store(line.here, round.number);
    });
  });
  return cudaSuccess;
}

cudaError_t tell_done(const PeerRound& round, cudaStream_t stream) {
  queue_of(stream).push([round] {
    tell(round, [&](PeerLine& line, std::uint32_t) {
      store(line.did, round.number);
      store(line.done, round.number);
    });
  });
  return cudaSuccess;
}

cudaError_t reduce_peers(const PeerRound& round, const PeerReduction& what, cudaStream_t stream) {
  simulated::Queue& queue = queue_of(stream);
  memory().note(order().begin(queue.number()), what.to, what.elements * size_of(what.dtype), true, "reduce_peers");
  queue.push([round, what] {
    Data data = read_lines(round);
    if (data.at.empty()) return;
    for (std::size_t rank = 0; rank < data.at.size(); ++rank)
      data.at[rank] += what.piece * data.stride[rank] + what.offset;
    reduce(data.at, what);
  });
  return cudaSuccess;
}

cudaError_t copy_peers(const PeerRound& round, const PeerCopy& what, cudaStream_t stream) {
  simulated::Queue& queue = queue_of(stream);
  const auto piece = order().begin(queue.number());
  for (std::uint32_t rank = what.first; rank < what.last; ++rank) {
    memory().note(piece, what.to + (rank - what.first) * what.to_stride, what.bytes, true, "copy_peers");
  }
  queue.push([round, what] {
    const Data data = read_lines(round);
    if (data.at.empty()) return;
    for (std::uint32_t rank = what.first; rank < what.last; ++rank) {
      const std::byte* const from = data.at[rank] + what.piece * data.stride[rank];
      std::memmove(place_of(what.to + (rank - what.first) * what.to_stride), from, what.bytes);
    }
  });
  return cudaSuccess;
}

}  // namespace pharos::ml
