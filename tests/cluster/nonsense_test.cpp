// Processes that know the cluster's token send what they may not send: each control message, with random valid fields.
// Live heads, nodes and workers refuse or ignore it and go on serving a program that calls actors all the time. A seed
// is printed, and PHAROS_TEST_SEED repeats its messages.

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/handshake.hpp>
#include <pharos/net/peer.hpp>
#include <pharos/net/reactor.hpp>
#include <pharos/net/socket_link.hpp>
#include <pharos/node/introduction.hpp>
#include <pharos/process/token.hpp>

#include "random_message.hpp"
#include "seed.hpp"
#include "several_nodes.hpp"

namespace pharos::cluster::nonsense {
namespace {

using namespace std::chrono_literals;
using node::Introduction;

using Names = std::set<std::string_view>;

// What may be said to a node on a connection on which no program has registered. RegisterJob would start a program.
const Names kQuestions{"RegisterJob", "Inspect", "ListRows", "ReadLog", "DrainNode", "EndNode", "RotateToken"};
// What only a head may say to a node, and what only travels within one machine. No node may say it to its head.
const Names kNeverToHead{
    "Failure",        "RegisterJob",   "JobRegistered", "WorkerReady",    "WorkerEnded",      "Stop",
    "Done",           "ZygoteReady",   "ForkWorker",    "WorkerForked",   "WorkerReaped",     "ServeCaller",
    "EndWorker",      "WorkerBlocked", "ActorFound",    "ConstructActor", "StartIncarnation", "EndIncarnation",
    "ActorAlive",     "WorkerCrashed", "Inspected",     "ClusterJoined",  "OpenStore",        "StoreOpened",
    "LeaseSlab",      "SlabLeased",    "ReturnSlab",    "TrimStore",      "BringObject",      "ImportObject",
    "ObjectImported", "ClaimObject",   "ObjectClaimed", "ReleaseObject",  "NodeFound",        "GroupReady",
    "HoldBundle",     "ReleaseBundle", "Rows",          "Confirmed",      "ActorLife",        "GroupPlaces",
    "EndNode",        "ReadLog",       "LogPart",       "Explain",        "Explained",        "ReadStacks",
    "Stacks",         "NodesListed",   "ValueRead",     "ValueWritten",   "KeysListed",       "StoredValue",
    "WriteOutcome",   "TakeObject",    "ObjectMoved"};

async::Deadline soon() {
  return async::Deadline::after(10s, std::chrono::steady_clock::now());
}

/// A connection of a process that knows the token. Used from one thread, which runs the reactor while it waits.
class Intruder final : public net::Peer::Owner {
 public:
  explicit Intruder(Fd socket, net::Descriptors descriptors) {
    const auto link = net::SocketLink::make(reactor_, std::move(socket), descriptors);
    peer_ = net::Peer::make(reactor_, link, *this);
    link->start(peer_);
  }
  ~Intruder() override { peer_->close(); }

  bool open() const { return open_; }
  void say(const wire::Message& message) { peer_->send(message, descriptors_for(message)); }
  /// Returns the answer; nullopt if there is none within this time.
  std::optional<Result<net::Parcel>> ask(wire::Message question, Duration patience = 10s) {
    std::optional<Result<net::Parcel>> answer;
    async::AsyncGroup group{reactor_};
    group.spawn(ask(std::move(question), patience, &answer));
    while (group.size() != 0) reactor_.poll_one(async::Deadline::after(100ms, reactor_.now()));
    return answer;
  }
  /// Waits until the other end has sent a Beat or has ended the connection. Returns whether it has done so.
  bool beat_comes_back() {
    const std::size_t before = beats_;
    say(wire::Beat{reactor_.now(), 0});
    return wait_until([&] { return beats_ > before || !open_; }, 10s);
  }

 private:
  template <class Condition>
  bool wait_until(const Condition& condition, Duration time) {
    const TimePoint until = reactor_.now() + time;
    while (!condition() && reactor_.now() < until) reactor_.poll_one(async::Deadline::after(10ms, reactor_.now()));
    return condition();
  }
  static std::vector<Fd> descriptors_for(const wire::Message& message) {
    std::vector<Fd> some;
    for (std::size_t i = 0; i < wire::descriptors_of(message); ++i) {
      some.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
    }
    return some;
  }
  async::Async<void> ask(wire::Message question, Duration patience, std::optional<Result<net::Parcel>>* answer) {
    std::vector<Fd> descriptors = descriptors_for(question);
    const auto deadline = async::Deadline::after(patience, reactor_.now());
    auto parcel = co_await peer_->request(std::move(question), std::move(descriptors), deadline);
    if (parcel || parcel.error().code() != ErrorCode::kDeadlineExceeded) answer->emplace(std::move(parcel));
  }
  void on_message(net::Peer&, net::Parcel parcel, std::optional<std::uint64_t>) override {
    beats_ += std::holds_alternative<wire::Beat>(parcel.message) ? 1 : 0;
  }
  void on_peer_closed(net::Peer&, const Error&) override { open_ = false; }

  net::Reactor reactor_;
  std::shared_ptr<net::Peer> peer_;
  bool open_ = true;
  std::size_t beats_ = 0;
};

/// A caller's connection to a worker. Used from one thread, which runs the reactor while it waits.
class FalseCaller {
 public:
  explicit FalseCaller(Fd socket)
      : link_{net::SocketLink::make(reactor_, std::move(socket), net::Descriptors::kRefused)} {
    link_->start(heard_);
  }
  ~FalseCaller() { link_->close(); }

  void send(wire::FrameHeader header, std::span<const std::byte> payload) {
    link_->send(header, payload);
    link_->flush();
  }
  /// Waits for a reply, or the end of the connection.
  bool is_replied_to() {
    return wait_until([this] { return !heard_->replies.empty() || heard_->closed; }) && !heard_->replies.empty();
  }
  bool is_closed() {
    return wait_until([this] { return heard_->closed; });
  }
  std::vector<wire::FrameHeader> take_replies() { return std::exchange(heard_->replies, {}); }

 private:
  struct Heard final : net::Link::Handler {
    void on_frames(net::FrameBatch frames, std::vector<Fd>) override {
      while (!frames.empty()) replies.push_back(frames.next().header);
    }
    void on_closed(Error) override { closed = true; }

    std::vector<wire::FrameHeader> replies;
    bool closed = false;
  };
  template <class Condition>
  bool wait_until(const Condition& condition) {
    const TimePoint until = reactor_.now() + 10s;
    while (!condition() && reactor_.now() < until) reactor_.poll_one(async::Deadline::after(10ms, reactor_.now()));
    return condition();
  }

  net::Reactor reactor_;
  std::shared_ptr<Heard> heard_ = std::make_shared<Heard>();
  std::shared_ptr<net::Link> link_;
};

class NonsenseTest : public SeveralNodes {
 protected:
  void SetUp() override {
    SeveralNodes::SetUp();
    must_end_within(120s);
    start_three();
    good_client_ = start_program(UNDER_FAULTS, {"steady", folder() / "stop", "4096"});
    read_until(*good_client_, "ready");
    for (const Part part : {Part::kKeeper, Part::kNode, Part::kWorker}) {
      for (const auto& process : census().processes(part)) before_.insert(process.pid);
    }
  }
  void TearDown() override {
    good_client_.reset();
    SeveralNodes::TearDown();
  }

  // Every process has lived through the nonsense, and the good client's calls were right and in order all the time.
  void expect_that_nothing_has_happened() {
    std::set<pid_t> alive;
    for (const auto& process : census().processes()) alive.insert(process.pid);
    for (const pid_t each : before_) EXPECT_TRUE(alive.contains(each)) << "process " << each << " has ended";
    std::ofstream{folder() / "stop"} << "there";
    const auto end = good_client_->wait(60s);
    EXPECT_EQ(end.status, 0) << end.output << end.error;
    EXPECT_SAYS(end.output, "calls, 0 wrong\nc: ");
    EXPECT_SAYS(end.output, "calls, 0 wrong\nout of order: 0\n");
    for (const auto& node : nodes_) EXPECT_FALSE(node->error_with("given this node up", 100ms)) << node->error();
  }

  /// Connects to the Unix socket of a node as a program does.
  std::unique_ptr<Intruder> as_program(const std::string& socket) const {
    const auto token = process::read_token(fs::path{socket}.parent_path() / "token");
    return connected("unix:" + socket, token.value(), {net::Role::kDriver, 7}, {}, net::Descriptors::kAccepted);
  }
  /// Connects to the address of a node as another node does.
  std::unique_ptr<Intruder> as_node(const std::string& address, const Introduction& introduction) const {
    const auto token = process::read_token(token_file());
    return connected(address, token.value(), {net::Role::kNode, 7}, introduction, net::Descriptors::kRefused);
  }
  std::vector<std::string> sockets() const {
    std::vector<std::string> all;
    for (const auto& each : fs::recursive_directory_iterator{census().folder()}) {
      if (each.path().filename() == "node.sock") all.push_back(each.path());
    }
    return all;
  }
  static wire::ListRows list(const std::string& table) {
    return {.table = table, .filters = {}, .limit = 100, .number = 0, .node = {}};
  }
  wire::Rows rows_of(const std::string& table) const {
    const auto asked = as_node(address_, {.purpose = Introduction::Purpose::kAsk})->ask(list(table));
    return std::get<wire::Rows>(asked.value().value().message);
  }

  struct Place {
    std::string address;
    std::uint64_t actor = 0;
    std::uint32_t incarnation = 0;
  };
  /// Returns where the actor is that the good client calls all the time. Its other actor is inside one long call.
  Place place_of_the_sequence() const {
    for (const auto& row : rows_of("actors").rows) {
      if (row.at(1) != "Sequence") continue;
      for (const auto& node : rows_of("nodes").rows) {
        if (node.at(0) != row.at(4)) continue;
        return {node.at(1), std::stoull(row.at(0), nullptr, 16), static_cast<std::uint32_t>(std::stoul(row.at(6)))};
      }
    }
    throw std::runtime_error{"the good client has no actor on a node of the cluster"};
  }
  /// Connects to the worker of an actor as the node of a caller does.
  std::unique_ptr<FalseCaller> as_caller(const Place& place) {
    const Introduction introduction{.purpose = Introduction::Purpose::kServeCaller,
                                    .incarnation = place.incarnation,
                                    .caller = ++last_node_,
                                    .actor = place.actor};
    const auto token = process::read_token(token_file());
    return std::make_unique<FalseCaller>(connect(place.address, token.value(), {net::Role::kNode, 7}, introduction));
  }

  /// A call of a function that does not exist, or of another actor.
  static wire::FrameHeader senseless_call(const Place& place, std::uint64_t number, std::mt19937_64& random) {
    wire::FrameHeader call{.kind = wire::FrameKind::kCall, .number = number, .actor = place.actor};
    call.incarnation = place.incarnation;
    call.function = 1'000'000 + static_cast<std::uint32_t>(random() % 1'000'000);
    if (number % 2 == 1) call = {.kind = call.kind, .number = number, .actor = place.actor + 1, .incarnation = 7};
    return call;
  }

  /// Says and asks each message that is no question, and expects that the node refuses each, and answers questions.
  void expect_refusals(const std::function<std::unique_ptr<Intruder>()>& connect) {
    auto messages = wire::RandomMessages{seed_}.one_of_each();
    auto intruder = connect();
    for (const wire::Message& each : messages) {
      const std::string name{wire::name_of(each)};
      if (kQuestions.contains(name)) continue;
      SCOPED_TRACE("seed " + std::to_string(seed_) + ": " + name);
      ASSERT_TRUE(wire::decode(wire::encode(each)).ok());
      if (!intruder->open()) intruder = connect();
      intruder->say(each);
      const auto refused = intruder->ask(each);
      ASSERT_TRUE(refused.has_value()) << "nobody has answered";
      ASSERT_FALSE(refused->ok()) << "was answered by " << wire::name_of((*refused)->message);
      // A message with descriptors cannot come over TCP: that ends the connection.
      const auto expected = wire::descriptors_of(each) != 0 && !intruder->open() ? ErrorCode::kUnavailable
                                                                                 : ErrorCode::kFailedPrecondition;
      EXPECT_EQ(refused->error().code(), expected) << refused->error().to_string();
    }
    if (!intruder->open()) intruder = connect();
    const auto answered = intruder->ask(list("actors"));
    ASSERT_TRUE(answered && answered->ok());
    EXPECT_TRUE(std::holds_alternative<wire::Rows>((*answered)->message));
  }

  const std::uint64_t seed_ = seed_of_test();
  std::uint64_t last_node_ = seed_ | std::uint64_t{1} << 63;  // ids of nodes and callers that do not exist
  std::unique_ptr<ChildProgram> good_client_;

 private:
  static std::unique_ptr<Intruder> connected(const std::string& text, const net::Key& token, net::Identity self,
                                             const std::optional<Introduction>& introduction,
                                             net::Descriptors descriptors) {
    return std::make_unique<Intruder>(connect(text, token, self, introduction), descriptors);
  }
  static Fd connect(const std::string& text, const net::Key& token, net::Identity self,
                    const std::optional<Introduction>& introduction) {
    Fd socket = net::connect_to(net::parse_address(text).value(), soon()).value();
    static_cast<void>(net::initiate(socket.get(), token, self, soon()).value());
    if (introduction) {
      const auto sent = net::send_all(socket.get(), std::as_bytes(std::span{&*introduction, 1}), soon());
      EXPECT_TRUE(sent.ok());
    }
    return socket;
  }

  std::set<pid_t> before_;  // the daemons and workers that must outlive the test's nonsense
};

TEST_F(NonsenseTest, AProgramThatHasNotRegisteredIsRefusedAllButQuestionsByEachNode) {
  const auto all = sockets();
  ASSERT_EQ(all.size(), 4U) << testing::PrintToString(all);  // three nodes, and the node of the good client
  for (const std::string& socket : all) expect_refusals([&] { return as_program(socket); });
  expect_that_nothing_has_happened();
}

TEST_F(NonsenseTest, WhoMayAskANodeOverTheNetworkIsRefusedAllElse) {
  for (const auto& row : rows_of("nodes").rows) {
    const std::string address = row.at(1) == "the head's" ? address_ : row.at(1);
    expect_refusals([&] { return as_node(address, {.purpose = Introduction::Purpose::kAsk}); });
  }
  expect_that_nothing_has_happened();
}

TEST_F(NonsenseTest, AHeadHeedsNothingThatIsNotANodesToSay) {
  const auto join = [this] {
    auto node = as_node(address_, {.purpose = Introduction::Purpose::kJoin});
    const auto joined = node->ask(wire::JoinCluster{.node = NodeId{++last_node_}, .address = {}, .amounts = {}});
    EXPECT_TRUE(joined && joined->ok());
    return node;
  };
  auto node = join();
  for (const wire::Message& each : wire::RandomMessages{seed_}.one_of_each()) {
    const std::string_view name = wire::name_of(each);
    if (!kNeverToHead.contains(name)) continue;
    SCOPED_TRACE("seed " + std::to_string(seed_) + ": " + std::string{name});
    if (!node->open()) node = join();
    node->say(each);
    // The head has read the message when the Beat behind it comes back, unless it has ended the connection.
    EXPECT_TRUE(node->beat_comes_back());
    EXPECT_TRUE(node->open() || wire::descriptors_of(each) != 0) << "the head has ended the connection";
  }
  expect_that_nothing_has_happened();
}

TEST_F(NonsenseTest, BeforeItHasJoinedANodeCanSayNothing) {
  const auto node = as_node(address_, {.purpose = Introduction::Purpose::kJoin});
  for (const wire::Message& each : wire::RandomMessages{seed_}.one_of_each()) {
    if (std::holds_alternative<wire::JoinCluster>(each) || wire::descriptors_of(each) != 0) continue;
    node->say(each);
    EXPECT_TRUE(node->beat_comes_back()) << wire::name_of(each);
    EXPECT_TRUE(node->open()) << wire::name_of(each);
  }
  EXPECT_EQ(rows_of("nodes").rows.size(), 3U);
  expect_that_nothing_has_happened();
}

// Frames that callers do send, about calls that were never made, and calls of functions with numbers by chance. The
// first are ignored, the others refused, and the worker stays connected.
TEST_F(NonsenseTest, AWorkerRefusesCallsThatMakeNoSenseAndIgnoresNotesAboutCallsThatItDoesNotKnow) {
  const Place place = place_of_the_sequence();
  std::mt19937_64 random{seed_};
  const auto caller = as_caller(place);
  for (std::uint64_t number = 0; number < 200; ++number) {
    SCOPED_TRACE("seed " + std::to_string(seed_) + ": call " + std::to_string(number));
    for (const auto kind : {wire::FrameKind::kCancel, wire::FrameKind::kRetry, wire::FrameKind::kReceived,
                            wire::FrameKind::kGiveBack, wire::FrameKind::kAcknowledge}) {
      wire::FrameHeader note{.kind = kind, .number = number + 1'000 + random() % 1'000, .actor = random()};
      note.function = static_cast<std::uint32_t>(random());
      caller->send(note, {});
    }
    caller->send(senseless_call(place, number, random), std::as_bytes(std::span{&number, 1}));
    ASSERT_TRUE(caller->is_replied_to());
    const auto replies = caller->take_replies();
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].kind, wire::FrameKind::kReply);
    EXPECT_EQ(replies[0].number, number);
    EXPECT_EQ(replies[0].status, wire::ReplyStatus::kError);
  }
  expect_that_nothing_has_happened();
}

// The payload of a frame that a worker must not take for anything else: a control message, or bytes without a meaning.
TEST_F(NonsenseTest, AWorkerEndsAConnectionThatBringsWhatNoCallerSends) {
  const Place place = place_of_the_sequence();
  auto messages = wire::RandomMessages{seed_}.one_of_each();
  std::mt19937_64 random{seed_};
  for (const auto kind :
       {wire::FrameKind::kReply, wire::FrameKind::kControl, wire::FrameKind::kRequest, wire::FrameKind::kResponse}) {
    for (const wire::Message& each : messages) {
      SCOPED_TRACE("seed " + std::to_string(seed_) + ": " + std::string{wire::name_of(each)} + " in a frame of kind " +
                   std::to_string(static_cast<int>(kind)));
      const auto caller = as_caller(place);
      caller->send(senseless_call(place, 0, random), {});
      ASSERT_TRUE(caller->is_replied_to()) << "the connection does not lead to the worker";
      caller->take_replies();
      caller->send({.kind = kind, .number = 1, .actor = place.actor, .incarnation = place.incarnation},
                   wire::encode(each));
      EXPECT_TRUE(caller->is_closed());
      EXPECT_EQ(caller->take_replies().size(), 0U);
    }
  }
  expect_that_nothing_has_happened();
}

}  // namespace
}  // namespace pharos::cluster::nonsense
