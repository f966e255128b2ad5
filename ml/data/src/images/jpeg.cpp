// clang-format off
#include <cstdio>  // jpeglib.h needs it before itself
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <string>

#include "file_bytes.hpp"
#include "image_file.hpp"

// libjpeg reports errors by a function that must not return: it jumps back to guarded(), which throws.

namespace pharos::ml {
namespace {

/// More scans than an encoder makes: a small file of many scans would take minutes.
constexpr int kScansMax = 500;
/// The most pixels in a byte. A block of 64 grey ones takes a bit or more by Huffman's code.
constexpr std::uint64_t kPixelsOfByte = 1024;
constexpr int kScansError = -1;
constexpr std::int64_t kMoreColumns = 16;

struct JpegErrors {
  jpeg_error_mgr base{};  // the first member, by which libjpeg knows the object
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX]{};
};
JpegErrors& errors_of(j_common_ptr jpeg) {
  return *reinterpret_cast<JpegErrors*>(jpeg->err);
}

[[noreturn]] void leave(j_common_ptr jpeg) {
  jpeg->err->format_message(jpeg, errors_of(jpeg).message);
  std::longjmp(errors_of(jpeg).jump, 1);
}
/// Called for warnings (-1) and for traces. Only a file that is cut off is an error; Pillow takes it for one too.
void note(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) leave(jpeg);
}
void look_at_scans(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kScansMax) return;
  jpeg->err->msg_code = kScansError;
  std::longjmp(errors_of(jpeg).jump, 1);
}

/// Makes red, green and blue of CMYK. Programs write it inverted: 255 is no ink.
void convert_from_cmyk(std::uint8_t* pixel, std::size_t count) {
  const auto times = [](int a, int b) { return static_cast<std::uint8_t>((a * b + 127) / 255); };
  for (; count > 0; --count, pixel += Pixels::kBytes) {
    for (int color = 0; color < 3; ++color) pixel[color] = times(pixel[color], pixel[3]);
  }
}

class Jpeg final : public ImageFile {
 public:
  // The destructor also ends what a constructor has begun and not finished, because another one is complete.
  Jpeg(std::span<const std::byte> file, const std::string& name) : Jpeg{NotOpen{}, file, name} {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = &leave;
    errors_.base.emit_message = &note;
    progress_.progress_monitor = &look_at_scans;
    guarded([this] {
      jpeg_create_decompress(&jpeg_);
      jpeg_.progress = &progress_;
      jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
      jpeg_read_header(&jpeg_, TRUE);
    });
    check_size(size(), std::uint64_t{jpeg_.image_width} * jpeg_.image_height / kPixelsOfByte, file_.size(), name_);
    check_has_end();
    jpeg_.out_color_space = is_cmyk() ? JCS_CMYK : JCS_EXT_RGBX;
  }
  Jpeg(Jpeg&&) = delete;
  ~Jpeg() override { jpeg_destroy_decompress(&jpeg_); }

  Size size() const override { return {jpeg_.image_width, jpeg_.image_height}; }

  Pixels read(Box part) override {
    // libjpeg makes the colours of a pixel from those around it, and knows none beyond the columns that it decodes. So
    // it decodes some more on each side. Of fewer than about ten columns it makes wrong colours.
    JDIMENSION begin = static_cast<JDIMENSION>(std::max<std::int64_t>(part.x - kMoreColumns, 0));
    const std::int64_t end = std::min<std::int64_t>(part.x + part.width + kMoreColumns, jpeg_.image_width);
    JDIMENSION columns = static_cast<JDIMENSION>(end) - begin;
    guarded([&] {
      jpeg_start_decompress(&jpeg_);
      if (columns < jpeg_.output_width) jpeg_crop_scanline(&jpeg_, &begin, &columns);
      if (part.y > 0) jpeg_skip_scanlines(&jpeg_, static_cast<JDIMENSION>(part.y));
    });
    Pixels pixels{{columns, static_cast<std::uint32_t>(part.height)}, {part.x - begin, 0, part.width, part.height}};
    guarded([&] {
      for (std::int64_t y = 0; y < part.height; ++y) {
        std::uint8_t* row = pixels.whole_row(static_cast<std::size_t>(y));
        jpeg_read_scanlines(&jpeg_, &row, 1);
        if (is_cmyk()) convert_from_cmyk(row, columns);
      }
    });
    return pixels;
  }

 private:
  struct NotOpen {};
  Jpeg(NotOpen, std::span<const std::byte> file, const std::string& name) : file_{file}, name_{name} {}

  bool is_cmyk() const { return jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK; }

  /// Calls libjpeg. `work` must own nothing, because an error jumps out of it.
  template <class Work>
  void guarded(const Work& work) {
    if (setjmp(errors_.jump) != 0) refuse();
    work();
  }
  [[noreturn]] void refuse() const {
    if (errors_.base.msg_code == kScansError) {
      throw_corrupt(name_, "the JPEG has more than " + std::to_string(kScansMax) + " scans");
    }
    if (errors_.base.msg_code == JWRN_JPEG_EOF || errors_.base.msg_code == JERR_INPUT_EOF) refuse_as_cut_off();
    throw_corrupt(name_, std::string{"libjpeg says: "} + errors_.message);
  }
  [[noreturn]] void refuse_as_cut_off() const {
    throw_corrupt(name_, "the JPEG is cut off after " + std::to_string(file_.size()) + " bytes");
  }

  /// read() need not come to the end of the file. Whether a file is cut off must not depend on the part that is read.
  void check_has_end() const {
    const std::size_t rest = jpeg_.src->bytes_in_buffer;
    const std::span<const std::byte> data = file_.last(rest);
    for (std::size_t end = data.size(); end >= 2; --end) {
      if (data[end - 1] == std::byte{JPEG_EOI} && data[end - 2] == std::byte{0xFF}) return;
    }
    refuse_as_cut_off();
  }

  const std::span<const std::byte> file_;
  const std::string name_;
  JpegErrors errors_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct jpeg_{};
};

}  // namespace

std::unique_ptr<ImageFile> open_jpeg(std::span<const std::byte> file, const std::string& name) {
  return std::make_unique<Jpeg>(file, name);
}

}  // namespace pharos::ml
