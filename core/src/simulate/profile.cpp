#include "magis/simulate/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "magis/base/error.h"

namespace magis {
namespace {

// Allocations of PyTorch's CUDA caching allocator are multiples of this.
constexpr Bytes kCudaBlock = 512;
constexpr Seconds kCudaLaunch = 5e-6;
// What large GEMMs reach of the published peak.
constexpr double kGemmEfficiency = 0.75;
// What pinned memory reaches of PCI Express 4.0 and 5.0 with 16 lanes (31.5 and 63 GB/s each way).
constexpr double kPcie4 = 25e9;
constexpr double kPcie5 = 50e9;
constexpr Seconds kCopyLaunch = 10e-6;
constexpr Bytes kGiB = Bytes{1} << 30;
// A training machine has that much to spare.
constexpr Bytes kHostMemory = kGiB * 64;

// A fixed yardstick for comparison with other systems; not meant to describe any device, never to
// be tuned.
DeviceProfile reference(std::string name, double extra_matmul_flops) {
  return {.name = std::move(name),
          .flops_per_second = 35e12,
          .half_flops_per_second = 35e12,
          .matmul_efficiency = 0.6,
          .bytes_per_second = 936e9,
          .launch = 5e-6,
          .extra_matmul_flops = extra_matmul_flops,
          .allocation_granularity = 1,
          .roofline = false,
          .link_bytes_per_second = 12.3e9,
          .link_latency = 5e-6,
          .copies_overlap = true,
          .host_memory = kHostMemory};
}

// A product is computed in tiles, as many at once as there are multiprocessors, and the last wave
// of tiles is on average half empty (NVIDIA, "Matrix Multiplication Background User's Guide": tile
// and wave quantization): half a wave of tiles of 128 x 128, two operations for each term of a sum.
double half_a_wave(int multiprocessors) { return 0.5 * multiprocessors * 128 * 128 * 2; }

// Published dense peaks: float32 without tensor cores (PyTorch leaves TF32 off for matmul), 16-bit
// floats on tensor cores accumulating in float32.
DeviceProfile cuda(std::string name, double flops, double half_flops, double bytes_per_second,
                   int multiprocessors, double link_bytes_per_second, Bytes memory) {
  return {.name = std::move(name),
          .flops_per_second = flops,
          .half_flops_per_second = half_flops,
          .matmul_efficiency = kGemmEfficiency,
          .bytes_per_second = bytes_per_second,
          .launch = kCudaLaunch,
          .extra_matmul_flops = 0,
          .half_wave_flops = half_a_wave(multiprocessors),
          .allocation_granularity = kCudaBlock,
          .roofline = true,
          .link_bytes_per_second = link_bytes_per_second,
          .link_latency = kCopyLaunch,
          .copies_overlap = true,
          .host_memory = kHostMemory,
          .memory = memory};
}

// One thread of an x86 server core with AVX2 (an AMD EPYC), PyTorch 2.13, round figures from the
// best of 30 to 2000 calls each: float32 matmul of 1024^3, 1024x256x1024, a batch of 32 128x64x128,
// and a 3x3 convolution reach 85 to 91 GFLOP/s. On tensors of 4 MB gelu moves 7, its backward 10,
// layer norm and softmax 8, a transposing copy 9, a sum over rows 29, add and mul 71 GB/s, on 64 MB
// add moves 31 GB/s; 12 lies between the costly majority and the rest. A call on one element takes
// 3 us, plus 2 for Python. 16-bit matmul has no faster units there.
DeviceProfile cpu() {
  return {.name = "cpu",
          .flops_per_second = 100e9,
          .half_flops_per_second = 100e9,
          .matmul_efficiency = 0.9,
          .bytes_per_second = 12e9,
          .launch = 5e-6,
          .extra_matmul_flops = 0,
          .allocation_granularity = 1,
          .roofline = true,
          .link_bytes_per_second = 5e9,  // a copy reads and writes
          .link_latency = 5e-6,
          .copies_overlap = false,
          .host_memory = 0};
}

const auto& profiles() {
  static const std::array table{
      reference("reference", 0),
      reference("reference-h2", 2e9),
      // NVIDIA Ampere GA102 GPU Architecture whitepaper, table of the RTX 3090: 35.6 TFLOPS FP32
      // (as many with TF32), 71 dense FP16 with FP32 accumulation on tensor cores, 936 GB/s, 82
      // multiprocessors, 24 GB.
      cuda("rtx3090", 35.6e12, 71e12, 936e9, 82, kPcie4, kGiB * 24),
      // NVIDIA A100 80GB datasheet: 19.5 TFLOPS FP32, 312 dense BF16, 2,039 GB/s (SXM); 108
      // multiprocessors.
      cuda("a100", 19.5e12, 312e12, 2039e9, 108, kPcie4, kGiB * 80),  // SXM
      // NVIDIA H100 datasheet: 67 TFLOPS FP32, 989 dense BF16 (1,979 with sparsity), 3.35 TB/s
      // (SXM); 132 multiprocessors.
      cuda("h100", 67e12, 989e12, 3350e9, 132, kPcie5, kGiB * 80),  // SXM
      // NVIDIA H200 datasheet: as H100, 4.8 TB/s, 141 GB.
      cuda("h200", 67e12, 989e12, 4800e9, 132, kPcie5, kGiB * 140),
      cpu(),
  };
  return table;
}

}  // namespace

DeviceProfile with_small_operators(DeviceProfile profile, double factor) {
  MAGIS_CHECK(factor > 0 && std::isfinite(factor), "factor = " << factor);
  profile.launch *= factor;
  profile.extra_matmul_flops *= factor;
  profile.half_wave_flops *= factor;
  return profile;
}

std::vector<std::string> device_profile_names() {
  std::vector<std::string> names;
  for (const DeviceProfile& profile : profiles()) names.push_back(profile.name);
  return names;
}

const DeviceProfile& device_profile(std::string_view name) {
  const auto found = std::ranges::find(profiles(), name, &DeviceProfile::name);
  if (found != profiles().end()) return *found;
  std::string message = "unknown device profile \"" + std::string(name) + "\"; choose one of:";
  for (const std::string& known : device_profile_names()) message += " " + known;
  throw UserError(message);
}

}  // namespace magis
