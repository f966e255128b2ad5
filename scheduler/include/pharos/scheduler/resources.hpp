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

/// Amounts of resources by name: "cpu", "gpu", "memory", and names that users choose. Amounts are counted in steps of
/// 1/10000, and memory in bytes, so that sums are exact.
/// A value type. A name whose amount is 0 is not stored. An amount may be negative where it says how much is left.
/// Only checked(), parse(), set() and set_memory() check names and amounts. Sums are not checked for overflow.
class Resources {
 public:
  using Amounts = std::map<std::string, std::int64_t>;

  static constexpr std::int64_t kWhole = 10'000;
  static constexpr double kMost = 1e6;
  static constexpr ByteCount kMostMemory{std::uint64_t{1} << 50};
  static constexpr std::size_t kNamesMax = 32;

  Resources() = default;
  explicit Resources(Amounts amounts);
  /// Checks amounts that another process has sent: returns kInvalidArgument where set() does.
  static Result<Resources> checked(const Amounts& amounts);
  static Resources of_cpus(std::uint32_t cpus);
  /// Parses text such as "gpu=1,cpu=0.5,fast_disk=2,memory=8GiB". Returns kInvalidArgument, with the part that is
  /// wrong, if the text cannot be parsed, if a name occurs twice, or where set() does. Empty text gives no resources.
  static Result<Resources> parse(std::string_view text);

  /// Sets the amount of one resource; 0 removes it. Returns kInvalidArgument if the name is invalid or another spelling
  /// of a built-in one ("CPUs"), if the amount is negative, more than kMost or kMostMemory, not a number or finer than
  /// a step, if it is a fraction of more than one GPU, which nobody could use, or if there would be more than kNamesMax
  /// names. Nothing is changed then.
  Result<void> set(std::string_view name, double amount);
  Result<void> set_memory(ByteCount bytes);
  std::int64_t of(std::string_view name) const;
  std::int64_t cpus() const { return of("cpu"); }
  std::int64_t gpus() const { return of("gpu"); }
  /// In bytes.
  std::int64_t memory() const { return of("memory"); }
  const Amounts& amounts() const { return amounts_; }
  bool empty() const { return amounts_.empty(); }
  /// Returns true if no resource other than CPUs is asked for; also if nothing is asked for.
  bool only_cpus() const { return amounts_.size() == (cpus() == 0 ? 0 : 1); }

  /// Returns whether these amounts fit in the room when all of `taken` is subtracted from the room first.
  template <class... Taken>
  bool fits_in(const Resources& room, const Taken&... taken) const {
    return std::all_of(amounts_.begin(), amounts_.end(), [&](const auto& entry) {
      return entry.second <= (room.of(entry.first) - ... - taken.of(entry.first));
    });
  }
  /// Returns whether no amount is greater than 0; negative amounts are allowed.
  bool none_left() const {
    return std::none_of(amounts_.begin(), amounts_.end(), [](const auto& entry) { return entry.second > 0; });
  }
  Resources& operator+=(const Resources& more);
  Resources& operator-=(const Resources& less);
  friend auto operator<=>(const Resources&, const Resources&) = default;

  /// Says which of these amounts are more than `all` has: "2 GPUs; the node has 1". To be called only if these amounts
  /// do not fit in `all`.
  std::string shortage(const Resources& all, std::string_view whose) const;
  /// Says how much of the scarce resources is in use: "1 of 1 GPUs and 3.5 of 4 CPUs are in use". A resource is scarce
  /// if `left` has less of it than these amounts ask for. If each amount by itself would fit in `left`, all of the
  /// resources asked for are named.
  std::string use(const Resources& total, const Resources& left) const;
  /// Returns the amounts of which `room` has too little, each in full; all amounts if `room` has enough of each.
  Resources scarce_in(const Resources& room) const;
  /// Returns the same names with the amounts that `all` has.
  Resources as_in(const Resources& all) const;
  /// "2 GPUs, 1 CPU, 3 fast_disk, 8 GiB memory".
  std::string to_string() const;

 private:
  void add(const std::string& name, std::int64_t amount);

  Amounts amounts_;
};

/// The hint in the error of a process that was killed because memory was short.
inline constexpr const char* kMemoryRemedy =
    "Set .memory, so that only as many actors and tasks run at once as fit in memory, or run fewer of them.";

/// A share of one GPU; kWhole is the whole GPU.
struct GpuShare {
  std::uint32_t index = 0;  ///< the GPU's number on its node
  std::int64_t amount = 0;

  friend bool operator==(const GpuShare&, const GpuShare&) = default;
};

/// The part of a node's resources that one process or bundle has been given.
struct Allotment {
  Resources amounts;
  std::vector<GpuShare> gpus;  ///< which GPUs; the shares add up to the amount of "gpu"

  friend bool operator==(const Allotment&, const Allotment&) = default;
};

/// The resources of one node, and how much of them is taken. GPUs are taken as devices: whole ones, or a share of a
/// single one, so two halves of different GPUs do not make a whole.
/// A value that Leases, Fleet and GroupState hold for a node or a bundle. Not thread-safe.
class ResourceLedger {
 public:
  ResourceLedger(Resources total);
  /// A ledger of what an allotment has, to give parts of it to others.
  ResourceLedger(const Allotment& total);

  const Resources& total() const { return total_; }
  const Resources& left() const { return left_; }
  /// Returns whether the demand would fit if nothing were taken.
  bool could_fit(const Resources& demand) const { return demand.fits_in(total_); }
  bool fits(const Resources& demand) const;
  bool fits(const Allotment& allotment) const;
  /// Returns an allotment for each of several demands, in their order. All of them fit at the same time, but none is
  /// taken yet. Returns an empty list if the demands do not fit. In rare cases, with shares of many GPUs that leave
  /// hardly any room, the search for a way to divide the GPUs is given up, and the list is empty too.
  std::vector<Allotment> find_allotments(const std::vector<const Resources*>& demands) const;
  /// Takes the demand. If the demand does not fit, the process ends (PHAROS_CHECK).
  Allotment take(const Resources& demand);
  /// Takes the allotment even if it does not fit; left() may be negative then. The GPUs must exist: for another index
  /// std::out_of_range is thrown, by give_back() too, after the amounts have changed.
  void take(const Allotment& allotment);
  /// Gives back an allotment that was taken. This is not checked.
  void give_back(const Allotment& allotment);
  friend bool operator==(const ResourceLedger&, const ResourceLedger&) = default;

 private:
  std::vector<GpuShare> choose_gpus(std::int64_t amount) const;

  Resources total_;
  Resources left_;
  std::vector<std::int64_t> gpus_left_;  // indexed by GPU
};

}  // namespace pharos::scheduler
