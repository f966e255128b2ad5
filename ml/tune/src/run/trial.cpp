#include <algorithm>
#include <charconv>
#include <limits>

#include <pharos/ml/communicator.hpp>
#include <pharos/ml/trial.hpp>

namespace pharos::ml {
namespace {

/// Sends the bytes of the first worker to the other workers, and returns them.
std::vector<std::byte> broadcast(Communicator& ranks, std::vector<std::byte> bytes) {
  auto size = static_cast<std::int64_t>(bytes.size());
  ranks.broadcast(std::span{&size, 1}, 0);
  bytes.resize(static_cast<std::size_t>(size));
  ranks.broadcast(std::span{reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}, 0);
  return bytes;
}

template <class T>
T broadcast_value(Communicator& ranks, const T& value) {
  auto bytes = to_bytes(value);
  if (!bytes) throw_error(std::move(bytes).error());
  auto same = from_bytes<T>(broadcast(ranks, *std::move(bytes)));
  if (!same) throw_error(std::move(same).error());
  return *std::move(same);
}

}  // namespace

// ---- Trial

namespace detail {
TrialConnection::~TrialConnection() = default;
}  // namespace detail

Communicator& Trial::communicator() const {
  if (communicator_ == nullptr) {
    throw_error(Error{ErrorCode::kFailedPrecondition, "this trial has only one worker, so it has no communicator",
                      "Set TunerOptions::workers to 2 or more, or check workers() first."});
  }
  return *communicator_;
}

std::uint32_t Trial::worker() const {
  return communicator_ == nullptr ? 0 : communicator_->rank();
}
std::uint32_t Trial::workers() const {
  return communicator_ == nullptr ? 1 : communicator_->size();
}

Value Trial::ask(std::string_view name, const Domain& domain) {
  if (const Value* const known = begin_.params.find(name); known != nullptr) {
    if (domain.holds(*known)) return *known;
    throw_error(Error{ErrorCode::kInvalidArgument,
                      "parameter \"" + std::string{name} + "\" of trial " + std::to_string(number()) +
                          " has the value " + to_string(*known) +
                          ", which is outside of the domain that is asked for: " + to_string(domain),
                      "Ask for a parameter with the same domain each time."});
  }
  Value value = worker() == 0 ? connection_.ask(std::string{name}, domain) : Value{};
  if (communicator_ != nullptr) value = broadcast_value(*communicator_, value);
  begin_.params.set(name, value);
  return value;
}

template <class T>
T Trial::asked(std::string_view name, const Domain& domain) {
  static_cast<void>(ask(name, domain));
  return begin_.params.get<T>(name);
}

double Trial::uniform(std::string_view name, double low, double high) {
  return asked<double>(name, ml::uniform(low, high));
}
double Trial::log_uniform(std::string_view name, double low, double high) {
  return asked<double>(name, ml::log_uniform(low, high));
}
double Trial::quantised(std::string_view name, double low, double high, double step) {
  return asked<double>(name, ml::quantised(low, high, step));
}
std::int64_t Trial::integer(std::string_view name, std::int64_t low, std::int64_t high, std::int64_t step) {
  return asked<std::int64_t>(name, integers(low, high, step));
}
std::int64_t Trial::log_integer(std::string_view name, std::int64_t low, std::int64_t high) {
  return asked<std::int64_t>(name, log_integers(low, high));
}
double Trial::normal(std::string_view name, double mean, double deviation) {
  return asked<double>(name, ml::normal(mean, deviation));
}
std::string Trial::choice(std::string_view name, const std::vector<std::string>& values) {
  return asked<std::string>(name, ml::choice({values.begin(), values.end()}));
}

Verdict Trial::report_with(const Metrics& metrics, const detail::TrialConnection::Save& save) {
  ++begin_.step;
  auto verdict = Verdict::kGoOn;
  if (communicator_ == nullptr) {
    verdict = connection_.report(begin_.step, metrics, save);
  } else if (worker() == 0) {
    verdict = connection_.report(begin_.step, metrics, save);
    verdict = broadcast_value(*communicator_, verdict);
  } else {
    verdict = broadcast_value(*communicator_, verdict);
  }
  return verdict;
}

}  // namespace pharos::ml
