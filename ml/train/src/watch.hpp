#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace pharos::ml {

/// Tells its owner, on the thread that made it, what an operator of libtorch is about to work on: before it does, in
/// forward and in backward.
class Watch {
 public:
  class Owner {
   public:
    Owner() = default;
    Owner(Owner&&) = delete;
    virtual ~Owner() = default;
    /// Numbers of memory, each once. Operators in here are not told. Does not throw: libtorch would go on all the same.
    virtual void touched(std::span<const std::uint32_t> numbers) noexcept = 0;
  };
  /// What operators work on while one of them lives is not told.
  class Quiet {
   public:
    Quiet();
    Quiet(Quiet&&) = delete;
    ~Quiet();

   private:
    const bool before_;
  };

  explicit Watch(Owner& owner);
  Watch(Watch&&) = delete;
  ~Watch();

  /// Memory is known by the address of its c10 storage.
  void add(const void* memory, std::uint32_t number);
  /// Nothing: it is not watched.
  const std::uint32_t* find(const void* memory) const;
  void tell(std::span<const std::uint32_t> numbers) { owner_.touched(numbers); }

 private:
  using Place = std::pair<const void*, std::uint32_t>;
  std::size_t place_of(const void* memory) const;

  Owner& owner_;
  std::vector<Place> places_;  // open addressing: a power of two, less than half of it taken
  std::size_t taken_ = 0;
};

}  // namespace pharos::ml
