#include "results/large_values.hpp"

#include <chrono>
#include <map>
#include <utility>

#include <pharos/async/block_on.hpp>

#include "caller/refused.hpp"
#include "program/function_table.hpp"
#include "results/bad_arguments.hpp"

namespace pharos::actors {
namespace {

using namespace std::chrono_literals;
using object_store::Object;
using object_store::StoreClient;
using object_store::View;

// The timeout of a request. It is long because a slow disk may have to make room first, or the node's process may be
// suspended. A node that makes no progress refuses the request before that.
constexpr auto kAnswerTime = 10min;
constexpr auto kEndTime = 10s;
constexpr int kImports = 3;  // tries to import an object, as in object_store::StoreClient

/// Translates the error of a request without an answer: kUnavailable means that the node is gone.
Error unanswered(Error why) {
  if (why.code() != ErrorCode::kUnavailable) return why;
  return Error{ErrorCode::kRuntimeStopped, "the node that served this program is gone: " + why.message()};
}

Error out_on_disk() {
  return {ErrorCode::kExhausted, "an argument was moved to disk, because the object store is full",
          "Give the cluster's Runtime a larger object_store."};
}

}  // namespace

void LargeValues::join(const std::shared_ptr<net::Peer>& node, const StoreClient::Self& self) {
  node_ = node;
  self_ = self;
}

bool LargeValues::on_node_message(const wire::Message& message) {
  if (!std::holds_alternative<wire::TrimStore>(message)) return false;
  if (const auto client = opened()) client->trim();
  return true;
}

void LargeValues::end() {
  ended_.store(true);
  background_.cancel();
  const auto joined = background_.join_blocking(async::Deadline::after(kEndTime, executor_.now()));
  PHAROS_CHECK(joined.ok(), joined.error());
}

void LargeValues::abandon() {
  ended_.store(true);
  if (const auto client = opened()) client->abandon();
}

// ---- Opening

LargeValues::Opened LargeValues::opened() const {
  const std::lock_guard lock{mutex_};
  return client_;
}

Result<LargeValues::Opened> LargeValues::open() {
  if (ended_.load()) return stopped();
  if (auto client = opened()) return client;
  return async::block_on(executor_, open_store());
}

// The first caller asks the node. Callers that come meanwhile wait for the answer to that request.
async::Async<Result<LargeValues::Opened>> LargeValues::open_store() {
  if (auto client = opened()) co_return client;
  if (std::exchange(opening_, true)) {
    async::Completion<Opened> opened;
    waiting_.push_back(opened);
    co_return co_await opened.wait(async::Deadline::after(kAnswerTime, executor_.now()));
  }
  auto opened = co_await ask_for_store();
  if (opened) {
    const std::lock_guard lock{mutex_};
    client_ = *opened;
  }
  opening_ = false;
  for (auto& waiting : std::exchange(waiting_, {})) {
    if (opened) {
      waiting.complete(*opened);
    } else {
      waiting.fail(opened.error());
    }
  }
  co_return opened;
}

async::Async<Result<LargeValues::Opened>> LargeValues::ask_for_store() {
  // The node hands its memory out once. If this request timed out, its only answer would be lost.
  const auto deadline = async::Deadline::after(kAnswerTime, executor_.now());
  const auto node = node_.lock();
  if (node == nullptr) co_return stopped();
  wire::Message ask = wire::OpenStore{};
  auto answer = co_await node->request(std::move(ask), std::vector<Fd>{}, deadline);
  if (!answer) co_return unanswered(std::move(answer).error());
  const auto* const opened = std::get_if<wire::StoreOpened>(&answer->message);
  if (opened == nullptr)
    co_return Error{ErrorCode::kInternal,
                    "the node answered the request for the object store with an unexpected message"};
  PHAROS_CO_TRY(auto memory,
                object_store::map_store(std::move(answer->descriptors[0]), std::move(answer->descriptors[1])));
  if (opened->table >= memory->ledger().tables()) {
    co_return Error{ErrorCode::kCorrupt, "the node named a table of pins that does not exist"};
  }
  co_return StoreClient::make(self_, opened->table, std::move(memory), weak_from_this(),
                              std::move(answer->descriptors[2]));
}

// ---- Leases

Result<object_store::Slab> LargeValues::lease(std::uint64_t slot_bytes) {
  if (ended_.load()) return stopped();
  return async::block_on(executor_, ask_for_slab(slot_bytes));
}

template <class Answer>
async::Async<Result<Answer>> LargeValues::ask(wire::Message question) {
  const auto deadline = async::Deadline::after(kAnswerTime, executor_.now());
  const auto node = node_.lock();
  if (node == nullptr) co_return stopped();
  auto answer = co_await node->request(std::move(question), std::vector<Fd>{}, deadline);
  if (!answer) co_return unanswered(std::move(answer).error());
  if (const auto* const expected = std::get_if<Answer>(&answer->message)) co_return *expected;
  co_return Error{ErrorCode::kInternal, "the node's answer does not fit the request"};
}

async::Async<Result<object_store::Slab>> LargeValues::ask_for_slab(std::uint64_t slot_bytes) {
  wire::Message question = wire::LeaseSlab{slot_bytes};
  PHAROS_CO_TRY(const auto leased, co_await ask<wire::SlabLeased>(std::move(question)));
  co_return object_store::Slab{leased.offset, leased.slot_bytes, leased.first_slot, leased.slots};
}

Result<void> LargeValues::bring(const object_store::Location& location) {
  if (ended_.load()) return stopped();
  return async::block_on(executor_, ask_to_bring(location));
}

async::Async<Result<void>> LargeValues::ask_to_bring(object_store::Location location) {
  wire::Message question = wire::BringObject{location};
  PHAROS_CO_TRY([[maybe_unused]] const auto done, co_await ask<wire::Done>(std::move(question)));
  co_return {};
}

Result<object_store::Location> LargeValues::import(const object_store::Location& location) {
  if (ended_.load()) return stopped();
  return async::block_on(executor_, ask_to_import(location));
}

async::Async<Result<object_store::Location>> LargeValues::ask_to_import(object_store::Location location) {
  wire::Message question = wire::ImportObject{location};
  PHAROS_CO_TRY(const auto imported, co_await ask<wire::ObjectImported>(std::move(question)));
  co_return imported.object;
}

void LargeValues::give_back(std::uint32_t first_slot) {
  if (ended_.load()) return;
  if (const auto node = node_.lock()) node->send(wire::ReturnSlab{first_slot});
}

// ---- Values

Result<object_store::WritableObject> LargeValues::create(std::size_t bytes, CallerId heir, std::string_view label) {
  PHAROS_TRY(const Opened client, open());
  return client->create(bytes, heir, label);
}

std::shared_ptr<Object> LargeValues::object_with(std::span<const std::byte> bytes) const {
  const auto client = opened();
  return client == nullptr ? nullptr : client->object_with(bytes);
}

Result<std::vector<Decoder::Part>> LargeValues::gather(std::span<const std::byte> payload,
                                                       std::shared_ptr<const void> buffer) {
  PHAROS_TRY(const Opened client, open());
  return gather(*client, payload, std::move(buffer), true);
}

void LargeValues::look_ahead(std::span<const std::byte> payload) const {
  const auto read = read_pieces(payload);
  const auto node = node_.lock();
  if (!read || node == nullptr || opened() == nullptr || ended_.load()) return;
  for (const Piece& piece : read->pieces) {
    if (piece.of_ref == 0 && piece.location.node != self_.node) node->send(wire::ImportObject{piece.location});
  }
}

Result<std::vector<std::byte>> LargeValues::in_one_piece(std::span<const std::byte> payload, ByteCount most) {
  const auto client = opened();
  PHAROS_CHECK(client != nullptr);
  PHAROS_TRY(const std::vector<Decoder::Part> parts, gather(*client, payload, nullptr, false));
  std::size_t size = 0;
  for (const Decoder::Part& part : parts) size += part.bytes.size();
  if (size > most.bytes()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "the arguments take " + to_string(ByteCount{size}) + "; at most " + to_string(most) + " fit in one message",
        "Pass them in several calls."};
  }
  std::vector<std::byte> bytes;
  bytes.reserve(size);
  for (const Decoder::Part& part : parts) bytes.insert(bytes.end(), part.bytes.begin(), part.bytes.end());
  return bytes;
}

Result<std::vector<Decoder::Part>> LargeValues::gather(StoreClient& client, std::span<const std::byte> payload,
                                                       std::shared_ptr<const void> buffer, bool waits) {
  PHAROS_TRY(const InPieces read, read_pieces(payload));
  std::vector<Decoder::Part> parts;
  struct Used {
    std::shared_ptr<Object> object;
    std::shared_ptr<const View> view;  // null if all its pieces are values of Refs
  };
  std::map<object_store::Location, Used> objects;
  std::size_t done = 0;
  const auto add_own = [&](std::size_t until) {
    if (until != done) parts.push_back({read.bytes.subspan(done, until - done), buffer});
    done = until;
  };
  for (const Piece& piece : read.pieces) {
    add_own(piece.offset);
    auto& [object, view] = objects[piece.location];
    if (object == nullptr) {
      PHAROS_TRY(object, client.borrow(piece.location));
    }
    if (view == nullptr && piece.of_ref == 0) {
      PHAROS_TRY(view, waits ? object->read() : object->read_now());
      if (view == nullptr) return out_on_disk();
    }
    const auto all = object->where();
    if (piece.begin > all.size() || piece.size > all.size() - piece.begin) {
      return Error{ErrorCode::kCorrupt, "received a reference to bytes beyond the end of an object"};
    }
    std::shared_ptr<const void> owner = object;
    if (piece.of_ref == 0) owner = view;
    parts.push_back({all.subspan(piece.begin, piece.size), std::move(owner)});
  }
  add_own(read.bytes.size());
  return parts;
}

void LargeValues::take(std::span<const std::byte> payload, Taken then) {
  const auto read = read_pieces(payload);
  if (!read || read->pieces.size() != 1 || !read->bytes.empty()) {
    return then(Error{ErrorCode::kCorrupt, "received a large result that does not consist of exactly one object"});
  }
  const object_store::Location location = read->pieces.front().location;
  const auto client = opened();
  if (client != nullptr && client->is_here(location)) return then(client->take_over(location));
  background_.spawn(take_later(location, std::move(then)));
}

async::Async<void> LargeValues::take_later(object_store::Location location, Taken then) {
  then(co_await take(location));
}

// An object of another node is borrowed, not taken over: its maker keeps it until this process has a share in it.
async::Async<Result<std::shared_ptr<Object>>> LargeValues::take(object_store::Location location) {
  const auto client = co_await open_store();
  if (!client) co_return ended_.load() ? stopped() : Error{client.error()}.with("taking a large result");
  if ((*client)->is_here(location)) co_return (*client)->take_over(location);
  co_return co_await borrow(location);
}

async::Async<Result<std::shared_ptr<Object>>> LargeValues::find(object_store::Location location) {
  PHAROS_CO_TRY(auto object, co_await borrow(location));
  // A share in an object that is not in this node's memory does not tell whether the object still exists.
  if (!object->in_memory()) PHAROS_CO_TRY_VOID(co_await ask_to_bring(object->location()));
  co_return object;
}

async::Async<Result<std::shared_ptr<Object>>> LargeValues::borrow(object_store::Location location) {
  PHAROS_CO_TRY(const Opened opened, co_await open_store());
  if (opened->is_here(location)) co_return opened->borrow_here(location);
  for (int attempt = 1;; ++attempt) {
    PHAROS_CO_TRY(const object_store::Location here, co_await ask_to_import(location));
    if (!opened->is_here(here))
      co_return Error{ErrorCode::kCorrupt, "the node answered with an object of another node"};
    auto object = opened->borrow_here(here);
    if (object) (*object)->note_origin(location.node);
    if (object || object.error().code() != ErrorCode::kObjectLost || attempt == kImports) co_return object;
  }
}

std::byte* ObjectRoom::make(std::size_t bytes, std::size_t longest) {
  object_.reset();
  const auto there = values();
  auto made = there == nullptr ? Result<object_store::WritableObject>{stopped()} : there->create(bytes, heir_, label());
  if (!made) {
    why_ = std::move(made).error();
    return nullptr;
  }
  object_.emplace(*std::move(made));
  return longest >= kLargeWriteMin ? object_->where().data() : object_->bytes().data();
}

std::string label_of(const char* what, CallSite site) {
  const std::string_view path = site.file;
  return what + (" at " + std::string{path.substr(path.rfind('/') + 1)}) + ":" + std::to_string(site.line);
}

std::string RoomIn::label() const {
  return function_ == nullptr ? "result" : "result of " + readable_name(function_->name());
}

std::shared_ptr<Object> ObjectRoom::seal() {
  auto object = std::move(*object_).seal();
  object_.reset();
  return object;
}

Error not_encoded(const char* what, const Encoder& encoder) {
  return encoder.failure() == CodecFailure::kNoRoom ? room_of(encoder).why().with(std::string{"storing "} + what)
                                                    : detail::cannot_travel(what, encoder);
}

void Arrived::gather(LargeValues& values) {
  auto parts = values.gather(payload_, buffer_);
  if (!parts)
    throw BadArguments{std::move(parts).error().with("taking the arguments").with_outcome(Outcome::kNotStarted)};
  parts_ = *std::move(parts);
}

}  // namespace pharos::actors
