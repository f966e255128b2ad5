#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/result.hpp>

namespace pharos::scheduler {

/// So much of each resource: "cpu", "gpu", "memory", and what users name. In steps of 1/10000, and memory of a byte, so
/// that sums are exact.
/// A value. A name of which there is nothing is not in it; what is left of something may be less than nothing.
class Resources {
 public:
  using Amounts = std::map<std::string, std::int64_t>;

  static constexpr std::int64_t kWhole = 10'000;
  static constexpr double kMost = 1e6;
  static constexpr ByteCount kMostMemory{std::uint64_t{1} << 50};
  static constexpr std::size_t kNamesMax = 32;

  Resources() = default;
  explicit Resources(Amounts amounts);
  /// Of another process, which may send anything: kInvalidArgument as set() has it.
  static Result<Resources> checked(const Amounts& amounts);
  static Resources of_cpus(std::uint32_t cpus);
  /// "gpu=1,cpu=0.5,fast_disk=2,memory=8GiB". Sets what it names, and says what makes no sense.
  static Result<Resources> parse(std::string_view text);

  /// kInvalidArgument for a name that is none, and for what is negative, enormous, no number, or finer than a step; and
  /// for shares of more than one GPU, which no one could use.
  Result<void> set(std::string_view name, double amount);
  Result<void> set_memory(ByteCount bytes);
  std::int64_t of(std::string_view name) const;
  std::int64_t cpus() const { return of("cpu"); }
  std::int64_t gpus() const { return of("gpu"); }
  /// In bytes.
  std::int64_t memory() const { return of("memory"); }
  const Amounts& amounts() const { return amounts_; }
  bool empty() const { return amounts_.empty(); }
  /// Nothing else, and perhaps none.
  bool only_cpus() const { return amounts_.size() == (cpus() == 0 ? 0 : 1); }

  /// Also when all these are taken from the room.
  template <class... Taken>
  bool fits_in(const Resources& room, const Taken&... taken) const {
    return std::all_of(amounts_.begin(), amounts_.end(), [&](const auto& entry) {
      return entry.second <= (room.of(entry.first) - ... - taken.of(entry.first));
    });
  }
  /// Of nothing is there any; amounts may be less than nothing.
  bool none_left() const {
    return std::none_of(amounts_.begin(), amounts_.end(), [](const auto& entry) { return entry.second > 0; });
  }
  Resources& operator+=(const Resources& more);
  Resources& operator-=(const Resources& less);
  friend auto operator<=>(const Resources&, const Resources&) = default;

  /// What somebody asks for that is not in `all`, in words: "2 GPUs; the node has 1". Only when it does not fit.
  std::string shortage(const Resources& all, std::string_view whose) const;
  /// What keeps somebody waiting who asks for this: of what `left` has too little of, how much of `total` is in use, in
  /// words: "1 of 1 GPUs and 3.5 of 4 CPUs are in use". Of all that is asked for, where each would be there by itself.
  std::string use(const Resources& total, const Resources& left) const;
  /// What of this `room` has too little of, in full; all of it, if there is enough of each.
  Resources scarce_in(const Resources& room) const;
  /// The same names, as `all` has them.
  Resources as_in(const Resources& all) const;
  /// "2 GPUs, 1 CPU, 3 fast_disk, 8 GiB memory".
  std::string to_string() const;

 private:
  void add(const std::string& name, std::int64_t amount);

  Amounts amounts_;
};

/// What whoever was killed for the want of memory can do.
inline constexpr const char* kMemoryRemedy =
    "Ask for .memory, so that no more run beside each other than there is memory for, or have fewer run at once.";

/// A share of one GPU: kWhole for all of it.
struct GpuShare {
  std::uint32_t index = 0;  ///< among the node's
  std::int64_t amount = 0;

  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

/// What somebody has of a node.
struct Allotment {
  Resources amounts;
  std::vector<GpuShare> gpus;  ///< which ones; they add up to the amount

  friend bool operator==(const Allotment&, const Allotment&) = default;
};

/// What one node has, and what of it is taken. GPUs are taken by device: whole ones, or a share of one; so two halves
/// of different ones make no whole.
class Ledger {
 public:
  explicit Ledger(Resources total);
  /// What somebody has, to be given on.
  explicit Ledger(const Allotment& total);

  const Resources& total() const { return total_; }
  const Resources& left() const { return left_; }
  /// When nothing is taken.
  bool could_fit(const Resources& demand) const { return demand.fits_in(total_); }
  bool fits(const Resources& demand) const;
  bool fits(const Allotment& allotment) const;
  /// Of what fits.
  Allotment take(const Resources& demand);
  /// Whether or not it fits: what is left may be less than nothing then.
  void take(const Allotment& allotment);
  void give_back(const Allotment& allotment);
  friend bool operator==(const Ledger&, const Ledger&) = default;

 private:
  std::vector<GpuShare> choose_gpus(std::int64_t amount) const;

  Resources total_;
  Resources left_;
  std::vector<std::int64_t> gpus_left_;  // by index
};

}  // namespace pharos::scheduler
