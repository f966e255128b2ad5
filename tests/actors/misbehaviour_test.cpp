// User code that misbehaves: its caller gets a typed error within bounded time, and the next actor works.

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::misbehaviour {

/// Encodes as `bytes` bytes, from memory that the kernel provides only when it is read.
struct Claim {
  std::uint64_t bytes = 0;
};

}  // namespace pharos::cluster::misbehaviour

namespace pharos {

template <>
struct Codec<cluster::misbehaviour::Claim> {
  static void encode(const cluster::misbehaviour::Claim& claim, Encoder& to) {
    void* const memory = ::mmap(nullptr, claim.bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error{"no room for the claim"};
    to.write(memory, claim.bytes);
    ::munmap(memory, claim.bytes);
  }
  static cluster::misbehaviour::Claim decode(Decoder& from) { return {from.left()}; }
};

}  // namespace pharos

namespace pharos::cluster::misbehaviour {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kTenGiB = std::uint64_t{10} << 30;
// Bound on the time from the event to the caller's exception, including a crash report.
constexpr auto kSoon = 3s;

int* volatile nowhere = nullptr;

[[gnu::no_sanitize("undefined")]] void write_to_nowhere() {
  *nowhere = 1;
}

class Wild {
 public:
  Wild() = default;
  explicit Wild(const std::string& how) {
    if (how == "throws an int") throw 17;
    if (how == "hangs") run_for_ever();
    crashes_at_end_ = how == "crashes at the end";
  }
  ~Wild() {
    if (crashes_at_end_) write_to_nowhere();
  }

  int process() { return ::getpid(); }
  void run_for_ever() {
    for (;;) std::this_thread::sleep_for(1h);
  }
  void spin_for_ever() {
    for (volatile bool on = true; on;) {
    }
  }
  Claim claim(std::uint64_t bytes) { return {bytes}; }
  std::string fill_memory(std::uint64_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // The allocators of the sanitizers need address space of their own, and end the process instead of throwing.
    throw std::bad_alloc{};
#endif
    const rlimit little{std::uint64_t{1} << 30, std::uint64_t{1} << 30};
    ::setrlimit(RLIMIT_AS, &little);
    return std::string(bytes, 'x');
  }
  void throw_an_int() {
    throw 17;
  }
  void leave(int how) {
    if (how == 0) std::exit(0);
    if (how == 1) ::_exit(0);
    if (how == 2) std::quick_exit(0);
    ::pthread_exit(nullptr);
  }
  void close_descriptors(int from) {
    ::close_range(static_cast<unsigned>(from), ~0U, 0);
  }
  /// Returns in both processes.
  int fork_and_return() {
    return ::fork();
  }
  /// The child runs for ever. Returns the pid of the child.
  int fork_and_stay() {
    const pid_t child = ::fork();
    if (child == 0) run_for_ever();
    return child;
  }
  [[gnu::noinline]] int recurse(int depth) {
    if (depth < 0) return 0;
    volatile char room[1000];
    room[0] = static_cast<char>(depth);
    return recurse(depth + 1) + room[0];
  }
  void terminate_in_a_thread() {
    std::thread{[] { throw std::runtime_error{"nobody catches this"}; }}.detach();
    run_for_ever();
  }
  int leave_a_thread_behind() {
    std::thread{[this] { run_for_ever(); }}.detach();
    return ::getpid();
  }
  void stop_itself() {
    ::raise(SIGSTOP);
  }
  void change_its_process() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    ::umask(0777);
    std::filesystem::current_path("/");
  }

 private:
  bool crashes_at_end_ = false;
};

class MisbehaviourTest : public ClusterTest {
 protected:
  /// Expects that the call ends its worker, and that ActorDied is thrown soon. Returns the exception's text.
  template <class T>
  std::string dies(const Ref<T>& result) {
    std::string text;
    EXPECT_LT(time_of([&] { text = message_of<ActorDied>([&] { result.get(); }); }), kSoon) << text;
    expect_next_actor_works();
    return text;
  }
  void expect_next_actor_works() {
    const auto next = runtime_->spawn<Wild>();
    EXPECT_GT(next.call<&Wild::process>().get(in(10s)), 0);
  }
  static Deadline in(Duration time) { return Deadline::after(time, std::chrono::steady_clock::now()); }

  void SetUp() override {
    ClusterTest::SetUp();
    runtime_.emplace();
  }
  void TearDown() override {
    runtime_.reset();
    ClusterTest::TearDown();
  }
  Runtime& runtime() { return *runtime_; }

  std::optional<Runtime> runtime_;
};

TEST_F(MisbehaviourTest, AMethodThatNeverReturnsIsEndedByItsDeadlineForTheCallerAndByKillForGood) {
  const auto wild = runtime().spawn<Wild>();
  const int process = wild.call<&Wild::process>().get();
  const CallOptions soon{.deadline = in(100ms)};
  const auto stuck = wild.call<&Wild::spin_for_ever>(soon);
  EXPECT_LT(time_of([&] { message_of<DeadlineExceeded>([&] { stuck.get(); }); }), kSoon);
  expect_next_actor_works();
  wild.kill();
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 5s));
}

TEST_F(MisbehaviourTest, AResultOfTenGiBIsRefusedBeforeItsMemoryIsTakenAndTheActorGoesOn) {
  Runtime runtime{{.object_store = 128_MiB}};
  const auto wild = runtime.spawn<Wild>();
  EXPECT_SAYS(message_of<Exhausted>([&] { wild.call<&Wild::claim>(kTenGiB).get(); }), "10 GiB");
  EXPECT_GT(wild.call<&Wild::process>().get(), 0);
}

TEST_F(MisbehaviourTest, MemoryThatRunsOutIsAUserErrorAndTheActorGoesOn) {
  const auto wild = runtime().spawn<Wild>();
  EXPECT_SAYS(message_of<UserError>([&] { wild.call<&Wild::fill_memory>(kTenGiB).get(); }), "std::bad_alloc");
  EXPECT_GT(wild.call<&Wild::process>().get(), 0);
}

TEST_F(MisbehaviourTest, AnIntThatIsThrownNamesItsTypeAndPlace) {
  const auto wild = runtime().spawn<Wild>();
  const std::string text = message_of<UserError>([&] { wild.call<&Wild::throw_an_int>().get(); });
  EXPECT_SAYS(text, "threw int");
  EXPECT_SAYS(text, "thrown in ");
  EXPECT_SAYS(text, "Wild::throw_an_int");
  EXPECT_GT(wild.call<&Wild::process>().get(), 0);
}

TEST_F(MisbehaviourTest, EveryWayToLeaveTheProcessIsADeathWithItsStatus) {
  for (const int how : {0, 1, 2}) {
    const auto wild = runtime().spawn<Wild>();
    EXPECT_SAYS(dies(wild.call<&Wild::leave>(how)), "exited with status 0") << how;
  }
  const auto wild = runtime().spawn<Wild>();
  dies(wild.call<&Wild::leave>(3));
}

TEST_F(MisbehaviourTest, AMethodThatClosesEveryDescriptorIsADeathAndNoHang) {
  for (const int from : {3, 0}) {
    const auto wild = runtime().spawn<Wild>();
    EXPECT_GT(wild.call<&Wild::process>().get(), 0);
    dies(wild.call<&Wild::close_descriptors>(from));
  }
}

TEST_F(MisbehaviourTest, AForkThatComesBackTwiceAnswersOnceAndLeavesNoSecondWorker) {
  const auto wild = runtime().spawn<Wild>();
  for (int i = 0; i < 5; ++i) {
    const int child = wild.call<&Wild::fork_and_return>().get(in(10s));
    EXPECT_GT(child, 0) << "the child's answer came instead of its parent's";
    EXPECT_GT(wild.call<&Wild::process>().get(in(10s)), 0);
  }
}

TEST_F(MisbehaviourTest, AForkedChildThatStaysDoesNotHideItsParentsDeathAndDiesWithIt) {
  const auto wild = runtime().spawn<Wild>();
  const int process = wild.call<&Wild::process>().get();
  const int child = wild.call<&Wild::fork_and_stay>().get(in(10s));
  const auto pending = wild.call<&Wild::run_for_ever>();
  ::kill(process, SIGKILL);
  EXPECT_SAYS(dies(pending), "SIGKILL");
  EXPECT_TRUE(eventually([&] { return ::kill(child, 0) != 0; }, 5s));
}

TEST_F(MisbehaviourTest, ARecursionToDeathIsASegmentationFaultThatNamesTheFunction) {
  const auto wild = runtime().spawn<Wild>();
  const std::string text = dies(wild.call<&Wild::recurse>(1));
  EXPECT_SAYS(text, "SIGSEGV");
  EXPECT_SAYS(text, "Wild::recurse(int)");
}

TEST_F(MisbehaviourTest, ACrashInADestructorHoldsNobodyUp) {
  {
    const auto wild = runtime().spawn<Wild>("crashes at the end");
    EXPECT_GT(wild.call<&Wild::process>().get(), 0);
  }
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }, 5s));
  expect_next_actor_works();
}

TEST_F(MisbehaviourTest, AConstructorThatThrowsAnIntNamesItsTypeAndPlace) {
  const auto wild = runtime().spawn<Wild>("throws an int");
  const std::string text = dies(wild.call<&Wild::process>());
  EXPECT_SAYS(text, "threw int");
  EXPECT_SAYS(text, "thrown in ");
}

TEST_F(MisbehaviourTest, AConstructorThatHangsIsEndedByTheDeadlineOfACallAndByKill) {
  const auto wild = runtime().spawn<Wild>("hangs");
  const CallOptions soon{.deadline = in(100ms)};
  message_of<DeadlineExceeded>([&] { wild.call<&Wild::process>(soon).get(); });
  const auto pending = wild.call<&Wild::process>();
  expect_next_actor_works();
  wild.kill();
  dies(pending);
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).size() <= 1; }, 5s));
}

TEST_F(MisbehaviourTest, TerminateInAThreadNamesTheException) {
  const auto wild = runtime().spawn<Wild>();
  const std::string text = dies(wild.call<&Wild::terminate_in_a_thread>());
  EXPECT_SAYS(text, "SIGABRT");
  EXPECT_SAYS(text, "nobody catches this");
}

TEST_F(MisbehaviourTest, AThreadThatGoesOnAfterTheMethodEndsWithTheActor) {
  const auto wild = runtime().spawn<Wild>();
  const int process = wild.call<&Wild::leave_a_thread_behind>().get();
  EXPECT_EQ(wild.call<&Wild::process>().get(), process);
  wild.kill();
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 5s));
}

TEST_F(MisbehaviourTest, AStoppedProcessEndsNoWaitButTheCallersDeadlineDoesAndKillReachesIt) {
  const auto wild = runtime().spawn<Wild>();
  const int process = wild.call<&Wild::process>().get();
  const auto stopped = wild.call<&Wild::stop_itself>();
  EXPECT_FALSE(stopped.try_get(in(200ms)).ok());
  expect_next_actor_works();
  wild.kill();
  message_of<ActorDied>([&] { stopped.get(); });
  EXPECT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }, 5s));
}

TEST_F(MisbehaviourTest, SignalMaskFolderAndFileModeAreTheActorsOwn) {
  const auto before = std::filesystem::current_path();
  const auto wild = runtime().spawn<Wild>();
  wild.call<&Wild::change_its_process>().get();
  EXPECT_GT(wild.call<&Wild::process>().get(), 0);
  EXPECT_EQ(std::filesystem::current_path(), before);
  expect_next_actor_works();
}

}  // namespace
}  // namespace pharos::cluster::misbehaviour
