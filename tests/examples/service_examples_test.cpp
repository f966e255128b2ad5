#include <sys/wait.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "example_output.hpp"
#include "promised.hpp"
#include "temporary_folder.hpp"

namespace pharos::cluster::examples {
namespace {

using namespace std::chrono_literals;

// These examples take longer, and write their progress to standard error.

#ifdef RESNET_FASHION_MNIST
class ServiceExamplesTest : public ClusterTest {
 protected:
  ChildProgram::End end_of(const std::string& program, const std::vector<std::string>& arguments) {
    constexpr std::chrono::seconds kEnds{kIsSanitized ? 280 : 70};
    must_end_within(kEnds + 5s);
    return ChildProgram{program, arguments}.wait(kEnds);
  }
  static int status_of(const ChildProgram::End& end) { return WIFEXITED(end.status) ? WEXITSTATUS(end.status) : -1; }

  const TemporaryFolder folder_;
};

double last_number_after(const std::string& text, const std::string& output) {
  const auto numbers = numbers_after(text, output);
  EXPECT_FALSE(numbers.empty()) << output;
  return numbers.empty() ? 0 : numbers.back();
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

TEST_F(ServiceExamplesTest, AResNetLearnsPicturesAndIsSavedForOthers) {
  const std::string saved = folder_.path() / "resnet18.safetensors";
  const auto end = end_of(RESNET_FASHION_MNIST, {"--samples", "1000", "--save", saved});
  EXPECT_EQ(status_of(end), 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "learns 1000 pictures on 2 ranks; 250 others");
  EXPECT_GT(last_number_after("epoch  3: ", end.output), 60) << end.output;
  const std::string tensors = contents_of(saved);
  EXPECT_SAYS(tensors.substr(0, 20'000), "\"layer4.1.bn2.running_var\"");
  EXPECT_GT(tensors.size(), 44'000'000U);  // 11 million parameters of four bytes each
}

/// Writes IDX files of 12 x 12 pictures and their labels. A picture is dark except for one bright row, given by its
/// label.
void write_idx(const std::filesystem::path& images, const std::filesystem::path& kinds, int count) {
  constexpr int kSide = 12;
  const auto head = [](std::vector<int> sizes) {
    std::string bytes{'\0', '\0', '\x08', static_cast<char>(sizes.size())};
    for (const int size : sizes) bytes += {'\0', '\0', static_cast<char>(size >> 8), static_cast<char>(size & 0xff)};
    return bytes;
  };
  std::string pixels = head({count, kSide, kSide});
  std::string labels = head({count});
  for (int number = 0; number < count; ++number) {
    for (int at = 0; at < kSide * kSide; ++at) {
      const bool is_bright = at / kSide == 1 + number % 10;
      pixels += static_cast<char>(is_bright ? 200 : (at * 7 + number * 31) % 64);
    }
    labels += static_cast<char>(number % 10);
  }
  std::ofstream{images, std::ios::binary} << pixels;
  std::ofstream{kinds, std::ios::binary} << labels;
}

TEST_F(ServiceExamplesTest, AResNetReadsIdxFilesAndNamesADamagedOne) {
  const auto data = folder_.path();
  write_idx(data / "train-images-idx3-ubyte", data / "train-labels-idx1-ubyte", 320);
  write_idx(data / "t10k-images.idx3-ubyte", data / "t10k-labels.idx1-ubyte", 60);
  const auto end = end_of(RESNET_FASHION_MNIST, {"--data", data, "--epochs", "8"});
  EXPECT_EQ(status_of(end), 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "learns 320 pictures on 2 ranks; 60 others");

  std::filesystem::resize_file(data / "train-images-idx3-ubyte", 1000);
  const auto damaged = end_of(RESNET_FASHION_MNIST, {"--data", data});
  EXPECT_EQ(status_of(damaged), 1);
  EXPECT_SAYS(damaged.error, "train-images-idx3-ubyte");
  std::filesystem::remove(data / "t10k-labels.idx1-ubyte");
  write_idx(data / "train-images-idx3-ubyte", data / "train-labels-idx1-ubyte", 320);
  const auto incomplete = end_of(RESNET_FASHION_MNIST, {"--data", data});
  EXPECT_EQ(status_of(incomplete), 1);
  EXPECT_SAYS(incomplete.error, "t10k-labels-idx1-ubyte");
}

TEST_F(ServiceExamplesTest, AServiceThatIsStoppedAndKilledLearnsTheSame) {
  const std::string folder = folder_.path() / "service";
  const auto end = end_of(LONG_RUNNING_SERVICE, {"--folder", folder});
  EXPECT_EQ(status_of(end), 0) << end.output << end.error;
  const double stopped = last_number_after("stopped at step ", end.output);
  EXPECT_GT(stopped, 300 - 150) << "told at step 300, and killed";
  EXPECT_EQ(last_number_after("the newest checkpoint is of step ", end.output), stopped);
  EXPECT_EQ(last_number_after("resumed from step ", end.output), stopped);
  EXPECT_SAYS(end.output, " of the service is killed at step ");
  EXPECT_SAYS(end.output, "it has come back by itself as process ");
  EXPECT_SAYS(end.output, " of rank 1 is killed at step ");
  EXPECT_SAYS(end.output, "finished at step 1500; ranks that were replaced: 1");
  EXPECT_SAYS(end.output, "the same bits");
  EXPECT_TRUE(std::filesystem::exists(folder + "/service/reports.csv"));
  const std::string killed = " of the service is killed at step ";
  EXPECT_EQ(numbers_after(killed, end.output).size(), 3U) << "told to stop, having stopped, and training";
  const double lost = last_number_after(killed, end.output) - last_number_after("and gone on from step ", end.output);
  EXPECT_LT(lost, 150) << end.output;
  const auto again = end_of(LONG_RUNNING_SERVICE, {"--folder", folder, "--pharos-address="});
  EXPECT_EQ(status_of(again), 1);
  EXPECT_SAYS(again.error, "is there already");
}
TEST_F(ServiceExamplesTest, AServiceRefusesWhatItDoesNotKnow) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--steps", "abc"}, {"--steps", "1e3"}, {"--steps"}, {"--speed", "3"}}) {
    const auto end = end_of(LONG_RUNNING_SERVICE, arguments);
    EXPECT_EQ(status_of(end), 2) << arguments[0];
    EXPECT_SAYS(end.error, "usage: pharos-long-running-service");
  }
  const auto few = end_of(LONG_RUNNING_SERVICE, {"--steps", "499"});
  EXPECT_EQ(status_of(few), 1);
  EXPECT_SAYS(few.error, "too few steps");
}

TEST_F(ServiceExamplesTest, APictureThatCannotBeWrittenIsAnError) {
  const std::string picture = folder_.path() / "missing" / "x.svg";
  const std::vector<std::vector<std::string>> programs{
      {RESNET_FASHION_MNIST, "--samples", "100", "--epochs", "1", "--picture", picture},
      {TRANSFORMER_FSDP, "--steps", "2", "--picture", picture},
      {TWO_TOWER_RECOMMENDER, "--epochs", "1", "--picture", picture},
      {ASHA_MLP, "--trials", "2", "--picture", picture}};
  for (const auto& words : programs) {
    const auto end = end_of(words[0], {words.begin() + 1, words.end()});
    EXPECT_EQ(status_of(end), 1) << words[0] << end.output;
    EXPECT_SAYS(end.error, picture + " cannot be written");
  }
}
#endif

}  // namespace
}  // namespace pharos::cluster::examples
