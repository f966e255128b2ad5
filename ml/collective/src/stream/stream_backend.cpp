#include "stream/stream_backend.hpp"

#include <utility>

namespace pharos::ml {

// ---- Making

Result<std::unique_ptr<StreamBackend>> StreamBackend::make(const Fd& listener,
                                                           const std::vector<std::string>& addresses,
                                                           const net::Key& key, std::uint32_t rank,
                                                           const CommunicatorOptions& options,
                                                           const StreamSteps& steps) {
  PHAROS_TRY(auto connections,
             connect_ranks(listener, addresses, key, rank, PeerSockets::kStreams, Deadline::in(options.timeout)));
  std::unique_ptr<StreamBackend> backend{new StreamBackend{rank, std::move(connections), options, steps}};
  PHAROS_TRY_VOID(backend->start());
  return backend;
}

StreamBackend::StreamBackend(std::uint32_t rank, Connections connections, const CommunicatorOptions& options,
                             const StreamSteps& steps)
    : rows_{rank, static_cast<std::uint32_t>(connections.size()), steps.lane},
      shortens_{options.bf16_over_tcp},
      last_(rows_.count()),
      sockets_{std::move(connections), options.bytes_per_second},
      requests_{[this] { sockets_.wake(); }, steps.heard},
      loop_{rows_, sockets_, requests_} {}

Result<void> StreamBackend::start() {
  PHAROS_TRY_VOID(loop_.start());
  thread_ = std::thread{[this] { loop_.run(); }};
  return {};
}

StreamBackend::~StreamBackend() {
  if (!thread_.joinable()) return;
  requests_.close();
  thread_.join();
}

// ---- Operations

std::shared_ptr<detail::Work> StreamBackend::begin(const Operation& operation, const detail::Places& places) {
  const bool is_message = operation.kind == Operation::Kind::kMessage;
  return begin(is_message ? Among::kTwo : Among::kAll, {operation, operation}, places);
}

std::shared_ptr<detail::Work> StreamBackend::begin(Among among, const detail::Step& step,
                                                   const detail::Places& places) {
  auto operation = make_operation(among, step, places);
  operation->ended = operation->plan.ended() && !failure();  // a rank alone has ended at once
  if (operation->ended) {
    operation->take_result();
    return operation;
  }
  requests_.add(operation);
  return operation;
}

std::shared_ptr<StreamOperation> StreamBackend::make_operation(Among among, const detail::Step& step,
                                                               const detail::Places& places) {
  const Operation& operation = step.operation;
  const Row row = rows_.row_of(among, operation);
  const OperationId order{row, ++last_[row]};
  const Team& team = rows_.team(among);
  const bool scatters = operation.kind == Operation::Kind::kReduceScatter;
  const bool reduces = scatters || operation.kind == Operation::Kind::kAllReduce;
  if (!shortens_ || !reduces || operation.dtype != DType::kF32) {
    return std::make_shared<StreamOperation>(among, team, order, step, places, buffers_);
  }
  const std::size_t results = scatters ? operation.count / team.ranks.size() : operation.count;
  const std::span<float> result{reinterpret_cast<float*>(places.to), results};
  auto floats =
      std::make_unique<ShortenedFloats>(reinterpret_cast<const float*>(places.from), operation.count, result, buffers_);
  detail::Step shorter = step;
  shorter.operation.dtype = shorter.of.dtype = DType::kBF16;  // so that ranks notice if only some of them convert
  const detail::Places short_places = floats->places();
  return std::make_shared<StreamOperation>(among, team, order, shorter, short_places, buffers_, std::move(floats));
}

Result<bool> StreamBackend::advance(detail::Work& work) {
  auto& operation = static_cast<StreamOperation&>(work);
  PHAROS_TRY(const bool has_ended, requests_.has_ended(operation));
  if (has_ended) operation.take_result();
  return has_ended;
}

Result<void> StreamBackend::finish(detail::Work& work, Duration time) {
  auto& operation = static_cast<StreamOperation&>(work);
  PHAROS_TRY_VOID(requests_.wait_for(operation, Deadline::in(time).when()));
  operation.take_result();
  return {};
}

void StreamBackend::waits(const detail::Work& work) {
  requests_.waits_for(static_cast<const StreamOperation&>(work).order);
}

Result<void> StreamBackend::check() {
  if (auto why = failure()) return *std::move(why);
  return {};
}

// ---- Memory

Result<std::byte*> StreamBackend::allocate(std::size_t bytes, Duration time) {
  const auto work = begin({.kind = Operation::Kind::kAllocate, .count = bytes}, {});
  PHAROS_TRY_VOID(finish(*work, time));
  if (std::byte* const memory = memory_.allocate(bytes)) return memory;
  const Error why{ErrorCode::kExhausted,
                  "cannot allocate " + std::to_string(bytes) + " bytes of memory on rank " + std::to_string(rank())};
  fail(why);
  return why;
}

}  // namespace pharos::ml
