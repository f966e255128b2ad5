#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/export.hpp>
#include <pharos/ml/dataset.hpp>

/// Datasets in shards: files of some thousand samples each, which lie elsewhere, and of which a machine has only a few
/// at a time. They suit data that is larger than a disk, or far away.
///
///   const auto shards = ml::shards_in("/mnt/bucket/text");
///   const auto data = ml::streamed({.shards = shards, .folder = "/mnt/bucket/text", .cache = "/tmp/text",
///                                   .cache_bytes = 20_GiB});
///   ml::Loader loader{data, {.batch = 64, .order = ml::Order::by_shards(ml::sizes_of(shards), 50'000, 8, 1)}};
///
/// In a learner the order is training_order().
namespace pharos::ml {

struct Shard {
  std::string name;  ///< a path relative to the folder
  std::uint64_t samples = 0;
};
/// Reads the file index.json of a folder, which write_shards() writes: {"shards": [{"name": …, "samples": …}, …]}.
/// Throws the error of the system, and an Exception with kCorrupt if the file makes no sense. Any thread.
PHAROS_API std::vector<Shard> shards_in(const std::filesystem::path& folder);
/// The numbers of samples, for Order::by_shards().
PHAROS_API std::vector<std::uint64_t> sizes_of(const std::vector<Shard>& shards);

/// Writes a dataset as shards of so many samples, each a safetensors file, and index.json at last. A folder without
/// that file is unfinished. Creates the folder. Throws InvalidArgument if a field varies or if a shard would have no
/// samples, and the error of the disk.
PHAROS_API void write_shards(const std::filesystem::path& folder, const Dataset& dataset, std::uint64_t samples);

/// Opens a shard: safetensors with one row of each tensor for each sample, or a tar archive as samples_in_tar(). The
/// name's end says which. Throws as these, and Unsupported for other names.
PHAROS_API DatasetPtr open_shard(const std::filesystem::path& path);
/// The samples of a tar archive, as WebDataset writes them: a sample is the files whose names are the same up to the
/// first point, "00017.jpg" and "00017.cls", and they follow each other. A field is the rest of a name, "jpg"; its u8
/// numbers are the bytes of the file, and vary. Maps the archive. Throws an Exception with kCorrupt, which names the
/// sample, if the archive is damaged or if a sample has other fields than the first one.
PHAROS_API DatasetPtr samples_in_tar(const std::filesystem::path& path);
struct StreamOptions {
  std::vector<Shard> shards{};
  /// Where the shards are: on a disk that this machine sees, or in a mounted bucket.
  std::filesystem::path folder{};
  /// Fetches a shard from elsewhere, and writes it to a path that does not exist. It must come to an end, and throw if
  /// it fails. Several threads call it at the same time. Empty: shards are copied from `folder`.
  std::function<void(const Shard& shard, const std::filesystem::path& to)> fetch{};
  /// Opens a shard that was fetched. Empty: open_shard().
  std::function<DatasetPtr(const std::filesystem::path& path)> open{};
  /// A folder on a disk of this machine, which keeps what was fetched. All processes of the machine share it. Empty:
  /// shards are opened where they are, in `folder`, and `fetch` must be empty, too.
  std::filesystem::path cache{};
  /// The most bytes that the cache should have; shards that were not used for the longest time are removed. It must
  /// hold the shards that the order needs at a time, or they are fetched again and again. Shards that are in use take
  /// their place on the disk until they are not.
  ByteCount cache_bytes = 64_GiB;
  /// A Loader tells the dataset which samples come, so that their shards are fetched before they are needed: so many
  /// samples of a rank ahead. 0: twice as many as the largest shard has.
  std::uint64_t ahead = 0;
};

/// A dataset whose samples are those of all shards, one after the other. Fetches and opens the first shard at once,
/// which says what fields there are, and each other one when a sample of it is read or will be read soon. A shard that
/// another process of this machine is fetching is waited for, and not fetched twice. Throws InvalidArgument if the
/// options make no sense. This function and read() throw what fetching and opening throw; a shard that has other fields
/// or another number of samples than it should is an Exception with kCorrupt. After an error read() tries again, and
/// fetches a corrupt shard again.
PHAROS_API DatasetPtr streamed(StreamOptions options);

}  // namespace pharos::ml
