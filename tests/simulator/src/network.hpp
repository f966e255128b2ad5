#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/net/link.hpp>
#include <pharos/wire/message.hpp>

#include "process.hpp"
#include "world.hpp"

namespace pharos::simulator {

/// Connections between simulated processes. Each is ordered and reliable until it is cut: what was on its way then is
/// lost, from a place on that the seed draws, in each direction.
/// An end that nobody has opened yet is a descriptor, which travels like one; if it is closed, the connection is.
class Network {
 public:
  struct Delays {
    Duration least = std::chrono::microseconds{10};
    Duration most = std::chrono::microseconds{120};
    std::uint64_t one_in = 50;  ///< then it takes longer
    Duration longest = std::chrono::milliseconds{8};
  };
  /// What may happen to a message when it is about to arrive.
  enum class Fault : std::uint8_t {
    kNone,
    kLost,          ///< the connection is cut before it arrives
    kReplyLost,     ///< it arrives, and the connection is cut before anything comes back
    kSenderDies,    ///< its sender is killed while it is on its way
    kReceiverDies,  ///< its receiver is killed when it arrives
    kTwice,         ///< it arrives twice
  };
  /// Asked for each control message.
  using Choose = async::UniqueFunction<Fault(const wire::Message&)>;
  /// The same for what is sent between callers and callees. `may_break`: as in connect(); elsewhere nothing is lost.
  using ChooseFrame = async::UniqueFunction<Fault(const wire::FrameHeader&, bool may_break)>;

  explicit Network(World& world) : world_{world} {}
  Network(Network&&) = delete;
  ~Network();

  /// Both ends of a new connection. `may_break`: its ends are on different machines. `is_patient`: it outlasts a cut of
  /// more than kTimeout.
  std::pair<Fd, Fd> connect(bool may_break, bool is_patient = false);
  /// Asks, for the end that is this descriptor, whether a process opens the other one. Answered a little later; false:
  /// nobody will.
  void when_other_opens(int end, async::UniqueFunction<void(bool opened)> then);
  /// Takes an end over, for code in that process.
  std::shared_ptr<net::Link> open(Fd end, Process& process);
  /// The process is gone, and its ends are closed.
  void end_of(Process& process);
  /// Cuts one of those that may break, if there is one.
  bool cut_one();
  /// Until then nothing passes from processes of the one name to those of the other. It is not lost: it comes later.
  void hold(const std::string& from, const std::string& to, TimePoint until);
  /// Which machine a process is on.
  using MachineOf = std::function<std::string(const Process& process)>;
  /// Until then nothing passes between that machine and the others. Connections that are not patient end after
  /// kTimeout, at both ends, with what is on its way; what is said on others comes later.
  void cut_off(const std::string& machine, TimePoint until, MachineOf machine_of);
  static constexpr Duration kTimeout = std::chrono::seconds{10};
  /// When nothing keeps these machines apart.
  TimePoint cut_off_until(const std::string& one, const std::string& other) const;
  /// When all that is said between the two passes, in both directions.
  TimePoint held_until(const std::string& one, const std::string& other) const;
  /// From now on faults strike control messages as `choose` says.
  void choose_faults(Choose choose) { choose_ = std::move(choose); }
  void choose_faults(ChooseFrame choose) { choose_frame_ = std::move(choose); }
  void set_delays(const Delays& delays) { delays_ = delays; }

  /// Sees which ends nobody has opened or will. To be called between events.
  void look_after_unopened();

 private:
  class SimulatedLink;
  struct Segment {
    std::vector<std::byte> bytes;
    std::vector<Fd> descriptors;
  };
  struct End {
    Fd unopened;                 // notices when the descriptor that stands for it is closed
    Process* process = nullptr;  // once opened
    std::weak_ptr<SimulatedLink> link;
    bool closed = false;             // from here, or told about it
    std::deque<Segment> on_its_way;  // to here
    TimePoint last_arrival;
    std::deque<Segment> arrived;
    std::size_t unread = 0;     // bytes of these two
    std::optional<Error> over;  // nothing comes after what has arrived
    async::UniqueFunction<void(bool opened)> waits_for_other;
  };
  struct Connection {
    std::uint64_t number;
    bool may_break;
    bool is_patient;
    bool cut = false;
    End ends[2];
  };

  void transmit(const std::shared_ptr<Connection>& connection, int to, Segment segment);
  void arrive(const std::shared_ptr<Connection>& connection, int to);
  void finish(const std::shared_ptr<Connection>& connection, int at, Error why);
  void close(const std::shared_ptr<Connection>& connection, int from);
  void cut(const std::shared_ptr<Connection>& connection);
  static std::optional<wire::Message> message_in(const Segment& segment);
  static void print(const Connection& connection, int to, const Segment& segment);
  Fault fault_of(const Connection& connection, const Segment& segment);
  Duration delay();
  bool is_cut_off(const Connection& connection, const std::string& machine) const;
  void time_out(const std::string& machine);
  TimePoint next_arrival(const Connection& connection, int to);
  void forget_closed();
  void tell_about_other(End& end, bool opened);

  World& world_;
  Delays delays_;
  Choose choose_;
  ChooseFrame choose_frame_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::map<int, std::pair<std::shared_ptr<Connection>, int>> unopened_;  // by descriptor
  std::map<std::pair<std::string, std::string>, TimePoint> held_;
  std::map<std::string, TimePoint> cut_off_;  // machines: until when
  MachineOf machine_of_;
  std::uint64_t last_number_ = 0;
};

}  // namespace pharos::simulator
