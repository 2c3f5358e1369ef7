// Device profiles, and the measured times that go ahead of them.
#include "magis/simulate/profile.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "bindings.h"
#include "magis/base/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace magis {
namespace {

std::shared_ptr<MeasuredTimes> make_times(std::vector<std::pair<std::string, Seconds>> rows) {
  auto times = std::make_shared<MeasuredTimes>();
  for (auto& [key, seconds] : rows) times->add(std::move(key), seconds);
  return times;
}

DeviceProfile with_times(DeviceProfile profile, std::shared_ptr<MeasuredTimes> times) {
  profile.measured = std::move(times);
  return profile;
}

// By operator: (scale, exponent).
DeviceProfile with_calibration(DeviceProfile profile,
                               const std::map<std::string, std::pair<double, double>>& fits) {
  profile.calibration.clear();
  for (const auto& [name, fit] : fits) {
    if (!(fit.first > 0 && std::isfinite(fit.first) && fit.second > 0 && fit.second < 10)) {
      throw UserError("the calibration of " + name + " is not usable");
    }
    profile.calibration[name] = {.scale = fit.first, .exponent = fit.second};
  }
  return profile;
}

// A profile from its fields by name, for devices that users describe.
DeviceProfile make_profile(const std::string& name, const std::map<std::string, double>& figures,
                           bool copies_overlap) {
  DeviceProfile profile;
  profile.name = name;
  const std::map<std::string_view, double*> places = {
      {"flops_per_second", &profile.flops_per_second},
      {"half_flops_per_second", &profile.half_flops_per_second},
      {"matmul_efficiency", &profile.matmul_efficiency},
      {"bytes_per_second", &profile.bytes_per_second},
      {"launch_seconds", &profile.launch},
      {"half_wave_flops", &profile.half_wave_flops},
      {"link_bytes_per_second", &profile.link_bytes_per_second},
      {"link_seconds", &profile.link_latency}};
  const std::map<std::string_view, Bytes*> sizes = {
      {"allocation_bytes", &profile.allocation_granularity},
      {"host_memory_bytes", &profile.host_memory},
      {"memory_bytes", &profile.memory}};
  for (const auto& [field, figure] : figures) {
    if (const auto place = places.find(field); place != places.end()) {
      *place->second = figure;
    } else if (const auto size = sizes.find(field); size != sizes.end()) {
      *size->second = static_cast<Bytes>(figure);
    } else {
      throw UserError("a device profile has no figure \"" + field + "\"");
    }
  }
  profile.copies_overlap = copies_overlap;
  return profile;
}

}  // namespace

const DeviceProfile& profile_of(const PyDevice& device) {
  const auto* name = std::get_if<std::string>(&device);
  return name != nullptr ? device_profile(*name) : std::get<DeviceProfile>(device);
}

void bind_profile(nb::module_& m) {
  nb::class_<MeasuredTimes>(m, "MeasuredTimes")
      .def_static("of", &make_times, "rows"_a)
      .def("find",
           [](const MeasuredTimes& times, const std::string& key) { return times.find(key); })
      .def("__len__", &MeasuredTimes::size)
      .def_prop_ro("lookups", &MeasuredTimes::lookups)
      .def_prop_ro("misses", &MeasuredTimes::misses)
      .def_prop_ro("spelled", &MeasuredTimes::spelled);
  nb::class_<DeviceProfile>(m, "DeviceProfile")
      .def_static(
          "named", [](const std::string& name) { return device_profile(name); }, "name"_a)
      .def_ro("name", &DeviceProfile::name)
      .def("__str__", [](const DeviceProfile& profile) { return profile.name; })
      .def_static("of", &make_profile, "name"_a, "figures"_a, nb::kw_only(),
                  "copies_overlap"_a = true)
      .def(
          "with_small_operators",
          [](const DeviceProfile& profile, double factor) {
            if (!(factor > 0 && std::isfinite(factor))) {
              throw UserError("the cost of small operators can be scaled by positive factors only");
            }
            return with_small_operators(profile, factor);
          },
          "factor"_a)
      .def("with_calibration", &with_calibration, "fits"_a)
      .def("with_times", &with_times, "times"_a);
  nb::class_<CallCount>(m, "CallCount")
      .def_ro("key", &CallCount::key)
      .def_ro("runs", &CallCount::runs)
      .def_ro("seconds", &CallCount::seconds)
      .def_ro("measured", &CallCount::measured);
  m.def("device_profiles", &device_profile_names);
  m.def(
      "host_memory", [](const PyDevice& device) { return profile_of(device).host_memory; },
      "device"_a);
  m.def(
      "device_memory", [](const PyDevice& device) { return profile_of(device).memory; },
      "device"_a);
  m.def(
      "allocation_granularity",
      [](const PyDevice& device) { return profile_of(device).allocation_granularity; }, "device"_a);
  m.def(
      "copies_overlap", [](const PyDevice& device) { return profile_of(device).copies_overlap; },
      "device"_a);
}

}  // namespace magis
