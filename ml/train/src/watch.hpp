#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace pharos::ml {

/// Tells its owner what an operator of libtorch is about to work on: before it does, in forward and in backward, and on
/// whichever thread. Storages that are watched live longer than the watch, and no operator works on one while it ends.
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
  /// What this thread's operators work on while one of them lives is not told.
  class Quiet {
   public:
    Quiet();
    Quiet(Quiet&&) = delete;
    ~Quiet();

   private:
    const bool before_;
  };
  /// Memory is known by the address of its c10 storage.
  using Numbered = std::pair<const void*, std::uint32_t>;
  class Table;

  Watch(Owner& owner, std::span<const Numbered> memory);
  Watch(Watch&&) = delete;
  ~Watch();

 private:
  std::shared_ptr<const Table> table_;
};

}  // namespace pharos::ml
