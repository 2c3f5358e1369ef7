// Device profiles: how long an operator takes, how large an allocation really is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "magis/base/id.h"
#include "magis/graph/graph.h"
#include "magis/simulate/measured_times.h"

namespace magis {

// What the time that is modelled for an operator comes to on one machine, fitted to measurements
// there: scale * modelled^exponent, in seconds.
struct Calibration {
  double scale = 1;
  double exponent = 1;
};

struct DeviceProfile {
  std::string name;
  double flops_per_second =
      0;  // peak matrix throughput in the model's main dtype (float32 unless stated)
  double half_flops_per_second = 0;  // for f16 and bf16
  double matmul_efficiency = 1;
  double bytes_per_second = 0;
  Seconds launch = 0;             // per operator
  double extra_matmul_flops = 0;  // charged per matmul or convolution (reference-h2)
  // Charged per matmul or convolution for each term of its sums, as far as they are not split:
  // what the last, half empty wave of tiles costs.
  double half_wave_flops = 0;
  Bytes allocation_granularity = 1;  // an allocation is rounded up to a multiple
  bool roofline = true;  // an operator takes the larger of its arithmetic's and its traffic's time;
                         // else their sum
  // The link to the host, which carries copies both ways at once.
  double link_bytes_per_second = 0;  // each way
  Seconds link_latency = 0;          // per copy
  bool copies_overlap = true;        // with computing and with each other; else the step waits
  Bytes host_memory = 0;             // what may be kept there unless the user says otherwise
  Bytes memory = 0;                  // of such a device in all; 0: it is no particular device
  // By operator; "" is for all others. Empty: not calibrated.
  std::map<std::string, Calibration, std::less<>> calibration = {};
  // Times measured on this device; they go ahead of what the figures above say. Null: none.
  std::shared_ptr<const MeasuredTimes> measured = nullptr;
};

// Throws UserError that lists the names if there is none of that name. Names: reference,
// reference-h2, rtx3090, a100, h100, h200, cpu.
const DeviceProfile& device_profile(std::string_view name);
std::vector<std::string> device_profile_names();

// The profile on which what makes small operators slow (their launch, what a product is charged
// beyond its arithmetic) is `factor` times as much.
DeviceProfile with_small_operators(DeviceProfile profile, double factor);

// Time and allocated bytes of everything in a graph under a profile, tabled once; what the
// simulator and the search read.
struct CostTable {
  IdMap<OpId, Seconds> seconds;
  IdMap<OpId, Bytes> scratch;
  IdMap<TensorId, Bytes> bytes;           // 0 for inputs: they are persistent
  IdMap<TensorId, Seconds> copy_seconds;  // to the host or back, once
  bool copies_overlap = true;
  Bytes host_memory = 0;  // the profile's
  Bytes persistent = 0;
};
CostTable make_cost_table(const Graph& graph, const DeviceProfile& profile);

// A call as often as a program runs it.
struct CallCount {
  std::string key;      // see call_key
  double runs = 0;      // in a step, iterations of loops counted each
  Seconds seconds = 0;  // of one run
  bool measured = false;
};
// The distinct calls of a graph whose operators run so many times each, loops apart, in program
// order; what only bounds a loop is left out. `copies` is usually 1: more where an operator is
// computed again.
std::vector<CallCount> count_calls(const Graph& graph, const IdMap<OpId, int>& copies,
                                   const DeviceProfile& profile);

}  // namespace magis
