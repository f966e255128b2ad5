// A head whose stored records contain some that it cannot use.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <span>
#include <string>

#include <pharos/async/block_on.hpp>
#include <pharos/async/thread_executor.hpp>
#include <pharos/storage/rocksdb_kv_store.hpp>
#include <pharos/wire/message.hpp>

#include "durable_head.hpp"
#include "head/head_keys.hpp"

namespace pharos::cluster::set_aside {
namespace {

using namespace std::chrono_literals;

class SetAsideTest : public DurableHead {
 protected:
  std::string status() const {
    const auto end =
        ChildProgram{PHAROS_EXECUTABLE, {"status", "--address", address_, "--token-file", token_file()}}.wait();
    EXPECT_EQ(end.status, 0) << end.error;
    return end.output;
  }
  /// Writes the records as a head would. A child process does it, because RocksDB leaves threads behind in the process
  /// that uses it.
  void write(storage::Batch records) const {
    const pid_t child = ::fork();
    if (child == 0) {
      auto store = storage::open_rocksdb(state());
      if (!store) ::_exit(2);
      async::ThreadExecutor executor{"set-aside-test"};
      const auto written = async::block_on(executor, (*store)->write(std::move(records), async::Deadline::never()));
      store->reset();
      ::_exit(written ? 0 : 3);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  static std::string bytes_of(const wire::Message& record) {
    const auto bytes = wire::encode(record);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

TEST_F(SetAsideTest, TheHeadStartsCountsThemAndDoesWhatTheOthersSay) {
  start_durable_head();
  EXPECT_EQ(status().find("set aside"), std::string::npos);
  end(head_);

  const JobId no_job{101};
  const ActorId promised{102};
  const ActorId made{103};
  const ActorId lived{104};
  storage::Batch records;
  records.put("node/what", "no message");
  records.put(node::drain_key(NodeId{105}), bytes_of(wire::DrainNode{NodeId{105}, 0}));
  records.put(node::actor_key(promised),
              bytes_of(wire::PromiseActor{.actor = promised, .asker = {no_job, CallerId{106}, 1}}));
  records.put(node::actor_key(made), bytes_of(wire::StartActor{.actor = made, .asker = {no_job, CallerId{106}, 2}}));
  records.put(node::life_key(lived), bytes_of(wire::ActorLife{.actor = lived, .incarnation = 1}));
  write(std::move(records));

  for (int life = 0; life < 2; ++life) {  // the second head counts the records, but does not decode them again
    start_durable_head();
    EXPECT_SAYS(status(),
                "The head could not use 5 of its records, and has set them aside; its log lists their keys.\n");
    EXPECT_EQ(head_->error_with("a record of the head cannot be decoded, and is set aside", 10ms), life == 0);
    start_node("cpu=1,c=1");
    const auto driver = start_driver("waits", {"nothing"});
    read_until(*driver, "c is ");
    EXPECT_EQ(driver->wait().status, 0);
    end(nodes_.back());
    nodes_.clear();
    end(head_);
  }
}

TEST_F(SetAsideTest, RecordsOfAnotherVersionAreLeftAsTheyAre) {
  start_durable_head();
  end(head_);
  std::string other = bytes_of(wire::DrainNode{NodeId{105}, 0});
  other[8] ^= 1;  // this byte belongs to the value that identifies the structure of messages
  storage::Batch records;
  records.put(node::drain_key(NodeId{105}), other);
  write(std::move(records));
  for (int start = 0; start < 2; ++start) {
    start_durable_head({}, false);
    const auto end = head_->wait();
    EXPECT_NE(end.status, 0);
    EXPECT_SAYS(end.error, "another version of Pharos has written the head's records");
    EXPECT_SAYS(end.error, "give another folder to --state");
  }
}

}  // namespace
}  // namespace pharos::cluster::set_aside
