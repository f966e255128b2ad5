#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/loader.hpp>

#include "batch_maker.hpp"

namespace pharos::ml {

/// A ticket is the permission to make one batch. The threads take tickets in order, and next() returns the batches in
/// that order.
class Loader::Core {
 public:
  Core(DatasetPtr dataset, const LoaderOptions& options)
      : dataset_{std::move(dataset)},
        options_{options},
        order_{options.order.value_or(Order::shuffled(dataset_->size(), options.seed))},
        maker_{dataset_, options.seed, options.collate, options.memory} {
    check();
    batch_ = static_cast<std::size_t>(std::min<std::uint64_t>(
        options.batch, order_.size() / options.ranks + (order_.size() % options.ranks != 0 ? 1 : 0)));
    ahead_ = dataset_->ahead();
    ticket_ = ticket({});
  }
  ~Core() {
    {
      const std::lock_guard lock{mutex_};
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& each : threads_) each.join();
  }
  /// Called once, after the constructor: if a thread cannot be made, the destructor then ends those that were made.
  void start() try {
    for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { run(); });
  } catch (const std::system_error& e) {
    throw_error(Error::from_errno("making " + std::to_string(options_.threads) + " threads of a loader",
                                  e.code().value(), "Ask for fewer."));
  }

  std::optional<Batch> next() {
    if (at_end()) {
      position_ = {position_.epoch + 1, 0};
      return std::nullopt;
    }
    const Position now = position_;
    Made made = threads_.empty() ? make(ticket(now), own_epoch_) : wait_for(now);
    if (made.threw) std::rethrow_exception(made.threw);
    position_.sample = std::min(end_of(now.epoch), now.sample + batch_of_all());
    return std::move(made.batch);
  }
  Position position() const { return position_; }
  bool at_end() const { return position_.sample >= end_of(position_.epoch); }
  void seek(Position position) {
    // With kPad and as many ranks as there are samples, an epoch has fewer than twice as many places as samples.
    const std::uint64_t most = options_.tail == Tail::kPad ? 2 * order_.size() - 1 : order_.size();
    if (position.sample > most) {
      throw_error(Error{
          ErrorCode::kInvalidArgument,
          "an epoch has " + std::to_string(order_.size()) + " samples, and none at " + std::to_string(position.sample),
          "Go on with the dataset that the position is of."});
    }
    const std::lock_guard lock{mutex_};
    ++seeks_;
    made_.clear();
    begin_ = position;  // threads read it under the lock
    position_ = position;
    ticket_ = ticket(position);
    changed_.notify_all();
  }
  std::uint64_t samples() const { return shared_evenly(order_.size()); }
  std::uint64_t batches() const { return (samples() + batch_of_all() - 1) / batch_of_all(); }

 private:
  struct Made {
    Batch batch{};
    std::exception_ptr threw{};
  };
  /// The batch that begins at this position, of an epoch that ends at `end`.
  struct Ticket {
    Position at{};
    std::uint64_t end = 0;
    bool is_first = false;  ///< after a seek, or of an epoch
  };
  using NumberedEpoch = std::pair<std::uint64_t, Order::Epoch>;
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  static Key key_of(Position position) { return {position.epoch, position.sample}; }

  std::uint64_t batch_of_all() const { return std::uint64_t{batch_} * options_.ranks; }
  /// Returns the number of samples after the tail has been dropped or padded.
  std::uint64_t shared_evenly(std::uint64_t samples) const {
    const std::uint64_t rest = samples % options_.ranks;
    if (rest == 0 || options_.tail == Tail::kUneven) return samples;
    return options_.tail == Tail::kDrop ? samples - rest : samples - rest + options_.ranks;
  }
  Ticket ticket(Position at) const { return {at, end_of(at.epoch), at == begin_ || at.sample == 0}; }
  /// In an epoch that another number of ranks has begun, only the rest is shared evenly among these ranks.
  std::uint64_t end_of(std::uint64_t epoch) const {
    const std::uint64_t begun = epoch == begin_.epoch ? std::min(begin_.sample, order_.size()) : 0;
    return begun + shared_evenly(order_.size() - begun);
  }
  void check() const {
    const auto refuse = [](std::string why, std::string remedy = {}) {
      throw_error(Error{ErrorCode::kInvalidArgument, std::move(why), std::move(remedy)});
    };
    if (options_.batch == 0) refuse("a batch of no samples was asked for");
    if (options_.rank >= options_.ranks) {
      refuse("there is no rank " + std::to_string(options_.rank) + " of " + std::to_string(options_.ranks));
    }
    if (order_.size() != dataset_->size()) {
      refuse("the order is of " + std::to_string(order_.size()) + " samples, and the dataset has " +
             std::to_string(dataset_->size()));
    }
    if (dataset_->size() < options_.ranks) {
      refuse("the dataset has " + std::to_string(dataset_->size()) + " samples, which are fewer than the " +
                 std::to_string(options_.ranks) + " ranks",
             "Train with fewer ranks.");
    }
    if (options_.threads != 0 && options_.ahead == 0) refuse("with threads, ahead must be 1 or more");
  }

  /// Called by the thread of next().
  Made wait_for(Position now) {
    std::unique_lock lock{mutex_};
    for (;;) {
      const auto found = made_.find(key_of(now));
      if (found != made_.end()) {
        if (found->second.threw) return {.threw = found->second.threw};  // stays, and is thrown again by the next call
        Made made = std::move(found->second);
        made_.erase(found);
        changed_.notify_all();
        return made;
      }
      changed_.wait(lock);
    }
  }
  void run() {
    std::optional<NumberedEpoch> epoch;
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || made_.size() + making_ < options_.ahead; });
      if (ends_) return;
      if (ticket_.at.sample >= ticket_.end) ticket_ = ticket({ticket_.at.epoch + 1, 0});
      const Ticket own = ticket_;
      ticket_.at.sample += batch_of_all();
      ticket_.is_first = false;
      ++making_;
      const std::uint64_t seeks = seeks_;
      lock.unlock();
      Made made = make(own, epoch);
      lock.lock();
      --making_;
      // Otherwise a seek has made the batch useless.
      if (seeks == seeks_) made_.emplace(key_of(own.at), std::move(made));
      changed_.notify_all();
    }
  }
  /// Any thread. The loader and each thread keep the last epoch, because PyTorch's orders are lists that take time to
  /// make.
  const Order::Epoch& epoch_of(std::uint64_t number, std::optional<NumberedEpoch>& kept) {
    if (!kept || kept->first != number) {
      const std::lock_guard lock{epoch_mutex_};
      if (!epoch_ || epoch_->first != number) epoch_.emplace(number, order_.epoch(number));
      kept = epoch_;
    }
    return kept->second;
  }

  Made make(const Ticket& ticket, std::optional<NumberedEpoch>& epoch) {
    const Position at = ticket.at;
    try {
      const Order::Epoch& order = epoch_of(at.epoch, epoch);
      const std::uint64_t of_all = std::min(ticket.end - at.sample, batch_of_all());
      Batch batch{.samples_of_all = static_cast<std::size_t>(of_all), .epoch = at.epoch};
      for (std::uint64_t place = options_.rank; place < of_all; place += options_.ranks) {
        batch.numbers.push_back(order[(at.sample + place) % order_.size()]);
      }
      batch.samples = batch.numbers.size();
      if (ahead_ != 0) expect(ticket, order);
      if (batch.numbers.empty()) batch.numbers.push_back(order[at.sample % order_.size()]);
      batch.fields = maker_.make(batch.numbers, at.epoch);
      return {std::move(batch), nullptr};
    } catch (...) {
      try {
        throw_error(pharos::detail::current_exception());
      } catch (...) {
        return {.threw = std::current_exception()};
      }
    }
  }

  /// Says which samples this rank will read when it has read `ahead_` more. In the last ones of an epoch these are the
  /// first ones of the next epoch, and not said.
  void expect(const Ticket& ticket, const Order::Epoch& order) const {
    std::vector<std::uint64_t> numbers;
    const auto add = [&](std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t place = begin; place < std::min(end, order_.size()); place += options_.ranks) {
        numbers.push_back(order[place]);
      }
    };
    const std::uint64_t begin = ticket.at.sample + options_.rank;
    const std::uint64_t ahead = ahead_ * options_.ranks;
    if (ticket.is_first) add(begin, begin + ahead);
    add(begin + ahead, begin + ahead + batch_of_all());
    dataset_->expect(numbers);
  }

  const DatasetPtr dataset_;
  const LoaderOptions options_;
  const Order order_;
  const BatchMaker maker_;
  std::uint64_t ahead_ = 0;  ///< samples of one rank
  std::size_t batch_ = 0;    ///< batch of one rank; at most the samples that a rank has
  Position begin_;           ///< the position of the last seek
  Position position_;
  std::optional<NumberedEpoch> own_epoch_;

  std::mutex epoch_mutex_;
  std::optional<NumberedEpoch> epoch_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t seeks_ = 0;
  Ticket ticket_;  ///< the next ticket
  std::map<Key, Made> made_;
  std::size_t making_ = 0;
  bool ends_ = false;
  std::vector<std::thread> threads_;  // the last member, because the threads use the others
};

Loader::Loader(DatasetPtr dataset, const LoaderOptions& options)
    : core_{std::make_unique<Core>(std::move(dataset), options)} {
  core_->start();
}
Loader::~Loader() = default;
std::optional<Batch> Loader::next() {
  return core_->next();
}
Position Loader::position() const {
  return core_->position();
}
bool Loader::at_end() const {
  return core_->at_end();
}
void Loader::seek(Position position) {
  core_->seek(position);
}
std::uint64_t Loader::samples() const {
  return core_->samples();
}
std::uint64_t Loader::batches() const {
  return core_->batches();
}

}  // namespace pharos::ml
