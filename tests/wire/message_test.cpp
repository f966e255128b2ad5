#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pharos/wire/message.hpp>

#include "seed.hpp"

namespace pharos::wire {
namespace {

using namespace std::string_literals;
using namespace std::chrono_literals;

BuildId some_build_id() {
  BuildId id;
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::uint8_t>(i * 13 + 1);
  return id;
}

std::vector<std::byte> some_bytes() {
  return {std::byte{0}, std::byte{255}, std::byte{7}};
}

InspectedStore some_store() {
  return {.capacity = 95,
          .used = 96,
          .idle = 97,
          .on_disk = 98,
          .objects = 99,
          .largest = {{CallerId{100}, 101, 102, "put at main.cpp:7", true, true, true, {{CallerId{103}, true, true}}}},
          .processes = {{CallerId{104}, 105, "a program"}}};
}
InspectedWorker some_worker() {
  const PendingResult result{-1,           PendingResult::Stage::kUnsent, 1, ActorId{2}, "x", WorkerId{3}, 4, 5, 6,
                             {{"gpu", 83}}};
  PendingResult argument = result;
  argument.argument_of = 0;
  argument.stage = PendingResult::Stage::kSent;
  return {WorkerId{7},  ActorId{8}, "counter",          "alive",       9,         true, 10, -11,
          CallerId{12}, 13,         {result, argument}, {{"cpu", 84}}, "node 85", true};
}

ObjectLocation some_object() {
  return {{CallerId{92}, 93}, {90, 91}, CallerId{94}, NodeId{98}};
}
Asker some_asker() {
  return {JobId{61}, CallerId{62}, 63};
}

Demand some_demand() {
  return {{{"cpu", 10}, {"disk", -11}},
          NodeId{91},
          {{"zone", {"a", "b"}, true}, {"disk", {"s\0d"s}}},
          NodeId{92},
          true,
          GroupId{93},
          94};
}

Holding some_holding() {
  return {{{"cpu", 70}, {"gpu", 71}}, {"GPU-1", "3"}};
}

Share some_share() {
  return {NodeId{143}, {{"gpu", 144}}, {{145, 146}}};
}

// One of each, no field as it is by default, so that a field that does not travel is seen. Texts hold what breaks
// careless code: zeros, bytes that are no UTF-8.
const std::vector<Message>& one_of_each() {
  static const std::vector<Message> messages{
      Failure{Error{ErrorCode::kExhausted, "no\0memory"s, "Buy some."}
                  .with("inner")
                  .with("out\0er"s)
                  .with_outcome(Outcome::kNotStarted)
                  .with_thrown({"9Overdrawn", some_bytes()})},
      RegisterJob{"/bin/\xff", {"program", "", "--flag"}, {"A=1", "B="}, "/home/user", some_build_id()},
      JobRegistered{JobId{1}, CallerId{2}, NodeId{~std::uint64_t{0}}, 64, "slow\nstart", "unix:/run/x"},
      LeaseWorker{some_demand(), some_asker(), true, true},
      ReturnLease{WorkerId{3}, CallerId{72}, true},
      StartActor{ActorId{4}, "count\0er"s, 40, some_bytes(), "space", "name", "7Counter", -1, true, 41, true,
                 some_demand(), some_asker(), TraceId{87}},
      KillActor{ActorId{5}, some_asker(), true, 6, "why"},
      WorkerReady{WorkerId{6}, ActorId{60}, 7, 8, 9, true, "killed by signal 9", true},
      WorkerEnded{WorkerId{9}, "killed by signal 9", true},
      Output{"counter", 11, true, "li\0ne\n\xff"s, true, JobId{73}, true},
      Stop{},
      Done{},
      ZygoteReady{some_build_id(), 12, "threads"},
      ForkWorker{WorkerId{13}, {"A=1", "B="}},
      WorkerForked{WorkerId{14}, 15},
      WorkerReaped{WorkerId{16}, -17, true},
      ServeCaller{CallerId{18}, ActorId{19}, 20, true, some_holding()},
      EndWorker{77, true},
      DrainNode{NodeId{78}, 79, 80},
      WorkerBlocked{true},
      ConnectActor{ActorId{21}, 22, some_asker()},
      FindActor{"space", "name", "7Counter", some_asker()},
      ActorFound{ActorId{23}, "counter", 32},
      HoldActor{ActorId{24}, -25, some_asker()},
      ConstructActor{ActorId{26}, 27, 28, some_bytes(), true, "space", some_holding(), TraceId{88}, true},
      ActorConstructed{ActorId{29}, 30, Error{ErrorCode::kUserError, "threw"}},
      ActorConstructed{ActorId{29}, 30, std::nullopt},
      AddJob{JobId{33}, {"/bin/x", {"x"}, {"C=2"}, "/tmp", some_build_id()}, NodeId{117}, {NodeId{202}, NodeId{203}}},
      EndJob{JobId{34}},
      StopJob{JobId{80}},
      JobStopped{JobId{81}},
      PromiseActor{ActorId{82}, "counter", "space", "name", "7Counter", -1, true, true, some_asker()},
      BreakPromise{ActorId{83}, Error{ErrorCode::kActorDied, "no arguments"}, some_asker()},
      EndCaller{CallerId{35}},
      StartIncarnation{ActorId{36},
                       37,
                       JobId{38},
                       "counter",
                       39,
                       some_bytes(),
                       true,
                       "space",
                       {{"gpu", 65}},
                       {{66, 67}, {68, 69}},
                       TraceId{89},
                       GroupId{143},
                       144,
                       true},
      EndIncarnation{ActorId{42}, 43, true, 44, true},
      IncarnationEnded{ActorId{44}, 45, "killed", true},
      ActorAlive{46, ActorId{47}, 48, NodeId{49}, 50, "killed by signal 9", "10.0.0.1:7400", true},
      JoinCluster{NodeId{74}, "10.0.0.1:7400", {{"cpu", 75}}, {{"zone", "a"}, {"disk", "ssd"}}, true, 302, 303},
      ClusterJoined{76, true, true, 304, true, 305},
      LeaseGranted{77, WorkerId{78}, NodeId{79}, "10.0.0.1:7400"},
      Refused{51, Error{ErrorCode::kNotFound, "there is none"}},
      WorkerCrashed{WorkerId{31}, ", in f()", "*** SIGSEGV\n  #0 f()\n"},
      Inspect{some_asker()},
      Inspected{{{"cpu", 32}}, {{"cpu", 33}}, {{"cpu", 86}}, {some_worker()}, 64, some_store()},
      OpenStore{},
      StoreOpened{52},
      LeaseSlab{std::uint64_t{1} << 40},
      SlabLeased{std::uint64_t{1} << 41, std::uint64_t{1} << 40, 53, 54},
      ReturnSlab{55},
      TrimStore{},
      BringObject{some_object()},
      ImportObject{some_object()},
      ObjectImported{some_object()},
      ClaimObject{some_object()},
      ObjectClaimed{95, "put at main.cpp:7", some_object()},
      ReleaseObject{some_object()},
      FindNode{NodeId{96}, 99},
      NodeFound{97, "10.0.0.1:7400"},
      PlaceGroup{GroupId{98}, "tr\0io"s, Strategy::kStrictSpread, {some_demand(), {}}, some_asker()},
      GroupReady{99, {NodeId{100}, NodeId{101}}},
      RemoveGroup{GroupId{102}, some_asker()},
      HoldBundle{GroupId{103}, 104, {{"gpu", 105}}, {{106, 107}}},
      BundleHeld{GroupId{108}, 109},
      ReleaseBundle{GroupId{110}, 111},
      NodeLoad{{{"cpu", 112}}, {{{{"gpu", 147}}, 148}, {{}, 149}}},
      ListRows{"act\0ors"s, {{"state", "alive", true}, {"na\0me"s, "x"}}, 113, 114, NodeId{143}, true},
      Rows{{"id", "na\0me"s}, {{"1", "a"}, {"2", "b\0"s}}, 115, 116},
      ReadLog{NodeId{144}, "lo\0g"s, 145, 146, true},
      LogPart{147, "li\0ne\xff\n"s, 148, true},
      Explain{},
      Explained{149, "step", 150, "thread 1 waits\n"},
      ReadStacks{WorkerId{151}},
      Stacks{"thread 1\n  #0 f()\n"},
      RecallLeases{{WorkerId{152}, WorkerId{153}}, 1},
      Beat{TimePoint{201ns}, 306},
      Confirmed{118},
      Report{{JobId{119}},
             {{CallerId{120}, JobId{121}}},
             {{CallerId{122}, ActorId{123}, -124}},
             {{ActorId{125}, 126, true}},
             {{GroupId{127}, 128}},
             {{GroupId{129}, 130}},
             {{WorkerId{131}, CallerId{132}, JobId{133}}},
             {WorkerId{134}},
             true},
      ActorLife{ActorId{135}, 136, 137, 138, true, some_share(), GroupId{139}, 140,
                Error{ErrorCode::kActorDied, "killed"}, "coun\0ter"s, JobId{141}, "killed by sig\0nal 9"s, true},
      ActorLife{ActorId{135}, 136},
      GroupPlaces{GroupId{142}, {some_share(), {}}, true},
      EndNode{},
  };
  return messages;
}

// Every field of each: a new one makes its structured binding fail to compile.
auto fields(const Failure& m) {
  const auto& [error] = m;
  const Error::Thrown thrown = error.thrown().value_or(Error::Thrown{});
  return std::tuple{error.code(),    error.outcome(), error.message(), error.remedy(),
                    error.context(), thrown.type,     thrown.value};
}
auto fields(const Asker& m) {
  const auto& [job, caller, number] = m;
  return std::tie(job, caller, number);
}
auto fields(const RegisterJob& m) {
  const auto& [executable, arguments, environment, folder, build_id] = m;
  return std::tie(executable, arguments, environment, folder, build_id);
}
auto fields(const JobRegistered& m) {
  const auto& [job, caller, node, cpus, warning, address] = m;
  return std::tie(job, caller, node, cpus, warning, address);
}
auto fields(const LeaseWorker& m) {
  const auto& [demand, asker, nested, only_now] = m;
  return std::tuple_cat(std::tie(demand, nested, only_now), fields(asker));
}
auto fields(const Holding& m) {
  const auto& [amounts, gpus] = m;
  return std::tie(amounts, gpus);
}
auto fields(const ReturnLease& m) {
  const auto& [worker, caller, broken] = m;
  return std::tie(worker, caller, broken);
}
auto fields(const RecallLeases& m) {
  const auto& [workers, count] = m;
  return std::tie(workers, count);
}
auto fields(const StartActor& m) {
  const auto& [actor, label, constructor, arguments, name_space, name, type, max_restarts, detached, max_task_retries,
               in_pieces, demand, asker, trace, exclusive, leaves] = m;
  return std::tuple_cat(std::tie(actor, label, constructor, arguments, name_space, name, type, max_restarts, detached,
                                 max_task_retries, in_pieces, demand, trace, exclusive, leaves),
                        fields(asker));
}
auto fields(const FindNode& m) {
  const auto& [node, number] = m;
  return std::tie(node, number);
}
auto fields(const EndWorker& m) {
  return std::tie(m.grace_ms, m.moves);
}
auto fields(const Beat& m) {
  return std::tie(m.sent, m.heard);
}
auto fields(const DrainNode& m) {
  const auto& [node, limit_ms, number] = m;
  return std::tie(node, limit_ms, number);
}
auto fields(const KillActor& m) {
  const auto& [actor, asker, gently, grace_ms, why] = m;
  return std::tuple_cat(std::tie(actor, gently, grace_ms, why), fields(asker));
}
auto fields(const ConnectActor& m) {
  const auto& [actor, seen, asker] = m;
  return std::tuple_cat(std::tie(actor, seen), fields(asker));
}
auto fields(const FindActor& m) {
  const auto& [name_space, name, type, asker] = m;
  return std::tuple_cat(std::tie(name_space, name, type), fields(asker));
}
auto fields(const ActorFound& m) {
  const auto& [actor, label, number] = m;
  return std::tie(actor, label, number);
}
auto fields(const HoldActor& m) {
  const auto& [actor, count, asker] = m;
  return std::tuple_cat(std::tie(actor, count), fields(asker));
}
auto fields(const AddJob& m) {
  const auto& [job, program, node, others] = m;
  return std::tuple_cat(std::tie(job, node, others), fields(program));
}
auto fields(const EndJob& m) {
  const auto& [job] = m;
  return std::tie(job);
}
auto fields(const StopJob& m) {
  const auto& [job] = m;
  return std::tie(job);
}
auto fields(const JobStopped& m) {
  const auto& [job] = m;
  return std::tie(job);
}
auto fields(const PromiseActor& m) {
  const auto& [actor, label, name_space, name, type, max_restarts, detached, get_if_exists, asker] = m;
  return std::tuple_cat(std::tie(actor, label, name_space, name, type, max_restarts, detached, get_if_exists),
                        fields(asker));
}
auto fields(const BreakPromise& m) {
  const auto& [actor, why, asker] = m;
  return std::tuple_cat(std::tuple{actor, why.code(), why.message()}, fields(asker));
}
auto fields(const EndCaller& m) {
  const auto& [caller] = m;
  return std::tie(caller);
}
auto fields(const StartIncarnation& m) {
  const auto& [actor, incarnation, job, label, constructor, arguments, in_pieces, name_space, amounts, gpus, trace,
               group, bundle, exclusive, may_restart] = m;
  return std::tie(actor, incarnation, job, label, constructor, arguments, in_pieces, name_space, amounts, gpus, trace,
                  group, bundle, exclusive, may_restart);
}
auto fields(const NodeLoad& m) {
  const auto& [tasks, waiting] = m;
  return std::tie(tasks, waiting);
}
auto fields(const ListRows& m) {
  const auto& [table, filters, limit, number, node, passed_on] = m;
  return std::tie(table, filters, limit, number, node, passed_on);
}
auto fields(const ReadLog& m) {
  const auto& [node, log, from, most, passed_on] = m;
  return std::tie(node, log, from, most, passed_on);
}
auto fields(const LogPart& m) {
  const auto& [from, text, size, ended] = m;
  return std::tie(from, text, size, ended);
}
auto fields(const Explained& m) {
  const auto& [pid, function, nanoseconds, waits] = m;
  return std::tie(pid, function, nanoseconds, waits);
}
auto fields(const ReadStacks& m) {
  const auto& [worker] = m;
  return std::tie(worker);
}
auto fields(const Stacks& m) {
  const auto& [text] = m;
  return std::tie(text);
}
auto fields(const Rows& m) {
  const auto& [columns, rows, matching, number] = m;
  return std::tie(columns, rows, matching, number);
}
auto fields(const PlaceGroup& m) {
  const auto& [group, label, strategy, bundles, asker] = m;
  return std::tuple_cat(std::tie(group, label, strategy, bundles), fields(asker));
}
auto fields(const GroupReady& m) {
  const auto& [number, nodes] = m;
  return std::tie(number, nodes);
}
auto fields(const RemoveGroup& m) {
  const auto& [group, asker] = m;
  return std::tuple_cat(std::tie(group), fields(asker));
}
auto fields(const HoldBundle& m) {
  const auto& [group, bundle, amounts, gpus] = m;
  return std::tie(group, bundle, amounts, gpus);
}
auto fields(const BundleHeld& m) {
  const auto& [group, bundle] = m;
  return std::tie(group, bundle);
}
auto fields(const ReleaseBundle& m) {
  const auto& [group, bundle] = m;
  return std::tie(group, bundle);
}
auto fields(const EndIncarnation& m) {
  const auto& [actor, incarnation, kill, grace_ms, moves] = m;
  return std::tie(actor, incarnation, kill, grace_ms, moves);
}
auto fields(const IncarnationEnded& m) {
  const auto& [actor, incarnation, reason, out_of_memory] = m;
  return std::tie(actor, incarnation, reason, out_of_memory);
}
auto fields(const ActorAlive& m) {
  const auto& [number, actor, incarnation, node, max_task_retries, ended, address, out_of_memory] = m;
  return std::tie(number, actor, incarnation, node, max_task_retries, ended, address, out_of_memory);
}
auto fields(const JoinCluster& m) {
  const auto& [node, address, amounts, labels, again, session, heard] = m;
  return std::tie(node, address, amounts, labels, again, session, heard);
}
auto fields(const ClusterJoined& m) {
  const auto& [cpus, lost, lasts, session, resumed, heard] = m;
  return std::tie(cpus, lost, lasts, session, resumed, heard);
}
auto fields(const Confirmed& m) {
  const auto& [count] = m;
  return std::tie(count);
}
auto fields(const Report& m) {
  const auto& [jobs, callers, holds, incarnations, bundles, unheld, lent, borrowed, more] = m;
  return std::tie(jobs, callers, holds, incarnations, bundles, unheld, lent, borrowed, more);
}
auto fields(const ActorLife& m) {
  const auto& [actor, incarnation, restarts, backoff, waits, has, group, bundle, over, label, job, last_end,
               out_of_memory] = m;
  return std::tuple{
      actor,  incarnation,      restarts, backoff, waits,    has,           group,
      bundle, over.has_value(), label,    job,     last_end, out_of_memory, over ? over->message() : std::string{}};
}
auto fields(const GroupPlaces& m) {
  const auto& [group, places, removed] = m;
  return std::tie(group, places, removed);
}
auto fields(const LeaseGranted& m) {
  const auto& [number, worker, node, address] = m;
  return std::tie(number, worker, node, address);
}
auto fields(const Refused& m) {
  const auto& [number, why] = m;
  return std::tuple{number, why.code(), why.message()};
}
auto fields(const ConstructActor& m) {
  const auto& [actor, incarnation, constructor, arguments, in_pieces, name_space, holding, trace, exclusive] = m;
  return std::tuple_cat(std::tie(actor, incarnation, constructor, arguments, in_pieces, name_space, trace, exclusive),
                        fields(holding));
}
auto fields(const StoreOpened& m) {
  const auto& [table] = m;
  return std::tie(table);
}
auto fields(const LeaseSlab& m) {
  const auto& [slot_bytes] = m;
  return std::tie(slot_bytes);
}
auto fields(const SlabLeased& m) {
  const auto& [offset, slot_bytes, first_slot, slots] = m;
  return std::tie(offset, slot_bytes, first_slot, slots);
}
auto fields(const ReturnSlab& m) {
  const auto& [first_slot] = m;
  return std::tie(first_slot);
}
auto fields(const ObjectLocation& m) {
  const auto& [id, place, owner, node] = m;
  return std::tie(id, place, owner, node);
}
auto fields(const BringObject& m) {
  const auto& [object] = m;
  return fields(object);
}
auto fields(const ImportObject& m) {
  const auto& [object] = m;
  return fields(object);
}
auto fields(const ObjectImported& m) {
  const auto& [object] = m;
  return fields(object);
}
auto fields(const ClaimObject& m) {
  const auto& [object] = m;
  return fields(object);
}
auto fields(const ObjectClaimed& m) {
  const auto& [size, label, elsewhere] = m;
  return std::tuple{size, label, fields(elsewhere)};
}
auto fields(const ReleaseObject& m) {
  const auto& [object] = m;
  return fields(object);
}
auto fields(const NodeFound& m) {
  const auto& [number, address] = m;
  return std::tie(number, address);
}
auto fields(const ActorConstructed& m) {
  const auto& [actor, incarnation, failure] = m;
  return std::tuple{actor, incarnation, failure.has_value(), failure ? failure->message() : std::string{}};
}
auto fields(const WorkerReady& m) {
  const auto& [worker, actor, incarnation, pid, max_task_retries, remote, ended, out_of_memory] = m;
  return std::tie(worker, actor, incarnation, pid, max_task_retries, remote, ended, out_of_memory);
}
auto fields(const WorkerEnded& m) {
  const auto& [worker, reason, out_of_memory] = m;
  return std::tie(worker, reason, out_of_memory);
}
auto fields(const Output& m) {
  const auto& [label, pid, error, lines, report, job, last] = m;
  return std::tie(label, pid, error, lines, report, job, last);
}
auto fields(const ZygoteReady& m) {
  const auto& [build_id, functions, cannot_fork] = m;
  return std::tie(build_id, functions, cannot_fork);
}
auto fields(const ForkWorker& m) {
  const auto& [worker, variables] = m;
  return std::tie(worker, variables);
}
auto fields(const WorkerForked& m) {
  const auto& [worker, pid] = m;
  return std::tie(worker, pid);
}
auto fields(const WorkerReaped& m) {
  const auto& [worker, status, crashed] = m;
  return std::tie(worker, status, crashed);
}
auto fields(const WorkerCrashed& m) {
  const auto& [worker, headline, report] = m;
  return std::tie(worker, headline, report);
}
auto fields(const Inspect& m) {
  const auto& [asker] = m;
  return fields(asker);
}
auto fields(const Inspected& m) {
  const auto& [total, in_use, cluster, workers, number, store] = m;
  return std::tie(total, in_use, cluster, workers, number, store);
}
auto fields(const WorkerBlocked& m) {
  const auto& [blocked] = m;
  return std::tie(blocked);
}
auto fields(const ServeCaller& m) {
  const auto& [caller, actor, incarnation, remote, holding] = m;
  return std::tuple_cat(std::tie(caller, actor, incarnation, remote), fields(holding));
}
template <class Empty>
requires std::is_empty_v<Empty>
auto fields(const Empty&) {
  return std::tuple<>{};
}

bool same(const Message& a, const Message& b) {
  return a.index() == b.index() && std::visit(
                                       [&b](const auto& left) {
                                         using Kind = std::remove_cvref_t<decltype(left)>;
                                         return fields(left) == fields(std::get<Kind>(b));
                                       },
                                       a);
}

TEST(Message, EveryAlternativeHasARowHere) {
  std::set<std::size_t> rows;
  for (const Message& message : one_of_each()) rows.insert(message.index());
  for (std::size_t index = 0; index < std::variant_size_v<Message>; ++index) {
    EXPECT_TRUE(rows.contains(index)) << "alternative " << index << " of Message has no row in one_of_each()";
  }
}

TEST(Message, EachComesBackWhole) {
  for (const Message& message : one_of_each()) {
    const auto back = decode(encode(message));
    ASSERT_TRUE(back.ok()) << name_of(message) << ": " << back.error().to_string();
    EXPECT_TRUE(same(message, *back)) << name_of(message);
  }
}

TEST(Message, EachComesBackFromAnUnalignedPlace) {
  for (const Message& message : one_of_each()) {
    const auto bytes = encode(message);
    std::vector<std::byte> shifted(bytes.size() + 1);
    std::memcpy(shifted.data() + 1, bytes.data(), bytes.size());
    const auto back = decode(std::span{shifted}.subspan(1));
    ASSERT_TRUE(back.ok()) << name_of(message);
    EXPECT_TRUE(same(message, *back)) << name_of(message);
  }
}

TEST(Message, AnArgumentOfWhatComesLaterIsRefused) {
  InspectedWorker worker = some_worker();
  worker.waits[0].argument_of = 1;
  EXPECT_FALSE(decode(encode(Inspected{.workers = {worker}})).ok());
  worker.waits[0].argument_of = -2;
  EXPECT_FALSE(decode(encode(Inspected{.workers = {worker}})).ok());
}

TEST(Message, EachHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Message& message : one_of_each()) names.insert(name_of(message));
  EXPECT_EQ(names.size(), std::variant_size_v<Message>);
  EXPECT_EQ(name_of(Message{Failure{Error{ErrorCode::kInternal, ""}}}), "Failure");
  EXPECT_EQ(name_of(Message{WorkerReaped{}}), "WorkerReaped");
  EXPECT_EQ(name_of(Message{EndWorker{}}), "EndWorker");
}

TEST(Message, DescriptorsTravelWithSixOfThem) {
  for (const Message& message : one_of_each()) {
    std::size_t expected = 0;
    if (std::holds_alternative<RegisterJob>(message) || std::holds_alternative<WorkerReady>(message) ||
        std::holds_alternative<WorkerForked>(message) || std::holds_alternative<ServeCaller>(message)) {
      expected = 1;
    }
    if (std::holds_alternative<ForkWorker>(message) || std::holds_alternative<StoreOpened>(message)) expected = 3;
    EXPECT_EQ(descriptors_of(message), expected) << name_of(message);
  }
}

TEST(Message, EveryTruncationIsRefused) {
  for (const Message& message : one_of_each()) {
    const auto whole = encode(message);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const auto cut = decode(std::span{whole}.first(size));
      EXPECT_FALSE(cut.ok()) << name_of(message) << " of " << size << " bytes";
      if (!cut.ok()) {
        EXPECT_EQ(cut.error().code(), ErrorCode::kCorrupt);
      }
    }
  }
}

TEST(Message, AFailureOfACodeThatDoesNotExistIsRefused) {
  const Failure failure{Error{static_cast<ErrorCode>(200), "x"}};
  EXPECT_EQ(decode(encode(failure)).error().code(), ErrorCode::kCorrupt);
  const Failure outcome{Error{ErrorCode::kInternal, "x"}.with_outcome(static_cast<Outcome>(3))};
  EXPECT_EQ(decode(encode(outcome)).error().code(), ErrorCode::kCorrupt);
}

using RandomMessage = SeededTest;

TEST_F(RandomMessage, MutatedAndTruncatedMessagesDecodeOrAreCorrupt) {
  std::vector<std::vector<std::byte>> valid;
  for (const Message& message : one_of_each()) valid.push_back(encode(message));
  std::size_t decoded = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto bad = valid[between(0, valid.size() - 1)];
    for (std::size_t i = between(1, 8); i > 0; --i) bad[between(0, bad.size() - 1)] = static_cast<std::byte>(random_());
    if (chance(3)) bad.resize(between(0, bad.size() / 8) * 8);
    const auto result = decode(bad);
    if (!result) {
      ASSERT_EQ(result.error().code(), ErrorCode::kCorrupt);
    } else {
      ++decoded;
      ASSERT_TRUE(decode(encode(*result)).ok()) << "what was accepted can be sent on";
    }
  }
  EXPECT_GT(decoded, 0u) << "no mutation was harmless: the test shows nothing";
}

// In Cap'n Proto a pointer to a list is a word: offset << 2 | 1, then elements << 3 | their size.
constexpr std::uint32_t kBytes = 2;
constexpr std::uint32_t kPointers = 6;
struct ListPointer {
  std::int32_t offset_and_kind = 0;
  std::uint32_t elements_and_size = 0;
  bool operator==(const ListPointer&) const = default;
};

ListPointer pointer_at(const std::vector<std::byte>& bytes, std::size_t word) {
  ListPointer pointer;
  std::memcpy(&pointer, bytes.data() + word * 8, sizeof pointer);
  return pointer;
}
void set_pointer(std::vector<std::byte>& bytes, std::size_t word, ListPointer pointer) {
  std::memcpy(bytes.data() + word * 8, &pointer, sizeof pointer);
}
/// The words that are pointers to a list like that.
std::vector<std::size_t> pointers_to(const std::vector<std::byte>& bytes, std::size_t elements, std::uint32_t size) {
  std::vector<std::size_t> found;
  for (std::size_t word = 1; word < bytes.size() / 8; ++word) {
    const ListPointer pointer = pointer_at(bytes, word);
    if ((pointer.offset_and_kind & 3) == 1 && pointer.elements_and_size == (elements << 3 | size))
      found.push_back(word);
  }
  return found;
}

TEST(Message, ABuildIdOfAnotherLengthIsRefused) {
  auto bytes = encode(ZygoteReady{some_build_id(), 12, ""});
  const auto found = pointers_to(bytes, 20, kBytes);
  ASSERT_EQ(found.size(), 1u);
  ListPointer pointer = pointer_at(bytes, found[0]);
  pointer.elements_and_size = 19u << 3 | kBytes;
  set_pointer(bytes, found[0], pointer);
  EXPECT_FALSE(decode(bytes).ok());
}

TEST(Message, AListThatClaimsMoreThanThereIsIsRefusedFast) {
  RegisterJob job;
  job.arguments = std::vector<std::string>(1000, "argument");
  const auto whole = encode(job);
  const auto found = pointers_to(whole, 1000, kPointers);
  ASSERT_EQ(found.size(), 1u);
  const auto begin = std::chrono::steady_clock::now();
  for (const std::uint32_t claimed : {20'000u, 1u << 20, 1u << 28, (1u << 29) - 1}) {
    auto absurd = whole;
    ListPointer pointer = pointer_at(absurd, found[0]);
    pointer.elements_and_size = claimed << 3 | kPointers;
    set_pointer(absurd, found[0], pointer);
    EXPECT_EQ(decode(absurd).error().code(), ErrorCode::kCorrupt) << claimed;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST(Message, AListThatNamesOneLongTextAgainAndAgainIsRefusedFast) {
  constexpr std::uint32_t kLong = 1 << 20;
  RegisterJob job;
  job.executable = std::string(kLong, 'x');
  job.arguments = std::vector<std::string>(4000, "short");
  auto bytes = encode(job);
  const auto long_text = pointers_to(bytes, kLong + 1, kBytes);  // with its zero
  const auto short_texts = pointers_to(bytes, 6, kBytes);
  ASSERT_EQ(long_text.size(), 1u);
  ASSERT_EQ(short_texts.size(), 4000u);
  const auto long_at =
      static_cast<std::int64_t>(long_text[0]) + 1 + (pointer_at(bytes, long_text[0]).offset_and_kind >> 2);
  for (const std::size_t word : short_texts) {
    const auto offset = static_cast<std::int32_t>(long_at - static_cast<std::int64_t>(word) - 1);
    set_pointer(bytes, word, {offset * 4 + 1, (kLong + 1) << 3 | kBytes});
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(decode(bytes).error().code(), ErrorCode::kCorrupt) << "it would take 4 GiB";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

}  // namespace
}  // namespace pharos::wire
