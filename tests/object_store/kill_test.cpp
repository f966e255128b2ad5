// A process is killed between two instructions, at a random place. The parent single-steps the process to that place.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include <pharos/object_store/shared_file.hpp>

#include "plain_store.hpp"
#include "seed.hpp"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

namespace pharos::object_store {
namespace {

constexpr std::size_t kBytes = 200;  // small, so that most instructions belong to the protocol and not to copies

/// Hands out slabs that the parent leased before the fork.
class Stock final : public StoreNode {
 public:
  explicit Stock(std::vector<Slab> slabs) : slabs_{std::move(slabs)} {}
  Result<Slab> lease(std::uint64_t) override {
    if (slabs_.empty()) return Error{ErrorCode::kExhausted, "no more"};
    const Slab slab = slabs_.back();
    slabs_.pop_back();
    return slab;
  }
  void give_back(std::uint32_t) override {}
  Result<void> bring(const Location&) override { return {}; }
  Result<Location> import(const Location& location) override { return lost(location); }

 private:
  std::vector<Slab> slabs_;
};

class KillTest : public SeededTest {
 protected:
  static constexpr std::uint32_t kSlots = 512;
  static constexpr std::uint32_t kTables = 4;
  static constexpr std::uint64_t kFirstStepped = 3;

  KillTest() {
    // All storage is allocated here, so that the child makes no system calls for it.
    EXPECT_TRUE(ledger_file_.allocate(0, ledger_file_.length().bytes()).ok());
    EXPECT_TRUE(objects_.allocate(0, objects_.length().bytes()).ok());
  }
  std::unique_ptr<StoreMemory> memory() const {
    return map_store(Fd{::dup(ledger_file_.fd())}, Fd{::dup(objects_.fd())}).value();
  }

  /// The child repeats all operations of a client until it is killed.
  [[noreturn]] void live(std::uint32_t table, const std::vector<Slab>& stock, const Location& lent,
                         const Location& inherited) {
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    auto view = memory();
    const auto node = std::make_shared<Stock>(stock);
    const auto client = StoreClient::make({CallerId{2}, NodeId{1}}, table, std::move(view), node);
    std::optional<Result<std::shared_ptr<Object>>> taken;
    for (std::uint64_t i = 1;; ++i) {
      // The first rounds bind the functions dynamically, which takes more steps than the functions themselves.
      if (i == kFirstStepped) {
        ::raise(SIGSTOP);
        taken = client->take_over(inherited);
      }
      const auto held = put(*client, kBytes, i);
      const auto seen = client->borrow(lent);
      const auto read = (*seen)->read();
      const auto own = held->read();
      const auto for_parent = put(*client, kBytes, i, CallerId{1});
      if (for_parent != nullptr && i % 2 == 0) for_parent->hand_over();
      const auto half = client->create(kBytes);
    }
  }

  const SharedFile ledger_file_ =
      SharedFile::make("ledger", ByteCount{ObjectLedger::bytes_for(kSlots, kTables)}).value();
  const SharedFile objects_ = SharedFile::make("objects", 64_MiB).value();
  const Mapping ledger_memory_ =
      Mapping::make(ledger_file_, 0, ledger_file_.length().bytes(), Mapping::Access::kReadAndWrite).value();
  const ObjectLedger ledger_ = ObjectLedger::format(ledger_memory_.memory(), kSlots, kTables);
  StoreBook book_{ledger_, objects_.length(), objects_.length()};
};

TEST_F(KillTest, AProcessKilledAnywhereLeavesNothingAndHarmsNobody) {
  if (UNDER_TSAN) GTEST_SKIP() << "the thread sanitizer does not run in a process that is stepped";
  const std::uint32_t own_table = book_.open(CallerId{1}).value();
  const auto own_stock = std::make_shared<Stock>(std::vector<Slab>{book_.lease(own_table, kSlotBytesMin).value()});
  const auto client = StoreClient::make({CallerId{1}, NodeId{1}}, own_table, memory(), own_stock);
  const auto lent = put(*client, kBytes, 77);
  for (int round = 0; round < 40; ++round) {
    const std::uint32_t table = book_.open(CallerId{2}).value();
    std::vector<Slab> stock;
    for (int i = 0; i < 2; ++i) stock.push_back(book_.lease(table, kSlotBytesMin).value());
    const auto inherited = put(*client, kBytes, 88, CallerId{2});
    inherited->hand_over();
    const pid_t child = ::fork();
    if (child == 0) live(table, stock, lent->location(), inherited->location());
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSTOPPED(status)) << status;
    const std::size_t steps = between(1, 4000);
    for (std::size_t i = 0; i < steps; ++i) {
      ASSERT_EQ(::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr), 0);
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP) << status << " after " << i << " steps";
    }
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    book_.end_unclaimed(book_.process_ended(table));
    ASSERT_TRUE(holds(*lent, 77)) << steps;
    const auto census = book_.census();
    ASSERT_EQ(census.objects, 1) << "after " << steps << " steps";
    ASSERT_EQ(census.slabs, 1) << "after " << steps << " steps";
    ASSERT_EQ(census.processes, 1);
  }
}

}  // namespace
}  // namespace pharos::object_store
