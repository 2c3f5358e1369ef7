// Axis signatures: which loops an operator runs, and which of them walks each dimension of its
// operands and results (paper section 4.1, generalised to operators with many results). What
// splitting an operator along one of its axes means follows from its signature alone:
//   operands that have the axis are sliced, the others are shared;
//   a result that has it is concatenated, one that reduces it is combined, one that does not depend
//   on it is computed once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/graph.h"

namespace magis {

struct Axis {
  int64_t length = 0;
  bool splittable = true;  // false: the operator needs the axis whole (softmax's own)
  bool operator==(const Axis&) const = default;
};

// The axis that a dimension belongs to: `step` consecutive elements of the dimension belong to one
// element of the axis, so the dimension is axis length * step long. (A grouped convolution's
// channels belong to the axis of groups, step channels/groups.)
struct DimAxis {
  int axis = -1;  // -1: none, the dimension is never split
  int64_t step = 1;
  bool operator==(const DimAxis&) const = default;
};

// How one result depends on one axis.
enum class Dependence : uint8_t {
  sliced,  // one of its dimensions belongs to the axis: parts are concatenated
  sum,     // the axis is reduced: parts are combined by adding, or ...
  maximum,
  minimum,
  product,
  any,
  all,
  once,  // the result does not depend on the axis: any part computes it
};
std::string_view to_text(Dependence dependence);

// An integer argument that repeats a length and shrinks with the part: its value is axis length *
// step.
struct LengthArgument {
  int position = -1;    // in Call::args, or -1: the keyword argument `keyword`
  std::string keyword;  // empty if position >= 0
  int item = -1;        // within a list of integers; -1: the argument itself is the integer
  int axis = -1;
  int64_t step = 1;
  bool operator==(const LengthArgument&) const = default;
};

struct AxisSignature {
  std::vector<Axis> axes;
  // One row per value that for_each_value(call) visits, one entry per dimension (empty for
  // scalars).
  std::vector<std::vector<DimAxis>> operands;
  std::vector<std::vector<DimAxis>> results;  // one row per result; empty for undefined ones
  std::vector<std::vector<Dependence>>
      dependence;  // [result][axis]; empty rows for undefined results
  // Per operand: enters a summed result as it is (addmm's first operand, a convolution's bias):
  // only one part may add it.
  std::vector<bool> added_once;
  // Per operand: the kernel reads it as contiguous memory, whatever its strides say, or refuses it
  // otherwise. Whole, it is contiguous; a part that is not has to be copied.
  std::vector<bool> contiguous;
  std::vector<LengthArgument> lengths;
};

// The signature of `op`, or nothing: its kind has none (the operator is opaque to fission), or the
// attributes of this call rule splitting out altogether.
std::optional<AxisSignature> axis_signature(const Graph& graph, OpId op);

// One axis that a view shares with its base: `base_step` consecutive elements of dimension
// `base_dim` of the base are `view_step` consecutive elements of dimension `view_dim` of the view,
// and slices of whole such steps correspond. Reshapes link axes through leading factors only:
// [N,T,C] -> [N*T,C] links N (step 1) with N*T (step T), and T with nothing.
struct ViewAxis {
  int base_dim = -1;
  int view_dim = -1;
  int64_t base_step = 1;
  int64_t view_step = 1;
  bool operator==(const ViewAxis&) const = default;
};
// At most one link per base dimension and per view dimension. Requires a view.
std::vector<ViewAxis> view_axes(const Graph& graph, const Value& view);

// "mk, kn -> mn" style text of a signature, for messages and tests: each dimension is a letter ('.'
// for none), with its step before it; axes that a result lacks follow as +k (sum), *k, max k, =k
// (does not depend on it) ...; whole axes are in upper case. Lengths: "; 1.0=a, ...".
std::string to_text(const AxisSignature& signature);

}  // namespace magis
