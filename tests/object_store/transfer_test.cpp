// Transfers of objects between two stores, over streams that break, flip bits, send wrong data, and stall.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <thread>

#include <pharos/object_store/transfer.hpp>

#include "plain_store.hpp"
#include "seed.hpp"

namespace pharos::object_store {
namespace {

using namespace std::chrono_literals;

/// One direction of a stream between two threads.
class Pipe {
 public:
  static constexpr std::size_t kRoom = std::size_t{1} << 20;

  /// Called with all bytes that are sent; it may change them. Returns false to end the stream.
  std::function<bool(std::span<std::byte> bytes)> fault = [](std::span<std::byte>) { return true; };

  Result<void> send(std::span<const std::byte> bytes) {
    if (bytes.empty()) return {};
    std::vector<std::byte> copy{bytes.begin(), bytes.end()};
    const bool goes = fault(copy);
    std::unique_lock lock{mutex_};
    if (!goes) ended_ = true;
    changed_.wait(lock, [this] { return ended_ || queue_.size() < kRoom; });
    if (ended_) return gone();
    queue_.insert(queue_.end(), copy.begin(), copy.end());
    passed_ += copy.size();
    changed_.notify_all();
    return {};
  }
  Result<void> receive(std::span<std::byte> bytes) {
    std::unique_lock lock{mutex_};
    while (!bytes.empty()) {
      changed_.wait(lock, [this] { return ended_ || !queue_.empty(); });
      if (queue_.empty()) return gone();
      const std::size_t count = std::min(bytes.size(), queue_.size());
      std::copy_n(queue_.begin(), count, bytes.begin());
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(count));
      bytes = bytes.subspan(count);
      changed_.notify_all();
    }
    return {};
  }
  void end() {
    const std::lock_guard lock{mutex_};
    ended_ = true;
    changed_.notify_all();
  }
  std::size_t passed() {
    const std::lock_guard lock{mutex_};
    return passed_;
  }

 private:
  static Error gone() { return {ErrorCode::kUnavailable, "the stream has ended"}; }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::byte> queue_;
  std::size_t passed_ = 0;
  bool ended_ = false;
};

/// Both ends of a stream.
struct Line {
  Pipe to_sender;
  Pipe to_receiver;

  class End final : public Stream {
   public:
    End(Pipe& out, Pipe& in) : out_{out}, in_{in} {}
    ~End() override {
      out_.end();
      in_.end();
    }
    using Stream::send;
    Result<void> send(std::span<const std::byte> head, std::span<const std::byte> body) override {
      PHAROS_TRY_VOID(out_.send(head));
      return out_.send(body);
    }
    Result<void> receive(std::span<std::byte> bytes) override { return in_.receive(bytes); }

   private:
    Pipe& out_;
    Pipe& in_;
  };
  End sender() { return {to_receiver, to_sender}; }
  End receiver() { return {to_sender, to_receiver}; }
};

class TransferTest : public SeededTest {
 protected:
  const Location location_{{CallerId{7}, 8}, {9, 10}, CallerId{11}, NodeId{13}};
  const PullRequest request_{location_, NodeId{12}};

  /// Serves one receiver, as a node does that has these chunks or is still receiving them.
  std::thread serve(Line& line, const std::shared_ptr<Chunks>& chunks) {
    return std::thread{[this, &line, chunks] {
      auto stream = line.sender();
      const auto request = receive_pull_request(stream);
      if (!request) return;
      EXPECT_EQ(request->object, location_);
      EXPECT_EQ(request->object.owner, location_.owner);
      EXPECT_EQ(request->from, NodeId{12});
      static_cast<void>(send_chunks(stream, *chunks));
    }};
  }
  Result<void> fetch(Line& line, Chunks& into) {
    auto stream = line.receiver();
    PHAROS_TRY(const auto instead, ask_for(stream, request_, into.size()));
    EXPECT_FALSE(instead);
    return receive_chunks(stream, into);
  }
  std::vector<std::byte> object(std::size_t size) {
    std::vector<std::byte> bytes(size);
    fill(bytes, random_());
    return bytes;
  }
};

TEST_F(TransferTest, WhatIsSentArrives) {
  for (const std::size_t size : {std::size_t{1}, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1, 9 * kChunkBytes + 77}) {
    const auto sent = object(size);
    std::vector<std::byte> received(size);
    const auto chunks = Chunks::none_of(received);
    Line line;
    auto sender = serve(line, Chunks::all_of(sent, nullptr));
    EXPECT_TRUE(fetch(line, *chunks).ok());
    sender.join();
    EXPECT_TRUE(received == sent);
    EXPECT_EQ(chunks->arrived(), chunks->count());
  }
}

TEST_F(TransferTest, AStreamThatBreaksAnywhereIsResumedElsewhereWithWhatIsMissing) {
  const auto sent = object(12 * kChunkBytes + 5);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::byte> received(sent.size());
    const auto chunks = Chunks::none_of(received);
    std::size_t passed = 0;
    int attempts = 0;
    Result<void> done = Error{ErrorCode::kUnavailable, "not begun"};
    for (; !done; ++attempts) {
      ASSERT_LT(attempts, 100);
      Line line;
      std::size_t sends = between(0, 20);
      line.to_receiver.fault = [&](std::span<std::byte>) { return sends-- != 0; };
      auto sender = serve(line, Chunks::all_of(sent, nullptr));
      done = fetch(line, *chunks);
      sender.join();
      passed += line.to_receiver.passed();
    }
    EXPECT_TRUE(received == sent);
    EXPECT_LT(passed, sent.size() + static_cast<std::size_t>(attempts) * 2 * kChunkBytes) << "what is here stays";
  }
}

TEST_F(TransferTest, ABitThatFlipsOnItsWayIsFoundAndTheChunkAskedForAgain) {
  const auto sent = object(10 * kChunkBytes);
  std::vector<std::byte> received(sent.size());
  const auto chunks = Chunks::none_of(received);
  {
    Line line;
    std::size_t sends = 6;
    line.to_receiver.fault = [&](std::span<std::byte> bytes) {
      if (sends-- == 0) bytes[bytes.size() / 2] ^= std::byte{1};
      return true;
    };
    auto sender = serve(line, Chunks::all_of(sent, nullptr));
    EXPECT_EQ(fetch(line, *chunks).error().code(), ErrorCode::kCorrupt);
    sender.join();
  }
  EXPECT_LT(chunks->arrived(), chunks->count());
  Line line;
  auto sender = serve(line, Chunks::all_of(sent, nullptr));
  EXPECT_TRUE(fetch(line, *chunks).ok());
  sender.join();
  EXPECT_TRUE(received == sent);
}

TEST_F(TransferTest, AChainPassesChunksOnBeforeItHasThemAll) {
  constexpr std::size_t kNodes = 6;
  const auto sent = object(20 * kChunkBytes + 3);
  std::vector<std::vector<std::byte>> received(kNodes, std::vector<std::byte>(sent.size()));
  std::vector<std::shared_ptr<Chunks>> chunks;
  for (auto& each : received) chunks.push_back(Chunks::none_of(each));
  std::vector<Line> lines(kNodes);
  // The source waits after its first chunk until that chunk has reached the last node.
  std::size_t sends = 0;
  lines[0].to_receiver.fault = [&](std::span<std::byte>) {
    if (++sends != 4) return true;
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (chunks.back()->arrived() == 0 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_EQ(chunks.back()->arrived(), 1U);
    return true;
  };
  std::vector<std::thread> threads;
  threads.push_back(serve(lines[0], Chunks::all_of(sent, nullptr)));
  for (std::size_t n = 1; n < kNodes; ++n) threads.push_back(serve(lines[n], chunks[n - 1]));
  for (std::size_t n = 0; n < kNodes; ++n) {
    threads.emplace_back([&, n] { EXPECT_TRUE(fetch(lines[n], *chunks[n]).ok()); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& each : received) EXPECT_TRUE(each == sent);
}

TEST_F(TransferTest, WhoWaitsForARelayThatGivesUpIsToldSo) {
  const auto sent = object(3 * kChunkBytes);
  std::vector<std::byte> at_relay(sent.size());
  const auto relayed = Chunks::none_of(at_relay);
  std::vector<std::byte> received(sent.size());
  const auto chunks = Chunks::none_of(received);
  Line line;
  auto sender = serve(line, relayed);
  std::thread receiver{[&] { EXPECT_EQ(fetch(line, *chunks).error().code(), ErrorCode::kUnavailable); }};
  relayed->give_up(Error{ErrorCode::kUnavailable, "the source is gone"});
  receiver.join();
  sender.join();
}

TEST_F(TransferTest, ARefusalSaysWhy) {
  for (const ErrorCode code : {ErrorCode::kObjectLost, ErrorCode::kOwnerDied, ErrorCode::kExhausted}) {
    Line line;
    std::thread sender{[&] {
      auto stream = line.sender();
      ASSERT_TRUE(receive_pull_request(stream).ok());
      refuse(stream, Error{code, "no room on that disk"});
    }};
    auto stream = line.receiver();
    const auto asked = ask_for(stream, request_, kMiB);
    sender.join();
    ASSERT_FALSE(asked.ok());
    EXPECT_EQ(asked.error().code(), code == ErrorCode::kExhausted ? ErrorCode::kUnavailable : code);
  }
}

TEST_F(TransferTest, WhoHasNoTimeNamesAnother) {
  Line line;
  std::thread sender{[&] {
    auto stream = line.sender();
    ASSERT_TRUE(receive_pull_request(stream).ok());
    send_on(stream, NodeId{77});
  }};
  auto stream = line.receiver();
  const auto asked = ask_for(stream, request_, kMiB);
  sender.join();
  ASSERT_TRUE(asked.ok());
  EXPECT_EQ(*asked, NodeId{77});
}

TEST_F(TransferTest, NonsenseIsRefusedBeforeAnythingIsAllocated) {
  // The nonsense goes to a sender in the first loop, and to a receiver in the second.
  for (int round = 0; round < 200; ++round) {
    Line line;
    {
      auto liar = line.receiver();
      const auto nonsense = bytes(64);
      ASSERT_TRUE(liar.send(nonsense).ok());
    }
    auto stream = line.sender();
    EXPECT_EQ(receive_pull_request(stream).error().code(), ErrorCode::kCorrupt);
  }
  for (int round = 0; round < 200; ++round) {
    Line line;
    auto nonsense = bytes(24);
    std::fill_n(nonsense.begin() + 8, 8, std::byte{});  // names no other node to ask instead
    nonsense[7] |= std::byte{0x80};                     // a size that the object does not have
    {
      auto liar = line.sender();
      ASSERT_TRUE(liar.send(nonsense).ok());
      auto stream = line.receiver();
      EXPECT_FALSE(ask_for(stream, request_, kMiB).ok());
    }
  }
}

TEST_F(TransferTest, ChunksThatWereNotMissingAreRefused) {
  const auto sent = object(4 * kChunkBytes);
  for (const std::uint64_t index : {std::uint64_t{4}, ~std::uint64_t{0}, std::uint64_t{1}}) {
    std::vector<std::byte> received(sent.size());
    const auto chunks = Chunks::none_of(received);
    chunks->arrived(1, 0);
    Line line;
    std::thread liar{[&] {
      auto stream = line.sender();
      ASSERT_TRUE(receive_pull_request(stream).ok());
      const std::uint64_t offered[] = {sent.size(), 0, 0};
      ASSERT_TRUE(stream.send(std::as_bytes(std::span{offered})).ok());
      std::byte missing{};
      ASSERT_TRUE(stream.receive({&missing, 1}).ok());
      EXPECT_EQ(missing, std::byte{0b1101});
      const std::uint64_t header[] = {index, 0};
      ASSERT_TRUE(stream.send(std::as_bytes(std::span{header})).ok());
      static_cast<void>(stream.send(std::span{sent}.first(kChunkBytes)));
    }};
    EXPECT_EQ(fetch(line, *chunks).error().code(), ErrorCode::kCorrupt);
    liar.join();
  }
}

}  // namespace
}  // namespace pharos::object_store
