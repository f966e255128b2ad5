#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <pharos/base/id.hpp>
#include <pharos/wire/messages/parts.hpp>

// What people ask: rows of tables, logs, stacks, and what runs and waits. See pharos/wire/message.hpp.

namespace pharos::wire {

/// Caller to node, which asks its workers and the head. Answered by Inspected.
/// Asks for the running and waiting calls of a job, or of one of its workers.
struct Inspect {
  Asker asker{};
};
/// A result that is not available yet, as seen by the process that waits for it.
struct PendingResult {
  enum class Stage : std::uint8_t {
    kNoCall,     ///< the result comes from no call; this process sets it later
    kArguments,  ///< the call waits for its arguments
    kUnsent,     ///< the call waits for a worker, or for its actor
    kSent,       ///< the call was sent
  };
  friend constexpr bool pharos_valid(Stage value) { return value <= Stage::kSent; }
  std::int32_t argument_of = -1;  ///< index of the result whose call needs this one; -1 if a thread waits for it
  Stage stage = Stage::kNoCall;
  std::uint32_t function = kNoFunction;
  ActorId actor{};  ///< the called actor; none if the call is a task
  std::string label{};
  WorkerId worker{};                   ///< the worker to which a task was sent
  std::uint64_t number = 0;            ///< FrameHeader::number of a call that was sent
  std::int32_t thread = 0;             ///< the waiting thread; 0 if a coroutine waits
  std::uint32_t inside = kNoFunction;  ///< the function that the waiting thread runs
  Amounts amounts{};                   ///< resources that a task needs
  friend bool operator==(const PendingResult&, const PendingResult&) = default;
};
/// An actor, or a worker that runs tasks.
struct InspectedWorker {
  WorkerId worker{};  ///< none if the actor has no process
  ActorId actor{};
  std::string label{};
  std::string state{};  ///< text for people
  std::int32_t pid = 0;
  bool answered = false;  ///< the worker has answered; if false, the fields below about its call are unknown
  std::uint32_t function = kNoFunction;  ///< the function that runs
  std::int64_t nanoseconds = 0;          ///< how long the function has been running
  CallerId caller{};                     ///< the caller of the running call
  std::uint64_t number = 0;
  std::vector<PendingResult> waits{};
  Amounts amounts{};           ///< resources that the worker holds
  std::string elsewhere{};     ///< text for people: the other node that it is on; empty if on this node or on none
  bool may_run_again = false;  ///< the running task is run again if a worker dies
  friend bool operator==(const InspectedWorker&, const InspectedWorker&) = default;
};
/// The answer to Inspect.
struct Inspected {
  Amounts total{};    ///< resources of the node
  Amounts in_use{};   ///< resources of the node that are in use
  Amounts cluster{};  ///< resources of all nodes; empty if the head has not answered
  std::vector<InspectedWorker> workers{};
  std::uint64_t number = 0;  ///< in an answer of the head: Asker::number of the question
};
/// A condition on one cell of a row.
struct RowFilter {
  std::string column;
  std::string value;
  bool is_not = false;
  friend bool operator==(const RowFilter&, const RowFilter&) = default;
};
/// A command to any node, which asks the head or the node that is meant. Answered by Rows.
/// Asks for rows of a table of the head or of a node. For the console.
struct ListRows {
  std::string table;
  std::vector<RowFilter> filters{};
  std::uint32_t limit = 0;
  std::uint64_t number = 0;  ///< number of the question; the node that passes it on fills this in
  NodeId node{};             ///< the node that has the table; none for a table of the head
  bool passed_on = false;    ///< another node passed this on, and asserts that the receiver is `node`
};
/// The answer to ListRows, DrainNode and EndNode.
struct Rows {
  std::vector<std::string> columns{};
  std::vector<std::vector<std::string>> rows{};  ///< each row has one cell per column
  std::uint64_t matching = 0;                    ///< number of matching rows, including rows beyond the limit
  std::uint64_t number = 0;
};
/// A command to any node, which asks the node that is meant. Answered by LogPart.
/// Asks for a part of a log that a node keeps. For the console.
struct ReadLog {
  NodeId node{};  ///< the node that keeps the log; none for the receiver
  std::string log{};
  std::uint64_t from =
      0;  ///< offset of the first byte, counted from the start of the log; beyond the end means the end
  std::uint32_t most = 0;  ///< maximum number of bytes
  bool passed_on = false;  ///< like ListRows::passed_on
};
/// The answer to ReadLog.
struct LogPart {
  std::uint64_t from = 0;  ///< larger than asked if the older part of the log is deleted
  std::string text{};
  std::uint64_t size = 0;  ///< number of bytes ever written to the log
  bool ended = false;      ///< the log will not grow
};
/// Node to caller. Answered by Explained.
/// Asks a caller which function it runs and what its get() calls wait for.
struct Explain {};
/// The answer to Explain.
struct Explained {
  std::int32_t pid = 0;
  std::string function{};        ///< the function that runs; empty if none
  std::int64_t nanoseconds = 0;  ///< how long the function has been running
  std::string waits{};           ///< text for people, a line for each wait; empty if no get() waits
};
/// Node to zygote. Answered by Stacks.
/// Asks for the stacks of a worker's threads.
struct ReadStacks {
  WorkerId worker;
};
/// The answer to ReadStacks.
struct Stacks {
  std::string text{};  ///< text for people
};

}  // namespace pharos::wire
