#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace pharos::ml {

/// Tells its owner which of the watched memory an operator of libtorch is about to use: before the operator runs, in
/// forward and in backward, and on the thread that runs it. Owned by Gathering, which is the Owner and outlives it;
/// nothing fails. The watched storages must outlive the watch, and no operator may use one of them while the watch is
/// being destroyed.
class Watch {
 public:
  class Owner {
   public:
    Owner() = default;
    Owner(Owner&&) = delete;
    virtual ~Owner() = default;
    /// The numbers of the memory that the operator uses, each once. Operators that run inside of this function are not
    /// reported. It must not throw, because libtorch would go on with the operator anyway.
    virtual void touched(std::span<const std::uint32_t> numbers) noexcept = 0;
  };
  /// While it lives, the operators of this thread are not reported. Destroyed on the same thread.
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
