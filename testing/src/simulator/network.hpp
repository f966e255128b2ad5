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
#include <pharos/testing/cluster_options.hpp>
#include <pharos/wire/message.hpp>

#include "simulator/process.hpp"
#include "simulator/world.hpp"

namespace pharos::simulator {

/// Returns a descriptor for messages that carry an open file which the simulator does not need.
std::vector<Fd> some_file();

/// Connections between simulated processes. A connection is ordered and reliable until it is cut. A cut loses the data
/// on its way, in each direction from a point on that the seed draws.
/// An end that no process has opened yet is a real file descriptor, and can be sent in messages. If the descriptor is
/// closed, the connection is closed too.
class Network final : public Connections {
 public:
  /// A fault that may strike a message just before it arrives.
  enum class Fault : std::uint8_t {
    kNone,
    kLost,          ///< the connection is cut before it arrives
    kReplyLost,     ///< the message arrives, and the connection is cut before any reply
    kSenderDies,    ///< the sender is killed while the message is on its way
    kReceiverDies,  ///< the receiver is killed when the message arrives
    kTwice,         ///< the message arrives twice
  };
  /// Chooses the fault for each control message.
  using Choose = async::UniqueFunction<Fault(const wire::Message&)>;
  /// Chooses the fault for each frame between a caller and a callee. `may_break` is that of connect(): a connection
  /// without it loses nothing.
  using ChooseFrame = async::UniqueFunction<Fault(const wire::FrameHeader&, bool may_break)>;

  explicit Network(World& world) : world_{world} {}
  Network(Network&&) = delete;
  ~Network() override;

  /// Returns both ends of a new connection. `may_break` is true if the ends are on different machines. A connection
  /// that `is_patient` outlasts a cut of more than kTimeout.
  std::pair<Fd, Fd> connect(bool may_break, bool is_patient = false);
  /// `end` is an unopened end. Calls `then` with true a little after a process has opened the other end, or with false
  /// if the other end was closed before that.
  void when_other_opens(int end, async::UniqueFunction<void(bool opened)> then);
  std::shared_ptr<net::Link> open(Fd end, Process& process) override;
  void end_of(Process& process) override;
  /// Cuts a random connection that may break. Returns false if there is none.
  bool cut_one();
  /// Until `until`, messages from processes named `from` to processes named `to` are delayed. They are not lost.
  void hold(const std::string& from, const std::string& to, TimePoint until);
  /// Returns the machine that a process is on.
  using MachineOf = std::function<std::string(const Process& process)>;
  /// Until `until`, nothing passes between this machine and the others. If the cut is longer than kTimeout, connections
  /// that are not patient end after kTimeout at both ends and lose the data on its way. Messages on other connections
  /// arrive later.
  void cut_off(const std::string& machine, TimePoint until, MachineOf machine_of);
  static constexpr Duration kTimeout = std::chrono::seconds{10};
  /// The time from which no cut separates these two machines.
  TimePoint cut_off_until(const std::string& one, const std::string& other) const;
  /// The time from which messages between the two pass in both directions.
  TimePoint held_until(const std::string& one, const std::string& other) const;
  /// From now on, faults strike control messages, or frames, as `choose` decides.
  void choose_faults(Choose choose) { choose_ = std::move(choose); }
  void choose_faults(ChooseFrame choose) { choose_frame_ = std::move(choose); }
  void set_delays(const testing::Delays& delays) { delays_ = delays; }

  /// Closes the connections whose unopened ends were closed as descriptors. To be called between events.
  void look_after_unopened();

 private:
  class SimulatedLink;
  struct Segment {
    std::vector<std::byte> bytes;
    std::vector<Fd> descriptors;
  };
  struct End {
    Fd unopened;                 // read end of a pipe; its write end is the descriptor that stands for this end
    Process* process = nullptr;  // the process that has opened this end; null before
    std::weak_ptr<SimulatedLink> link;
    bool closed = false;             // this end has closed the connection, or was told that it ended
    std::deque<Segment> on_its_way;  // segments that are on their way to this end
    TimePoint last_arrival;
    std::deque<Segment> arrived;
    std::size_t unread = 0;     // bytes in on_its_way and arrived
    std::optional<Error> over;  // why nothing follows the segments that have arrived
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
  testing::Delays delays_;
  Choose choose_;
  ChooseFrame choose_frame_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::map<int, std::pair<std::shared_ptr<Connection>, int>> unopened_;  // ends by descriptor
  std::map<std::pair<std::string, std::string>, TimePoint> held_;
  std::map<std::string, TimePoint> cut_off_;  // until when each machine is cut off
  MachineOf machine_of_;
  std::uint64_t last_number_ = 0;
};

}  // namespace pharos::simulator
