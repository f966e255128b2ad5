#include <png.h>

#include <csetjmp>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "file_bytes.hpp"
#include "image_file.hpp"

// libpng reports errors by a function that must not return: it jumps back to guarded(), which throws.

namespace pharos::ml {
namespace {

constexpr std::uint64_t kDeflateMax = 1040;       // by how much deflate makes bytes fewer, at most
constexpr png_alloc_size_t kChunkMax = 64 << 20;  // of a comment or profile, which nobody reads

class Png final : public ImageFile {
 public:
  // The destructor also ends what a constructor has begun and not finished, because another one is complete.
  Png(std::span<const std::byte> file, const std::string& name) : Png{NotOpen{}, file, name} {
    guarded([this] {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, &Png::leave, [](png_structp, png_const_charp) {});
      if (png_ == nullptr) return;
      head_ = png_create_info_struct(png_);
      png_set_read_fn(png_, this, &Png::give);
      png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() has limits
      png_set_chunk_malloc_max(png_, kChunkMax);
      png_read_info(png_, head_);
    });
    if (png_ == nullptr || head_ == nullptr) throw std::bad_alloc{};
    check_size(size(), std::uint64_t{png_get_rowbytes(png_, head_)} * size().height / kDeflateMax, bytes_, name_);
  }
  Png(Png&&) = delete;
  ~Png() override { png_destroy_read_struct(&png_, &head_, nullptr); }

  Size size() const override { return {png_get_image_width(png_, head_), png_get_image_height(png_, head_)}; }

  Pixels read(Box part) override {
    bool is_interlaced = false;
    guarded([&] {
      is_interlaced = png_get_interlace_type(png_, head_) != PNG_INTERLACE_NONE;
      ask_for_four_bytes();
    });
    const Size whole = size();
    // The rows of an interlaced image come several times, and each time only some of their pixels.
    const std::uint32_t rows = is_interlaced ? whole.height : static_cast<std::uint32_t>(part.height);
    Pixels pixels{{whole.width, rows}, {part.x, is_interlaced ? part.y : 0, part.width, part.height}};
    std::vector<png_bytep> all(is_interlaced ? rows : 0);
    for (std::size_t y = 0; y < all.size(); ++y) all[y] = pixels.whole_row(y);
    guarded([&] {
      if (is_interlaced) return png_read_image(png_, all.data());
      for (std::int64_t y = 0; y < part.y; ++y) png_read_row(png_, pixels.whole_row(0), nullptr);
      for (std::uint32_t y = 0; y < rows; ++y) png_read_row(png_, pixels.whole_row(y), nullptr);
    });
    return pixels;
  }

 private:
  struct NotOpen {};
  Png(NotOpen, std::span<const std::byte> file, const std::string& name)
      : rest_{file}, bytes_{file.size()}, name_{name} {}

  void ask_for_four_bytes() {
    png_set_strip_16(png_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    png_set_filler(png_, 0xFF, PNG_FILLER_AFTER);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, head_);
    if (png_get_rowbytes(png_, head_) != std::size_t{size().width} * Pixels::kBytes) {
      png_error(png_, "the rows have another length than their pixels");
    }
  }

  /// Calls libpng. `work` must own nothing, because an error jumps out of it.
  template <class Work>
  void guarded(const Work& work) {
    if (setjmp(jump_) != 0) refuse();
    work();
  }
  [[noreturn]] void refuse() const {
    if (is_cut_off_) throw_corrupt(name_, "the PNG is cut off after " + std::to_string(bytes_) + " bytes");
    throw_corrupt(name_, std::string{"libpng says: "} + message_);
  }
  [[noreturn]] static void leave(png_structp png, png_const_charp message) {
    Png& self = *static_cast<Png*>(png_get_error_ptr(png));
    std::strncpy(self.message_, message, sizeof self.message_ - 1);
    std::longjmp(self.jump_, 1);
  }
  static void give(png_structp png, png_bytep to, std::size_t bytes) {
    Png& self = *static_cast<Png*>(png_get_io_ptr(png));
    if (bytes > self.rest_.size()) {
      self.is_cut_off_ = true;
      png_error(png, "cut off");
    }
    std::memcpy(to, self.rest_.data(), bytes);
    self.rest_ = self.rest_.subspan(bytes);
  }

  std::span<const std::byte> rest_;
  const std::size_t bytes_;
  const std::string name_;
  std::jmp_buf jump_{};
  char message_[200]{};
  bool is_cut_off_ = false;
  png_structp png_ = nullptr;
  png_infop head_ = nullptr;
};

}  // namespace

std::unique_ptr<ImageFile> open_png(std::span<const std::byte> file, const std::string& name) {
  return std::make_unique<Png>(file, name);
}

}  // namespace pharos::ml
